"""Does effects one after another and, once each has answered, says so where nobody records: one line, one write.

Settings (a JSON object, the one argument): label, url, acks (the file), effects (how many per worker), mode (`plain`,
`decisions`, `threads`, `fork`), pause (seconds between effects). A line of the file is the effect's number and a digest
of what the program got; the first one is `pid` and the process's id.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from hashlib import sha256

import httpx

import tachograph

SETTINGS = json.loads(sys.argv[1])
EACH = 1000  # a worker's numbers begin at a multiple of it
ACKS = os.open(SETTINGS["acks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def acknowledge(number: int, got: bytes) -> None:
    """Say that an answer has come. What this says must be in the store, whatever happens next."""
    os.write(ACKS, b"%d %s\n" % (number, sha256(got).hexdigest().encode()))


@tachograph.tool(determinism="deterministic")
def look_up(number: int) -> str:
    """A tool: its value is what the program got."""
    return f"order {number} " * (number % 97)


def effect(client: httpx.Client, number: int) -> bytes:
    """One effect, and what came of it."""
    kind = number % 4
    if kind == 2:
        return look_up(number).encode()
    if kind == 3:
        return str(tachograph.external(f"stock-{number}", lambda: f"{number} left")).encode()
    asked = {"number": number, "stream": kind == 1, "said": f"question {number} " * (number % 211)}
    return client.post(SETTINGS["url"], json=asked).content


def work(first: int) -> None:
    """A worker's effects."""
    with httpx.Client(timeout=20.0) as client:
        for number in range(first, first + SETTINGS["effects"]):
            acknowledge(number, effect(client, number))
            print("done", number, flush=True)
            time.sleep(SETTINGS["pause"])


def in_decisions(first: int) -> None:
    """The same, three effects to a decision, of two people."""
    with httpx.Client(timeout=20.0) as client:
        for at in range(first, first + SETTINGS["effects"], 3):
            with tachograph.decision(agent="tortured", user=f"user-{at % 2}", session="s", request=at) as decided:
                for number in range(at, min(at + 3, first + SETTINGS["effects"])):
                    acknowledge(number, effect(client, number))
                    print("done", number, flush=True)
                    time.sleep(SETTINGS["pause"])
                decided.output(f"three from {at}")


def in_threads() -> None:
    """Two workers at once."""
    threads = [threading.Thread(target=work, args=(n * EACH,)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def forked() -> None:
    """A worker in a child that ends by itself, and one here."""
    child = os.fork()
    if not child:
        work(EACH)
        sys.exit(0)
    work(2 * EACH)
    os.waitpid(child, 0)


if __name__ == "__main__":
    os.write(ACKS, b"pid %d\n" % os.getpid())
    mode = SETTINGS["mode"]
    if mode == "threads":
        in_threads()
    elif mode == "fork":
        forked()
    elif mode == "decisions":
        in_decisions(0)
    else:
        work(0)
    print("end", flush=True)

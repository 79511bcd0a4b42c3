"""Puts everything that a program draws from clock and chance into one prompt, asks it, and prints it.

Settings: library, mode, url.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import secrets
import time
import uuid
from datetime import datetime as moment

from clients import SETTINGS, AsyncCaller, Caller, show

AT_IMPORT = time.time_ns()


def drawn() -> str:
    """One of each, in words."""
    own = random.Random()
    values = {
        "uuid4": uuid.uuid4(),
        "uuid1": uuid.uuid1(),
        "time": time.time(),
        "time_ns": time.time_ns(),
        "import": AT_IMPORT,
        "now": datetime.datetime.now(),
        "now in utc": moment.now(datetime.UTC),
        "monotonic": time.monotonic_ns(),
        "perf_counter": time.perf_counter_ns(),
        "random": random.random(),
        "randint": random.randint(0, 10**12),
        "shuffled": random.sample(range(1000), 5),
        "own generator": own.random(),
        "urandom": os.urandom(12).hex(),
        "token": secrets.token_hex(8),
        "choice": [secrets.choice("abcdefghij") for _ in range(12)],
    }
    return "\n".join(f"{name}: {value}" for name, value in values.items())


def main() -> None:
    """Ask it."""
    prompt = drawn()
    print(prompt)
    if SETTINGS["mode"] == "sync":
        show(Caller(SETTINGS["library"], SETTINGS["url"]).ask(prompt))
    else:
        show(asyncio.run(AsyncCaller(SETTINGS["library"], SETTINGS["url"]).ask(prompt)))


if __name__ == "__main__":
    main()

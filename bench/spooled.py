"""Real spools of several shapes, and what sealing them costs: each side in a process of its own.

`python -m bench.spooled write SHAPE COUNT` records into the store of TACHO_STORE as a program does, below the seams;
`python -m bench.spooled seal` takes in. Both print one JSON object with their peak memory.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from typing import Any

from tachograph.capture.recorder import Recorder
from tachograph.model.identity import mint
from tachograph.seams import context

URL = "http://127.0.0.1:9/v1/chat/completions"
HEADERS = [(b"content-type", b"application/json")]
_CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done " * 40}}
ANSWER = json.dumps({"model": "m", "choices": [_CHOICE], "usage": {"prompt_tokens": 9}}).encode()
BODY = 100_000
CALL_EVERY = 50  # of 10,000 decisions that interleave: how many are open at once


def peak_mb() -> float:
    """Return the most memory that this process has held, in MB (VmHWM: `exec` begins it anew, as `ru_maxrss` not)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


class _Window:
    """Requests of a long conversation of which the last 100 KB are sent: each has a turn that no other had."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._turns: list[str] = []
        self._size = 0

    def next(self, size: int) -> bytes:
        while True:
            words = self._chance.randbytes(750).hex()
            self._turns.append(f'{{"role": "user", "content": "{words}"}}')
            self._size += len(self._turns[-1])
            if self._size >= size:
                break
        while self._size > size:
            self._size -= len(self._turns.pop(0))
        return ('{"model": "m", "messages": [' + ", ".join(self._turns) + "]}").encode()


class _Fresh:
    """Requests that have nothing in common."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def next(self, size: int) -> bytes:
        words = self._chance.randbytes(size // 2).hex()
        return f'{{"model": "m", "messages": [{{"role": "user", "content": "{words}"}}]}}'.encode()


def _call(recorder: Recorder, body: bytes) -> None:
    exchange = recorder.call("httpx", "POST", URL, HEADERS, body)
    exchange.head(200, HEADERS, b"HTTP/1.1", b"OK")
    exchange.chunk(ANSWER)
    exchange.end("eof")


def _open(recorder: Recorder, session: str) -> tuple[int, str]:
    return recorder.open({"agent": "bench", "user": "u", "session": session, "request": "go"})


def _one(recorder: Recorder, count: int, *, bodies: _Window | _Fresh, closes: bool) -> None:
    number, _ = _open(recorder, "one")
    context.decision.set(number)
    for _ in range(count):
        _call(recorder, bodies.next(BODY))
    if closes:
        recorder.tell(_CLOSE, number, {})


def _many(recorder: Recorder, count: int) -> None:
    chance = random.Random(3)
    for first in range(0, count, CALL_EVERY):
        numbers = [_open(recorder, f"s-{first + n}")[0] for n in range(min(CALL_EVERY, count - first))]
        for _ in range(2):
            for number in numbers:
                context.decision.set(number)
                _call(recorder, _Fresh(chance.randrange(1 << 30)).next(4000))
        for number in numbers:
            recorder.tell(_CLOSE, number, {})


_CLOSE = 35  # frame.CLOSE


def write(shape: str, count: int) -> dict[str, Any]:
    """Record one shape into the store of TACHO_STORE."""
    from tachograph.store.location import open_store

    store = open_store(os.environ["TACHO_STORE"], create=True, environ=os.environ)
    run = mint("run", at_ms=time.time_ns() // 1_000_000, chance=os.urandom(10))
    recorder = Recorder(store.spool, run_id=run, public=store.intake_public_key, tag_key=store.keyring(os.environ).tag,
                        facts={"argv": ["bench"], "cwd": "/", "files": {}})  # fmt: skip
    if shape == "many":
        _many(recorder, count)
    else:
        bodies = _Fresh(1) if shape == "fresh" else _Window(1)
        _one(recorder, count, bodies=bodies, closes=shape != "unclosed")
    recorder.finish()
    return {"peakMb": peak_mb(), "spoolMb": sum(f.stat().st_size for f in os.scandir(store.spool)) / 1e6}


def seal() -> dict[str, Any]:
    """Take in what waits in the store of TACHO_STORE."""
    from tachograph import Store

    began = time.perf_counter()
    store = Store(os.environ["TACHO_STORE"])
    loaded = peak_mb()
    sealed = store.take_in()
    return {"peakMb": peak_mb(), "loadedMb": loaded, "sealed": len(sealed), "left": store.left,
            "seconds": time.perf_counter() - began}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(seal() if sys.argv[1] == "seal" else write(sys.argv[2], int(sys.argv[3]))))

"""Sleeps and runs out of time in every way, and says what it saw. Settings: seconds."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

SECONDS = json.loads(sys.argv[1])["seconds"]
woken: list[str] = []


def nap(name: str, seconds: float) -> None:
    """A thread's."""
    time.sleep(seconds)
    woken.append(name)


async def in_tasks() -> None:
    """Tasks, and a time-out around one that hangs."""

    async def one(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append(name)

    await asyncio.gather(one("slow", SECONDS), one("fast", SECONDS / 2))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), SECONDS)
    except TimeoutError:
        woken.append("gave up")


def tick() -> None:
    """A scheduler that nobody ends."""
    while True:
        time.sleep(SECONDS / 4)


threading.Thread(target=tick, daemon=True).start()
threads = [threading.Thread(target=nap, args=pair) for pair in (("second", SECONDS), ("first", SECONDS / 2))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
asyncio.run(in_tasks())
began = time.time()
print(threading.Event().wait(SECONDS), time.time() - began, woken)

"""Six calls from four threads with random pauses, and the other ways to hand work on. Settings: url, way."""

from __future__ import annotations

import asyncio
import contextvars
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import httpx
from clients import SETTINGS

URL = SETTINGS["url"]


def ask(number: int) -> str:
    """One call after a pause that nobody can foresee."""
    time.sleep(random.random() / 50)
    return httpx.post(URL, content=f"{number} {random.random()}").text


def pool() -> list[str]:
    """Six items for four workers, taken as they are done; which of two goes on first is the machine's affair."""
    with ThreadPoolExecutor(4) as workers:
        return sorted(done.result() for done in as_completed([workers.submit(ask, number) for number in range(6)]))


def threads() -> list[str]:
    """Six threads, each leaving its answer when it is done."""
    said: list[str] = []
    started = [threading.Thread(target=lambda number=number: said.append(ask(number))) for number in range(6)]
    for one in started:
        one.start()
    for one in started:
        one.join()
    return sorted(said)


def nested() -> list[str]:
    """Items that hand on items of their own."""
    with ThreadPoolExecutor(2) as outer, ThreadPoolExecutor(2) as inner:
        return list(outer.map(lambda number: "+".join(inner.map(ask, (number, number + 10))), range(3)))


def tasks() -> list[str]:
    """Threads of a loop, a task in the background, and a context of one's own."""

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        behind = asyncio.create_task(asyncio.to_thread(ask, 0))
        other = loop.run_in_executor(None, contextvars.copy_context().run, ask, 1)
        said = list(await asyncio.gather(*(asyncio.to_thread(ask, number) for number in range(2, 6))))
        return [*said, await other, await behind]

    return asyncio.run(main())


def daemon() -> list[str]:
    """A timer, and a daemon thread that is at work when the program ends."""
    said: list[str] = []
    later = threading.Timer(0.01, lambda: said.append(ask(1)))
    later.start()
    threading.Thread(target=lambda: [time.sleep(60), ask(99)], daemon=True).start()
    later.join()
    return said


print(globals()[SETTINGS["way"]]())
sys.stdout.flush()

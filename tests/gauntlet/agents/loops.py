"""Every client that awaits, in one program on one loop: alone, streamed, many at once, given up, refused.

Settings: url, refused (a URL at which nobody listens), `loop` ("uvloop" for that loop).
"""

from __future__ import annotations

import asyncio
import random
import uuid

from clients import SETTINGS, AsyncCaller, chain, running, show


async def several(caller: AsyncCaller, name: str) -> None:
    """Several at once, each in a task that draws."""

    async def one(number: int) -> str:
        got = await caller.ask(f"{name} {number}")
        return f"{got.text} {random.random()} {uuid.uuid4()}"

    print(await asyncio.gather(*[one(number) for number in range(5)]))


async def main() -> None:
    """One client after another."""
    for library in ("httpx", "httpx2", "openai", "aiohttp"):
        caller = AsyncCaller(library, SETTINGS["url"])
        show(await caller.ask("tide?"))
        async with caller.stream("flow") as answer:
            async for piece in answer.aiter_raw():
                print(library, repr(piece))
        await several(caller, library)
        try:
            await asyncio.wait_for(caller.ask("never"), 0.3)
        except TimeoutError as fault:
            print(type(fault).__name__)
        try:
            await AsyncCaller(library, SETTINGS["refused"]).ask("tide?")
        except Exception as fault:  # noqa: BLE001 - shown, whatever it is
            print(chain(fault))
        print(await asyncio.to_thread(lambda: str(uuid.uuid4())))
    print(type(asyncio.get_running_loop()).__module__)


if __name__ == "__main__":
    running(main())

"""Stops waiting for an answer by its own decision, then asks another question.

Settings: library, url; `how`: "wait_for" (a time limit of its own) or "cancel" (another task cancels it); `after`:
"call" (no byte has come) or "chunk" (the first chunk has come).
"""

from __future__ import annotations

import asyncio

from clients import SETTINGS, AsyncCaller, show

first = asyncio.Event()


async def read(caller: AsyncCaller) -> None:
    """Show what comes, for as long as it comes."""
    try:
        async with caller.stream("never ends") as answer:
            async for chunk in answer.aiter_raw():
                print(repr(chunk))
                first.set()
    except BaseException as fault:
        print("inside", type(fault).__name__)
        raise


async def main() -> None:
    """The question that is given up, then one that is not."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    try:
        if SETTINGS["how"] == "wait_for":
            await asyncio.wait_for(read(caller), 0.4)
        else:
            task = asyncio.create_task(read(caller))
            if SETTINGS["after"] == "chunk":
                await first.wait()
            else:
                await asyncio.sleep(0.2)
            task.cancel()
            await task
    except BaseException as fault:
        print("outside", type(fault).__name__)
    show(await caller.ask("and now?"))


if __name__ == "__main__":
    asyncio.run(main())

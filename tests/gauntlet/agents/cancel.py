"""Stops waiting for answers by its own decision, each time in another way, then asks a question that it waits for.

Settings: library, url. The ways: a time limit of its own; another task that cancels before a byte has come; one that
cancels after the first chunk.
"""

from __future__ import annotations

import asyncio

from clients import SETTINGS, AsyncCaller, show


async def read(caller: AsyncCaller, prompt: str, first: asyncio.Event) -> None:
    """Show what comes, for as long as it comes."""
    try:
        async with caller.stream(prompt) as answer:
            async for chunk in answer.aiter_raw():
                print(repr(chunk))
                first.set()
    except BaseException as fault:
        print(prompt, "inside", type(fault).__name__)
        raise


async def given_up(caller: AsyncCaller, how: str) -> None:
    """One answer that is given up."""
    first = asyncio.Event()
    if how == "by a limit":
        await asyncio.wait_for(read(caller, how, first), 0.3)
        return
    task = asyncio.create_task(read(caller, how, first))
    if how == "after a chunk":
        await first.wait()
    else:
        await asyncio.sleep(0.2)
    task.cancel()
    await task


async def main() -> None:
    """The answers that are given up, then one that is not."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    for how in ("by a limit", "before a byte", "after a chunk"):
        try:
            await given_up(caller, how)
        except BaseException as fault:  # noqa: BLE001 - shown, whatever it is
            print(how, "outside", type(fault).__name__)
    show(await caller.ask("and now?"))


if __name__ == "__main__":
    asyncio.run(main())

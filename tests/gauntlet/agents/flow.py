"""Reads one streamed answer chunk by chunk with `iter_raw` and shows each chunk, then asks a last, plain question.

Settings: library, mode, url; `stop`: after so many chunks, or "done" for [DONE]; `leave_open`: end the program with the
stream open; `acknowledge`: a file to touch when the first chunk is there; `then`: the prompt of the last question.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from clients import SETTINGS, AsyncCaller, Caller, chain, show

kept: list[Any] = []  # what stays open when the program ends


class Reader:
    """What came so far, and whether the program has enough."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def took(self, chunk: bytes) -> bool:
        """Show a chunk; True when the program stops reading here."""
        self.seen.append(chunk)
        print(len(chunk), repr(chunk), flush=True)
        if "acknowledge" in SETTINGS:
            Path(SETTINGS["acknowledge"]).touch()
        stop = SETTINGS.get("stop")
        return b"[DONE]" in b"".join(self.seen) if stop == "done" else len(self.seen) == stop


def sync() -> None:
    """With a client that blocks."""
    caller, reader = Caller(SETTINGS["library"], SETTINGS["url"]), Reader()
    try:
        if SETTINGS.get("leave_open"):
            opened = caller.stream("go on")
            parts = opened.__enter__().iter_raw()
            kept.extend((opened, parts))
            while not reader.took(next(parts)):
                pass
        else:
            with caller.stream("go on") as answer:
                print(answer.status_code, answer.headers.raw)
                for chunk in answer.iter_raw():
                    if reader.took(chunk):
                        break
    except Exception as fault:
        print(chain(fault), str(fault))
    if "then" in SETTINGS:
        show(caller.ask(SETTINGS["then"]))


async def asynchronous() -> None:
    """With a client that awaits."""
    caller, reader = AsyncCaller(SETTINGS["library"], SETTINGS["url"]), Reader()
    try:
        if SETTINGS.get("leave_open"):
            opened = caller.stream("go on")
            parts = (await opened.__aenter__()).aiter_raw()
            kept.extend((opened, parts))
            while not reader.took(await anext(parts)):
                pass
        else:
            async with caller.stream("go on") as answer:
                print(answer.status_code, answer.headers.raw)
                async for chunk in answer.aiter_raw():
                    if reader.took(chunk):
                        break
    except Exception as fault:
        print(chain(fault), str(fault))
    if "then" in SETTINGS:
        show(await caller.ask(SETTINGS["then"]))


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        asyncio.run(asynchronous())
    print("end", flush=True)

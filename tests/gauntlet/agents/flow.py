"""Reads streamed answers, one after another, with `iter_raw`; shows each chunk and how each reading ended.

Settings: library, mode, url; `reads`: each the prompt, and perhaps `stop` (after so many chunks, or "done" for [DONE])
and `acknowledge` (a file to touch when a chunk is there); `leave_open`: end the program with the last stream open;
`then`: the prompt of a last, plain question.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from clients import SETTINGS, AsyncCaller, Caller, chain, show

kept: list[Any] = []  # what stays open when the program ends


class Reader:
    """What came so far of one answer, and whether the program has enough."""

    def __init__(self, read: dict[str, Any]) -> None:
        self._read = read
        self._seen = b""
        self._count = 0

    def took(self, chunk: bytes) -> bool:
        """Show a chunk; True when the program stops reading here."""
        self._seen += chunk
        self._count += 1
        print(len(chunk), repr(chunk), flush=True)
        if "acknowledge" in self._read:
            Path(self._read["acknowledge"]).touch()
        stop = self._read.get("stop")
        return b"[DONE]" in self._seen if stop == "done" else self._count == stop


def sync() -> None:
    """With a client that blocks."""
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    for read in SETTINGS["reads"]:
        reader = Reader(read)
        try:
            if SETTINGS.get("leave_open"):
                opened = caller.stream(read["prompt"])
                parts = opened.__enter__().iter_raw()
                kept.extend((opened, parts))
                while not reader.took(next(parts)):
                    pass
                continue
            with caller.stream(read["prompt"]) as answer:
                print(answer.status_code, answer.headers.raw)
                for chunk in answer.iter_raw():
                    if reader.took(chunk):
                        break
        except Exception as fault:  # noqa: BLE001 - shown, whatever it is
            print(chain(fault), str(fault))
    if "then" in SETTINGS:
        show(caller.ask(SETTINGS["then"]))


async def asynchronous() -> None:
    """With a client that awaits."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    for read in SETTINGS["reads"]:
        reader = Reader(read)
        try:
            if SETTINGS.get("leave_open"):
                opened = caller.stream(read["prompt"])
                parts = (await opened.__aenter__()).aiter_raw()
                kept.extend((opened, parts))
                while not reader.took(await anext(parts)):
                    pass
                continue
            async with caller.stream(read["prompt"]) as answer:
                print(answer.status_code, answer.headers.raw)
                async for chunk in answer.aiter_raw():
                    if reader.took(chunk):
                        break
        except Exception as fault:  # noqa: BLE001 - shown, whatever it is
            print(chain(fault), str(fault))
    if "then" in SETTINGS:
        show(await caller.ask(SETTINGS["then"]))


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        asyncio.run(asynchronous())
    print("end", flush=True)

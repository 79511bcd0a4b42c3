"""Makes the calls that its settings list, with any method and any body, and shows the bytes that came back.

Settings: library, mode, url, `calls`: each a method, a path, and one of `hex` (a body of these bytes), `parts` (a body
that is produced in pieces while it is sent), `files` (a multipart form; the library draws its boundary, or `boundary`:
"undrawn" takes the process number, which no recorder sees) or nothing.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from clients import SETTINGS, beside

CALLS = json.loads(beside("calls.json", "null")) or SETTINGS["calls"]


def pieces(parts: list[str]) -> Iterator[bytes]:
    """A body in pieces."""
    for part in parts:
        yield part.encode()


async def pieces_async(parts: list[str]) -> AsyncIterator[bytes]:
    """A body in pieces, awaited."""
    for part in parts:
        yield part.encode()


def options(call: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one call, all by keyword."""
    given: dict[str, Any] = {"method": call.get("method", "POST"), "url": SETTINGS["url"] + call.get("path", "/")}
    if "hex" in call:
        given["content"] = bytes.fromhex(call["hex"])
    elif "text" in call:
        given["content"] = call["text"].encode()
    elif "parts" in call:
        given["content"] = (pieces if SETTINGS["mode"] == "sync" else pieces_async)(call["parts"])
    elif "files" in call:
        given["files"] = {name: (f"{name}.txt", text.encode(), "text/plain") for name, text in call["files"].items()}
        if call.get("boundary") == "undrawn":
            given["headers"] = {"content-type": f"multipart/form-data; boundary=b-{os.getpid()}"}
    if "headers" in call:
        given["headers"] = call["headers"]
    return given


def seen(answer: Any, raw: list[bytes]) -> None:
    """Head, wire bytes, and what the client makes of them."""
    print(answer.status_code, answer.headers.raw)
    print(len(b"".join(raw)), [chunk.hex() for chunk in raw])


def decoded(answer: Any) -> None:
    """What the client decodes the body to."""
    print("decoded", len(answer.content), answer.content.hex(), flush=True)


def sync() -> None:
    """With a client that blocks."""
    client = importlib.import_module(SETTINGS["library"]).Client(timeout=20)
    for call in CALLS:
        if call.get("raw", True):
            with client.stream(**options(call)) as answer:
                seen(answer, list(answer.iter_raw()))
        else:
            decoded(client.request(**options(call)))


async def asynchronous() -> None:
    """With a client that awaits."""
    client = importlib.import_module(SETTINGS["library"]).AsyncClient(timeout=20)
    for call in CALLS:
        if call.get("raw", True):
            async with client.stream(**options(call)) as answer:
                seen(answer, [chunk async for chunk in answer.aiter_raw()])
        else:
            decoded(await client.request(**options(call)))


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        asyncio.run(asynchronous())

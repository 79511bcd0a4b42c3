"""Sends the same key in a header, in the query and in the body, and shows what came back.

Settings: library, mode, url, `acknowledge`: a file to touch at the first chunk of the answer. The key stands in the
environment, as API keys do, or in the file `key.txt` beside it. The file `body_key.txt`, if there is one, gives the
body another text for it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path

from clients import SETTINGS, beside

KEY = beside("key.txt") or os.environ["GAUNTLET_API_KEY"]
IN_BODY = beside("body_key.txt", KEY)
CALL = {
    "method": "POST",
    "url": f"{SETTINGS['url']}/v1/chat/completions",
    "params": {"api_key": KEY, "page": "1"},
    "headers": {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "cookie": f"session={KEY}"},
    "json": {"messages": [{"role": "user", "content": f"my key is {IN_BODY}, the word is heliotrope"}]},
}


def took(chunk: bytes) -> None:
    """Show a chunk, and say that it is here."""
    print(repr(chunk), flush=True)
    if "acknowledge" in SETTINGS:
        Path(SETTINGS["acknowledge"]).touch()


def sync(library: str) -> None:
    """httpx or httpx2, blocking."""
    client = importlib.import_module(library).Client(timeout=30)
    with client.stream(**CALL) as answer:
        print(answer.status_code, [name for name, _ in answer.headers.raw])
        for chunk in answer.iter_raw():
            took(chunk)


async def asynchronous(library: str) -> None:
    """httpx or httpx2, awaiting."""
    client = importlib.import_module(library).AsyncClient(timeout=30)
    async with client.stream(**CALL) as answer:
        print(answer.status_code, [name for name, _ in answer.headers.raw])
        async for chunk in answer.aiter_raw():
            took(chunk)


def requests() -> None:
    """requests, whose connection is watched at the socket."""
    with importlib.import_module("requests").request(**CALL, stream=True) as answer:
        print(answer.status_code, list(answer.headers))
        for chunk in answer.iter_content(None):
            took(chunk)


def sdk() -> None:
    """The openai SDK takes the key from its own argument."""
    openai = importlib.import_module("openai")
    client = openai.OpenAI(base_url=f"{SETTINGS['url']}/v1", api_key=KEY, default_query=CALL["params"])
    opened = client.chat.completions.with_streaming_response.create(**CALL["json"], model="small", stream=True)
    with opened as answer:
        for chunk in answer.http_response.iter_raw():
            took(chunk)


if __name__ == "__main__":
    if SETTINGS["library"] == "openai":
        sdk()
    elif SETTINGS["library"] == "requests":
        requests()
    elif SETTINGS["mode"] == "sync":
        sync(SETTINGS["library"])
    else:
        asyncio.run(asynchronous(SETTINGS["library"]))

"""Reads a streamed completion the way the openai SDK's page shows it: parsed chunks, which end at [DONE].

Settings: mode, url, `stop`: after so many parsed chunks.
"""

from __future__ import annotations

import asyncio

import openai
from clients import SETTINGS, chain, payload

OPTIONS = {"base_url": f"{SETTINGS['url']}/v1", "api_key": "sk-gauntlet", "max_retries": 0}


def took(number: int, chunk: openai.types.chat.ChatCompletionChunk) -> bool:
    """Show a parsed chunk; True when the program stops here."""
    print(chunk.model_dump_json(), flush=True)
    return number == SETTINGS.get("stop")


def sync() -> None:
    """With the client that blocks."""
    with openai.OpenAI(**OPTIONS) as client:
        for number, chunk in enumerate(client.chat.completions.create(**payload("go on"), stream=True), start=1):
            if took(number, chunk):
                break


async def asynchronous() -> None:
    """With the client that awaits."""
    async with openai.AsyncOpenAI(**OPTIONS) as client:
        number = 0
        async for chunk in await client.chat.completions.create(**payload("go on"), stream=True):
            number += 1
            if took(number, chunk):
                break


if __name__ == "__main__":
    try:
        if SETTINGS["mode"] == "sync":
            sync()
        else:
            asyncio.run(asynchronous())
    except Exception as fault:
        print(chain(fault), str(fault))
    print("end")

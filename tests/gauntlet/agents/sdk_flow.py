"""Reads a streamed completion the way the openai SDK's page shows it: parsed chunks, which end at [DONE].

Settings: mode, url, `stops`: for each answer, after how many parsed chunks it is left (null: at its end).
"""

from __future__ import annotations

import asyncio

import openai
from clients import SETTINGS, chain, payload

OPTIONS = {"base_url": f"{SETTINGS['url']}/v1", "api_key": "sk-gauntlet", "max_retries": 0}


def took(chunk: openai.types.chat.ChatCompletionChunk) -> None:
    """Show a parsed chunk."""
    print(chunk.model_dump_json(), flush=True)


def sync() -> None:
    """With the client that blocks."""
    with openai.OpenAI(**OPTIONS) as client:
        for stop in SETTINGS["stops"]:
            for number, chunk in enumerate(client.chat.completions.create(**payload("go on"), stream=True), start=1):
                took(chunk)
                if number == stop:
                    break


async def asynchronous() -> None:
    """With the client that awaits."""
    async with openai.AsyncOpenAI(**OPTIONS) as client:
        for stop in SETTINGS["stops"]:
            number = 0
            async for chunk in await client.chat.completions.create(**payload("go on"), stream=True):
                took(chunk)
                number += 1
                if number == stop:
                    break


if __name__ == "__main__":
    try:
        if SETTINGS["mode"] == "sync":
            sync()
        else:
            asyncio.run(asynchronous())
    except Exception as fault:  # noqa: BLE001 - shown, whatever it is
        print(chain(fault), str(fault))
    print("end")

"""Works with the anthropic SDK: a tool, a stream that is read, one that is left, a retry, an error.

Settings: mode, url, `loop` ("uvloop" for that loop).
"""

from __future__ import annotations

from typing import Any

import anthropic
from clients import SETTINGS, running

OPTIONS = {"base_url": SETTINGS["url"], "api_key": "sk-ant-gauntlet", "max_retries": 1, "timeout": 20.0}
TOOLS = [{"name": "tide", "description": "When the tide is high.", "input_schema": {"type": "object"}}]


def asked(prompt: str, *more: Any) -> dict[str, Any]:
    """The arguments of a call."""
    said = [{"role": "user", "content": prompt}, *more]
    return {"model": "claude-small", "max_tokens": 64, "messages": said, "tools": TOOLS}


def answered(message: Any) -> list[Any]:
    """Show a message; return what the tool is to give back."""
    print(message.model_dump_json(), flush=True)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "at noon"}
        for block in message.content
        if block.type == "tool_use"
    ]
    return [{"role": "assistant", "content": message.to_dict()["content"]}, {"role": "user", "content": results}]


def sync() -> None:
    """With the client that blocks."""
    client = anthropic.Anthropic(**OPTIONS)
    turn = answered(client.messages.create(**asked("tool")))
    answered(client.messages.create(**asked("tool", *turn)))
    with client.messages.stream(**asked("stream")) as stream:
        for text in stream.text_stream:
            print(repr(text), flush=True)
        answered(stream.get_final_message())
    with client.messages.stream(**asked("stream")) as stream:
        for event in stream:
            print(event.type, flush=True)
            if event.type == "text":
                break
    for prompt in ("limit", "error"):
        try:
            answered(client.messages.create(**asked(prompt)))
        except anthropic.APIStatusError as fault:
            print(type(fault).__name__, fault.status_code, fault.body)


async def asynchronous() -> None:
    """With the client that awaits."""
    client = anthropic.AsyncAnthropic(**OPTIONS)
    turn = answered(await client.messages.create(**asked("tool")))
    answered(await client.messages.create(**asked("tool", *turn)))
    async with client.messages.stream(**asked("stream")) as stream:
        async for text in stream.text_stream:
            print(repr(text), flush=True)
        answered(await stream.get_final_message())
    async with client.messages.stream(**asked("stream")) as stream:
        async for event in stream:
            print(event.type, flush=True)
            if event.type == "text":
                break
    for prompt in ("limit", "error"):
        try:
            answered(await client.messages.create(**asked(prompt)))
        except anthropic.APIStatusError as fault:
            print(type(fault).__name__, fault.status_code, fault.body)


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        running(asynchronous())
    print("end")

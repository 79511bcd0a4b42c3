"""Answers that the gauntlet's servers give: chat completions whose text is a function of the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tachograph.testing.scripted import Reply, Request, json_reply


def prompt_of(request: Request) -> str:
    """The last message of a chat request."""
    asked: Any = request.json()
    return str(asked["messages"][-1]["content"])


def completion(text: str, *, number: int = 0, headers: Mapping[str, str] | None = None) -> Reply:
    """A whole answer; its id, its `x-request-id` and its text tell it from every other."""
    message = {"role": "assistant", "content": text}
    said = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": "small",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    return json_reply(said, headers={"x-request-id": f"req-{number}", **(headers or {})})


def echo(request: Request) -> Reply:
    """An answer that repeats the question: whose answer it is can be read off."""
    return completion(f"re: {prompt_of(request)}", number=request.number)


def piece(text: str, *, stop: str | None = None) -> bytes:
    """One server-sent event of a streamed completion, text as UTF-8."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": stop}
    said = {"id": "chatcmpl-s", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": [choice]}
    return b"data: " + json.dumps(said, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"

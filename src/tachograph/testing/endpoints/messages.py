"""Anthropic messages: `POST /v1/messages`, whole and streamed.

Streamed: message_start, then per content block its start, deltas and stop (a ping after the first start, as the
provider sends one), message_delta with the stop reason and the output tokens, message_stop.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from tachograph.testing.answers import CallArguments, CallOpened, Finished, Piece, Text, prompt_tokens, whole
from tachograph.testing.endpoints.shape import Body, Endpoint, Identity, arguments_of, objects, sampling_of, tool_of
from tachograph.testing.event_stream import event
from tachograph.testing.model_request import (
    Message,
    ModelRequest,
    ToolCall,
    ToolChoice,
    Unanswerable,
    choose,
    text_of,
)

_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_CHOICES: dict[str, ToolChoice] = {"auto": "auto", "any": "required", "none": "none", "tool": "required"}


def read(body: Body) -> ModelRequest:
    """The question. Raises `Unanswerable` for a field of the wrong kind."""
    if not isinstance(body.get("max_tokens"), int):
        raise Unanswerable("max_tokens: field required")
    tools = tuple(tool_of(tool, "input_schema") for tool in objects(body, "tools"))
    choice = body.get("tool_choice") or {"type": "auto"}
    kind = _CHOICES.get(choice.get("type", ""))
    if kind is None:
        raise Unanswerable(f"tool_choice cannot be {choice!r}")
    if choice["type"] == "tool":
        tools = choose(tools, str(choice.get("name", "")))
    system = text_of(body.get("system"))
    first = (Message(role="system", text=system),) if system else ()
    return ModelRequest(
        model=str(body.get("model", "")),
        messages=(*first, *(part for message in objects(body, "messages") for part in _messages(message))),
        tools=tools,
        tool_choice=kind,
        sampling=sampling_of(body, stop="stop_sequences"),
    )


def write_whole(body: Body, identity: Identity, pieces: Iterable[Piece]) -> dict[str, Any]:
    """The `message` object."""
    text, calls, end = whole(pieces)
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text or not calls else []
    content += [
        {**_tool_block(identity, index, made.name), "input": arguments_of(made.arguments)}
        for index, made in enumerate(calls)
    ]
    usage = {"input_tokens": end.usage.prompt, "output_tokens": end.usage.completion}
    return _head(body, identity, content=content, stop_reason=_REASONS[end.reason], usage=usage)


def write_events(body: Body, identity: Identity, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The stream of named events. message_start counts the prompt's words: the brain's count comes last."""
    index = -1
    calls = 0
    open_kind = ""

    def begin(kind: str, block: dict[str, Any]) -> Iterator[bytes]:
        nonlocal index, open_kind
        yield from end()
        index, open_kind = index + 1, kind
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        if index == 0:
            yield _event({"type": "ping"})

    def end() -> Iterator[bytes]:
        nonlocal open_kind
        if open_kind:
            yield _event({"type": "content_block_stop", "index": index})
            open_kind = ""

    def delta(fields: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": index, "delta": fields})

    start = {"input_tokens": prompt_tokens(read(body)), "output_tokens": 1}
    yield _event({"type": "message_start", "message": _head(body, identity, content=[], stop_reason=None, usage=start)})
    for piece in pieces:
        match piece:
            case Text(text):
                if open_kind != "text":
                    yield from begin("text", {"type": "text", "text": ""})
                yield delta({"type": "text_delta", "text": text})
            case CallOpened(name):
                yield from begin("tool_use", {**_tool_block(identity, calls, name), "input": {}})
                calls += 1
            case CallArguments(text):
                yield delta({"type": "input_json_delta", "partial_json": text})
            case Finished(reason=reason, usage=usage):
                yield from end()
                stopped = {"stop_reason": _REASONS[reason], "stop_sequence": None}
                counted = {"input_tokens": usage.prompt, "output_tokens": usage.completion}
                yield _event({"type": "message_delta", "delta": stopped, "usage": counted})
                yield _event({"type": "message_stop"})


def _event(fields: dict[str, Any]) -> bytes:
    return event(fields, name=fields["type"])


def _messages(message: Body) -> Iterator[Message]:
    role = message.get("role")
    if role not in ("user", "assistant"):
        raise Unanswerable(f"no such role: {role!r}")
    content = message.get("content")
    if not isinstance(content, list):
        yield Message(role=role, text=text_of(content))
        return
    for block in objects(message, "content"):
        match block.get("type"):
            case "tool_use":
                arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
                made = ToolCall(id=str(block.get("id", "")), name=str(block.get("name", "")), arguments=arguments)
                yield Message(role="assistant", tool_calls=(made,))
            case "tool_result":
                answers = str(block.get("tool_use_id", ""))
                yield Message(role="tool", text=text_of(block.get("content")), answers=answers)
            case _:
                yield Message(role=role, text=text_of([cast(object, block)]))


def _head(body: Body, identity: Identity, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"msg_{identity.key}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": fields["content"],
        "stop_reason": fields["stop_reason"],
        "stop_sequence": None,
        "usage": fields["usage"],
    }


def _tool_block(identity: Identity, index: int, name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{identity.key}_{index}", "name": name}


ENDPOINT = Endpoint(read=read, whole=write_whole, events=write_events)

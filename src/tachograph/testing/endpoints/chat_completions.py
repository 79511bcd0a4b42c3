"""OpenAI chat completions: `POST /v1/chat/completions`, whole and streamed.

Streamed: a first delta with the role, then content or tool-call deltas, a delta with the finish reason, the usage chunk
where `stream_options.include_usage` asks for it, and `data: [DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from tachograph.testing.answers import CallArguments, CallOpened, Finished, Piece, Text, Usage, whole
from tachograph.testing.endpoints.shape import Body, Endpoint, Identity, objects, sampling_of, tool_of
from tachograph.testing.event_stream import event
from tachograph.testing.model_request import (
    Message,
    ModelRequest,
    Role,
    ToolCall,
    ToolChoice,
    Unanswerable,
    choose,
    text_of,
)

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def read(body: Body) -> ModelRequest:
    """The question. Raises `Unanswerable` for a field of the wrong kind."""
    tools = tuple(tool_of(tool.get("function") or {}, "parameters") for tool in objects(body, "tools"))
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        tools, choice = choose(tools, choice.get("function", {}).get("name", "")), "required"
    if choice not in ("auto", "none", "required"):
        raise Unanswerable(f"tool_choice cannot be {choice!r}")
    wanted = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    return ModelRequest(
        model=str(body.get("model", "")),
        messages=tuple(_message(message) for message in objects(body, "messages")),
        tools=tools,
        tool_choice=cast(ToolChoice, choice),
        sampling=sampling_of(body, max_tokens=wanted),
        answer_schema=_schema(body.get("response_format") or {}),
    )


def write_whole(body: Body, identity: Identity, pieces: Iterable[Piece]) -> dict[str, Any]:
    """The `chat.completion` object."""
    text, calls, end = whole(pieces)
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else ""), "refusal": None}
    if calls:
        message["tool_calls"] = [_call(identity, index, made.name, made.arguments) for index, made in enumerate(calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": end.reason}
    return {**_head(body, identity, "chat.completion"), "choices": [choice], "usage": _usage(end.usage)}


def write_events(body: Body, identity: Identity, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The stream of `chat.completion.chunk` events, `[DONE]` last."""
    head = _head(body, identity, "chat.completion.chunk")
    asked = bool((body.get("stream_options") or {}).get("include_usage"))

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return event({**head, "choices": [choice], **({"usage": None} if asked else {})})

    calls = -1
    opened = False
    for piece in pieces:
        if not opened:
            first = None if isinstance(piece, CallOpened) else ""
            yield chunk({"role": "assistant", "content": first, "refusal": None})
            opened = True
        match piece:
            case Text(text):
                yield chunk({"content": text})
            case CallOpened(name):
                calls += 1
                yield chunk({"tool_calls": [{"index": calls, **_call(identity, calls, name, "")}]})
            case CallArguments(text):
                yield chunk({"tool_calls": [{"index": calls, "function": {"arguments": text}}]})
            case Finished(reason=reason, usage=usage):
                yield chunk({}, reason)
                if asked:
                    yield event({**head, "choices": [], "usage": _usage(usage)})
    yield b"data: [DONE]\n\n"


def _message(message: Body) -> Message:
    role = _ROLES.get(message.get("role", ""))
    if role is None:
        raise Unanswerable(f"no such role: {message.get('role')!r}")
    calls = tuple(
        ToolCall(
            id=str(made.get("id", "")),
            name=str(made.get("function", {}).get("name", "")),
            arguments=str(made.get("function", {}).get("arguments") or "{}"),
        )
        for made in objects(message, "tool_calls")
    )
    answers = str(message.get("tool_call_id", ""))
    return Message(role=role, text=text_of(message.get("content")), tool_calls=calls, answers=answers)


def _schema(wanted: Body) -> Body | None:
    if wanted.get("type") == "json_schema":
        return cast(Body, wanted.get("json_schema", {}).get("schema") or {})
    return {"type": "object"} if wanted.get("type") == "json_object" else None


def _head(body: Body, identity: Identity, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{identity.key}",
        "object": kind,
        "created": identity.created,
        "model": body.get("model", ""),
        "system_fingerprint": identity.fingerprint,
    }


def _call(identity: Identity, index: int, name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{identity.key}_{index}", "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, int]:
    return {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion, "total_tokens": usage.total}


ENDPOINT = Endpoint(read=read, whole=write_whole, events=write_events)

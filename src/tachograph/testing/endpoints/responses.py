"""OpenAI responses: `POST /v1/responses`, whole and streamed.

Streamed, in the provider's order: created, in_progress; per output item added, its parts and deltas, done; completed
(or incomplete, where the length ended it). Every event carries its `sequence_number`, counted from 0.
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

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read(body: Body) -> ModelRequest:
    """The question. Raises `Unanswerable` for a field of the wrong kind, and for input of another response's id."""
    if body.get("previous_response_id"):
        raise Unanswerable("previous_response_id: this server keeps no conversation; send the whole input")
    tools = tuple(tool_of(tool, "parameters") for tool in objects(body, "tools"))
    choice = body.get("tool_choice") or "auto"
    if isinstance(choice, dict):
        tools, choice = choose(tools, str(choice.get("name", ""))), "required"
    if choice not in ("auto", "none", "required"):
        raise Unanswerable(f"tool_choice cannot be {choice!r}")
    instructions = body.get("instructions")
    first = (Message(role="system", text=text_of(instructions)),) if instructions else ()
    wanted = (body.get("text") or {}).get("format") or {}
    return ModelRequest(
        model=str(body.get("model", "")),
        messages=(*first, *_messages(body.get("input"))),
        tools=tools,
        tool_choice=cast(ToolChoice, choice),
        sampling=sampling_of(body, max_tokens="max_output_tokens"),
        answer_schema=wanted.get("schema") if wanted.get("type") == "json_schema" else None,
    )


def write_whole(body: Body, identity: Identity, pieces: Iterable[Piece]) -> dict[str, Any]:
    """The `response` object."""
    text, calls, end = whole(pieces)
    output = [_message_item(identity, text)] if text or not calls else []
    output += [_call_item(identity, index, made.name, made.arguments) for index, made in enumerate(calls)]
    return _response(body, identity, output, end)


def write_events(body: Body, identity: Identity, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The stream of `response.*` events."""
    number = 0
    output: list[dict[str, Any]] = []
    item: _MessageItem | _CallItem | None = None
    calls = 0

    def numbered(events: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        nonlocal number
        for fields in events:
            yield event({**fields, "sequence_number": number}, name=fields["type"])
            number += 1

    def closed() -> Iterator[bytes]:
        nonlocal item
        if item is not None:
            yield from numbered(item.end())
            output.append(item.whole())
            item = None

    begun = _response(body, identity, [], None)
    yield from numbered([{"type": kind, "response": begun} for kind in ("response.created", "response.in_progress")])
    for piece in pieces:
        match piece:
            case Text(text):
                if not isinstance(item, _MessageItem):
                    yield from closed()
                    item = _MessageItem(identity, len(output))
                    yield from numbered(item.begin())
                yield from numbered(item.more(text))
            case CallOpened(name):
                yield from closed()
                item, calls = _CallItem(identity, len(output), calls, name), calls + 1
                yield from numbered(item.begin())
            case CallArguments(text):
                yield from numbered(cast(_CallItem, item).more(text))
            case Finished():
                yield from closed()
                ended = "response.completed" if piece.reason != "length" else "response.incomplete"
                done = _response(body, identity, output, piece)
                yield from numbered([{"type": ended, "response": done}])


class _MessageItem:
    """The message while its text grows."""

    def __init__(self, identity: Identity, place: int) -> None:
        self.identity = identity
        self.place = place
        self.text = ""

    def begin(self) -> Iterator[dict[str, Any]]:
        item = {**self.whole(), "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": self.place, "item": item}
        yield {"type": "response.content_part.added", **self._place(), "part": _text_part("")}

    def more(self, text: str) -> Iterator[dict[str, Any]]:
        self.text += text
        yield {"type": "response.output_text.delta", **self._place(), "delta": text, "logprobs": []}

    def end(self) -> Iterator[dict[str, Any]]:
        yield {"type": "response.output_text.done", **self._place(), "text": self.text, "logprobs": []}
        yield {"type": "response.content_part.done", **self._place(), "part": _text_part(self.text)}
        yield {"type": "response.output_item.done", "output_index": self.place, "item": self.whole()}

    def whole(self) -> dict[str, Any]:
        return _message_item(self.identity, self.text)

    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.identity.key}", "output_index": self.place, "content_index": 0}


class _CallItem:
    """A function call while its arguments grow."""

    def __init__(self, identity: Identity, place: int, index: int, name: str) -> None:
        self.identity = identity
        self.place = place
        self.index = index
        self.name = name
        self.text = ""

    def begin(self) -> Iterator[dict[str, Any]]:
        item = {**self.whole(), "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": self.place, "item": item}

    def more(self, text: str) -> Iterator[dict[str, Any]]:
        self.text += text
        yield {"type": "response.function_call_arguments.delta", **self._place(), "delta": text}

    def end(self) -> Iterator[dict[str, Any]]:
        done = {"type": "response.function_call_arguments.done", **self._place()}
        yield {**done, "name": self.name, "arguments": self.text}
        yield {"type": "response.output_item.done", "output_index": self.place, "item": self.whole()}

    def whole(self) -> dict[str, Any]:
        return _call_item(self.identity, self.index, self.name, self.text)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self.whole()["id"], "output_index": self.place}


def _messages(given: object) -> Iterator[Message]:
    if isinstance(given, str):
        yield Message(role="user", text=given)
        return
    for item in objects({"input": given}, "input"):
        match item.get("type", "message"):
            case "message":
                role = _ROLES.get(item.get("role", ""))
                if role is None:
                    raise Unanswerable(f"no such role: {item.get('role')!r}")
                yield Message(role=role, text=text_of(item.get("content")))
            case "function_call":
                made = ToolCall(id=str(item["call_id"]), name=str(item["name"]), arguments=str(item["arguments"]))
                yield Message(role="assistant", tool_calls=(made,))
            case "function_call_output":
                yield Message(role="tool", text=text_of(item.get("output")), answers=str(item.get("call_id", "")))
            case _:  # reasoning and the like: nothing that this server's brains could read
                continue


def _response(body: Body, identity: Identity, output: list[dict[str, Any]], end: Finished | None) -> dict[str, Any]:
    cut = end is not None and end.reason == "length"
    status = "in_progress" if end is None else "incomplete" if cut else "completed"
    return {
        "id": f"resp_{identity.key}",
        "object": "response",
        "created_at": identity.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": body.get("instructions"),
        "model": body.get("model", ""),
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "metadata": body.get("metadata") or {},
        "usage": None if end is None else _usage(end.usage),
    }


def _message_item(identity: Identity, text: str) -> dict[str, Any]:
    return {
        "id": f"msg_{identity.key}",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_text_part(text)],
    }


def _call_item(identity: Identity, index: int, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"fc_{identity.key}_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{identity.key}_{index}",
        "name": name,
        "arguments": arguments,
    }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }


ENDPOINT = Endpoint(read=read, whole=write_whole, events=write_events)

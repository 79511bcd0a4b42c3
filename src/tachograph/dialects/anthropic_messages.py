"""Messages as Anthropic defined them.

The blocks of a streamed answer are put together by their index (R17: deltas of parallel blocks arrive interleaved). A
stream has ended at `message_stop` and nowhere else: a stop reason whose `message_stop` never came stays in
`provider_stop`, and the answer is `incomplete`. Tools that the provider runs itself (`server_tool_use`, MCP) are
`provider_calls`: the program is not asked for their results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tachograph.dialects import requests
from tachograph.dialects.body import event_documents, header, objects, open_answer, stated_error, text, unread
from tachograph.dialects.json_text import JsonText
from tachograph.dialects.reading import (
    AnswerReading,
    Headers,
    Message,
    ProviderError,
    RequestReading,
    StopReason,
    ToolCall,
)
from tachograph.dialects.sse import Event

name = "anthropic.messages"

# `pause_turn`: the provider stopped a long turn of its own tools and wants to be called again. `refusal`: a classifier
# ended the answer, which is an error of this turn.
STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "tool_use": "tool_call",
    "pause_turn": "incomplete",
    "refusal": "error",
}


def speaks(method: str, path: str, headers: Headers, body: bytes) -> bool:
    """POST .../v1/messages, or .../messages with Anthropic's version header; not the messages of a thread."""
    path = path.rstrip("/")
    if method != "POST" or not path.endswith("/messages") or "/threads/" in path:
        return False
    return path.endswith("/v1/messages") or bool(header(headers, b"anthropic-version"))


# --- requests ---------------------------------------------------------------------------------------------------------


def read_request(body: bytes) -> RequestReading:
    """Read a request's body."""
    return requests.read(body, _messages)


def _messages(document: JsonText) -> list[Message]:
    found = _content(document, ("system",), document.value.get("system"), "system")
    for index, message in objects(document.value.get("messages")):
        found += _content(document, ("messages", index, "content"), message.get("content"), text(message.get("role")))
    return found


def _content(
    document: JsonText, steps: tuple[str | int, ...], content: Any, role: str | None, call_id: str | None = None
) -> list[Message]:
    """Read a text or a list of blocks; the blocks inside a tool result carry the id of its call."""
    kind = "tool_result" if call_id is not None else "text"
    if isinstance(content, str):
        return [Message(role, _pointer(steps), content, kind, call_id)]
    found: list[Message] = []
    for index, block in objects(content):
        here = (*steps, index)
        shape = str(block.get("type"))
        if shape == "tool_result":
            answered = text(block.get("tool_use_id")) or ""
            found += _content(document, (*here, "content"), block.get("content"), role, answered)
        elif shape.endswith("tool_use"):
            place = (*here, "input")
            call, called = text(block.get("id")), text(block.get("name"))
            found.append(Message(role, _pointer(place), document.at(*place), shape, call, called))
        else:
            key = shape if isinstance(block.get(shape), str) else "content"  # text, thinking; compaction has `content`
            said = text(block.get(key))
            place = (*here, key) if said is not None else here
            found.append(Message(role, _pointer(place), said, kind if shape == "text" else shape, call_id))
    return found


def _pointer(steps: tuple[str | int, ...]) -> str:
    return "".join([f"/{step}" for step in steps])  # none of our own steps holds a `/` or a `~`


# --- answers ----------------------------------------------------------------------------------------------------------


def read_answer(status: int, headers: Headers, chunks: Iterable[bytes]) -> AnswerReading:
    """Read an answer's undecoded body, streamed or not."""
    opened = open_answer(headers, chunks)
    if opened.events is not None:
        return _read_stream(opened.events, status)
    if opened.document is None or not isinstance(opened.document.value, dict):
        return unread(status, opened)
    return _read_document(opened.document, status)


def _read_document(document: JsonText, status: int) -> AnswerReading:
    top = document.value
    answer = _Answer()
    answer.error = stated_error(top, status)
    answer.take_message(top)
    for index, block in objects(top.get("content")):
        answer.start(index, block, document.at("content", index, "input"))
    return answer.reading(interrupted=False, events=0, unterminated=False, damaged=[])


def _read_stream(events: list[Event], status: int) -> AnswerReading:
    answer = _Answer()
    damaged: list[str] = []
    stopped = False
    for event, document in event_documents(events, damaged):
        top = document.value
        kind = top.get("type")
        index = top.get("index")
        if kind == "message_start" and isinstance(top.get("message"), dict):
            answer.take_message(top["message"])
        elif kind == "content_block_start" and type(index) is int and isinstance(top.get("content_block"), dict):
            answer.start(index, top["content_block"], document.at("content_block", "input"))
        elif kind == "content_block_delta" and type(index) is int and isinstance(top.get("delta"), dict):
            answer.add(index, top["delta"])
        elif kind == "message_delta":
            delta = top.get("delta")
            answer.take_message({**(delta if isinstance(delta, dict) else {}), "usage": top.get("usage")})
        elif kind == "message_stop":
            stopped = event.terminated
        elif kind == "error":
            answer.error = stated_error(top) or ProviderError(None, None)
    if answer.error is None and status >= 400:
        answer.error = ProviderError(None, None, str(status))
    unterminated = bool(events) and not events[-1].terminated
    interrupted = not stopped and answer.error is None
    return answer.reading(interrupted=interrupted, events=len(events), unterminated=unterminated, damaged=damaged)


class _Answer:
    """An answer as its blocks come in, whole or in deltas."""

    def __init__(self) -> None:
        self.blocks: dict[int, tuple[dict[str, Any], list[str], str | None]] = {}  # block, pieces, input as sent
        self.usage: dict[str, Any] | None = None
        self.model: str | None = None
        self.stop: str | None = None
        self.error: ProviderError | None = None

    def take_message(self, message: dict[str, Any]) -> None:
        """Take what stands beside the blocks; counts of a stream are running totals, so the last ones count."""
        self.model = text(message.get("model")) or self.model
        self.stop = text(message.get("stop_reason")) or self.stop
        if isinstance(message.get("usage"), dict):
            self.usage = {**(self.usage or {}), **message["usage"]}

    def start(self, index: int, block: dict[str, Any], sent: str | None) -> None:
        """Take a block, or the beginning of one."""
        said = text(block.get(str(block.get("type"))))
        self.blocks[index] = (block, [said] if said else [], sent)

    def add(self, index: int, delta: dict[str, Any]) -> None:
        """Take a delta of text, of thinking or of a call's arguments; signatures and citations are no text."""
        block = self.blocks.setdefault(index, ({"type": _BEGUN.get(str(delta.get("type")))}, [], None))
        for key in ("text", "thinking", "partial_json"):
            if isinstance(delta.get(key), str):
                block[1].append(delta[key])

    def _texts(self, kind: str) -> str | None:
        found = ["".join(pieces) for _, (block, pieces, _) in sorted(self.blocks.items()) if block.get("type") == kind]
        return "".join(found) if found else None

    def _calls(self, own: bool) -> tuple[ToolCall, ...]:
        return tuple(
            [
                ToolCall(text(block.get("id")), text(block.get("name")), "".join(pieces) or sent)
                for _, (block, pieces, sent) in sorted(self.blocks.items())
                if str(block.get("type")).endswith("tool_use") and (block.get("type") == "tool_use") == own
            ]
        )

    def reading(self, *, interrupted: bool, events: int, unterminated: bool, damaged: list[str]) -> AnswerReading:
        """Say what has come in."""
        reasons = {"events": "; ".join(damaged)} if damaged else {}
        stop: StopReason | None = STOPS.get(self.stop) if self.stop is not None else None
        if self.error is not None:
            stop = "error"
        elif interrupted:
            stop = "incomplete"
        elif stop is None:
            reasons["stop_reason"] = "not stated" if self.stop is None else f"unknown word {self.stop!r}"
        final = self._texts("text")
        if final is None:
            reasons["final_text"] = "the answer holds no text"
        if self.usage is None:
            reasons["usage"] = "not stated"
        return AnswerReading(
            final_text=final,
            reasoning_text=self._texts("thinking"),
            tool_calls=self._calls(True),
            provider_calls=self._calls(False),
            stop_reason=stop,
            provider_stop=self.stop,
            usage=self.usage,
            model_name=self.model,
            interrupted=interrupted,
            events=events,
            last_event_unterminated=unterminated,
            error=self.error,
            reasons=reasons,
        )


# The kind of a block whose beginning was not seen, by its first delta.
_BEGUN = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}

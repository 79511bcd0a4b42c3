"""Responses as OpenAI defined them.

A stream has ended at `response.completed`, `response.incomplete`, `response.failed` or `error`; those events carry the
whole response, which is then what is read. Without one, the deltas are put together by the place of their item, and the
answer is `incomplete` with the text so far (R19). A response that is still `queued` or `in_progress` (background mode)
has no stop reason yet, and the reading says so. Tools that the provider runs itself are `provider_calls`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tachograph.dialects import requests
from tachograph.dialects.body import event_documents, objects, open_answer, part_texts, stated_error, text, unread
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

name = "openai.responses"

_TERMINAL = ("response.completed", "response.incomplete", "response.failed")
# Why a response is incomplete, in the provider's words; a filter is an error of this turn.
STOPS: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "max_tokens": "max_tokens",
    "content_filter": "error",
}


def speaks(method: str, path: str, headers: Headers, body: bytes) -> bool:
    """POST .../responses."""
    return method == "POST" and path.rstrip("/").endswith("/responses")


# --- requests ---------------------------------------------------------------------------------------------------------


def read_request(body: bytes) -> RequestReading:
    """Read a request's body; `instructions` are the system text."""
    return requests.read(body, _messages)


def _messages(document: JsonText) -> list[Message]:
    top = document.value
    found: list[Message] = []
    if isinstance(top.get("instructions"), str):
        found.append(Message("system", "/instructions", top["instructions"]))
    if isinstance(top.get("input"), str):
        found.append(Message("user", "/input", top["input"]))
    for index, item in objects(top.get("input")):
        found += _item(item, f"/input/{index}")
    return found


def _item(item: dict[str, Any], at: str) -> list[Message]:
    kind = str(item.get("type", "message"))
    role, call_id, called = text(item.get("role")), text(item.get("call_id")), text(item.get("name"))
    for key in _WHOLE.get(kind, ()):
        if isinstance(item.get(key), str):
            return [Message(role, f"{at}/{key}", item[key], kind, call_id, called)]
    found: list[Message] = []
    for key in ("content", "summary", "output"):
        if isinstance(item.get(key), str):
            found.append(Message(role, f"{at}/{key}", item[key], "text" if kind == "message" else kind, call_id))
        for number, part in objects(item.get(key)):
            said = text(part.get("text")) if "text" in part else text(part.get("refusal"))
            place = f"{at}/{key}/{number}"
            if said is not None:
                place += "/text" if "text" in part else "/refusal"
            found.append(Message(role, place, said, str(part.get("type")), call_id, called))
    return found or [Message(role, at, None, kind, call_id, called)]


# Items that are one text, and where it stands.
_WHOLE = {
    "function_call": ("arguments",),
    "custom_tool_call": ("input",),
    "function_call_output": ("output",),
    "custom_tool_call_output": ("output",),
}


# --- answers ----------------------------------------------------------------------------------------------------------


def read_answer(status: int, headers: Headers, chunks: Iterable[bytes]) -> AnswerReading:
    """Read an answer's undecoded body, streamed or not."""
    opened = open_answer(headers, chunks)
    if opened.events is not None:
        return _read_stream(opened.events, status)
    if opened.document is None or not isinstance(opened.document.value, dict):
        return unread(status, opened)
    top = opened.document.value
    return _reading(top, stated_error(top, status), ended=True)


def _read_stream(events: list[Event], status: int) -> AnswerReading:
    damaged: list[str] = []
    pieces = _Pieces()
    final: dict[str, Any] | None = None
    error: ProviderError | None = ProviderError(None, None, str(status)) if status >= 400 else None
    for event, document in event_documents(events, damaged):
        top = document.value
        kind = str(top.get("type", event.name))
        response = top.get("response")
        if isinstance(response, dict):
            pieces.response = response
            if kind in _TERMINAL:
                final = response
        elif kind == "error":
            error = stated_error(top) or ProviderError(
                text(top.get("type")), text(top.get("message")), text(top.get("code"))
            )
        else:
            pieces.take(kind, top)
    unterminated = bool(events) and not events[-1].terminated
    response = final if final is not None else pieces.together()
    error = error or stated_error(response)
    return _reading(
        response,
        error,
        ended=final is not None or error is not None,
        events=len(events),
        unterminated=unterminated,
        damaged=damaged,
    )


class _Pieces:
    """What the deltas of a stream give as long as no event holds the whole response."""

    def __init__(self) -> None:
        self.response: dict[str, Any] = {}
        self.items: dict[int, dict[str, Any]] = {}
        self.texts: dict[tuple[int, str, int], list[str]] = {}

    def take(self, kind: str, top: dict[str, Any]) -> None:
        """Take an item or a delta. A delta without a place is of the first item: streams of one item leave it out."""
        index = top.get("output_index", 0)
        inner = top.get("content_index", top.get("summary_index", 0))
        if type(index) is not int or type(inner) is not int:
            return
        if kind in ("response.output_item.added", "response.output_item.done") and isinstance(top.get("item"), dict):
            self.items[index] = top["item"]
        place = _DELTAS.get(kind)
        if place is not None and isinstance(top.get("delta"), str):
            self.texts.setdefault((index, place, inner), []).append(top["delta"])

    def together(self) -> dict[str, Any]:
        """Return the response as far as it came: items that are done as they are, others from their deltas."""
        items = {index: dict(item) for index, item in self.items.items()}
        for (index, place, _), pieces in sorted(self.texts.items()):
            item = items.setdefault(index, {"type": _ITEMS[place]})
            if item.get("status") == "completed":
                continue
            if place in ("arguments", "input"):
                item[place] = "".join(pieces)
            else:
                key = "summary" if place == "summary_text" else "content"
                part = {"type": place, ("refusal" if place == "refusal" else "text"): "".join(pieces)}
                item[key] = [*(item.get(key) or []), part]
        return {**self.response, "output": [items[index] for index in sorted(items)]}


_DELTAS = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}
_ITEMS = {
    "output_text": "message",
    "refusal": "message",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
    "arguments": "function_call",
    "input": "custom_tool_call",
}


def _reading(
    response: dict[str, Any],
    error: ProviderError | None,
    *,
    ended: bool,
    events: int = 0,
    unterminated: bool = False,
    damaged: Iterable[str] = (),
) -> AnswerReading:
    items = [item for _, item in objects(response.get("output"))]
    messages = [item for item in items if item.get("type") == "message"]
    calls = tuple([_call(item) for item in items if item.get("type") in ("function_call", "custom_tool_call")])
    reasons = {"events": "; ".join(damaged)} if damaged else {}
    word = _word(response)
    stop = _stop(response, error, bool(calls), ended, reasons)
    texts = [said for said in (part_texts(one.get("content"), "output_text") for one in messages) if said is not None]
    if not texts:
        reasons["final_text"] = "the answer holds no text"
    usage = response.get("usage") if isinstance(response.get("usage"), dict) else None
    if usage is None:
        reasons["usage"] = "not stated"
    return AnswerReading(
        final_text="".join(texts) if texts else None,
        reasoning_text=_reasoning(items),
        refusal_text=_refusal(messages),
        tool_calls=calls,
        provider_calls=tuple([_call(item) for item in items if _runs_there(str(item.get("type")))]),
        stop_reason=stop,
        provider_stop=word,
        usage=usage,
        model_name=text(response.get("model")),
        system_fingerprint=text(response.get("system_fingerprint")),
        interrupted=not ended,
        events=events,
        last_event_unterminated=unterminated,
        error=error,
        reasons=reasons,
    )


def _word(response: dict[str, Any]) -> str | None:
    """The status, and for an incomplete response the reason that it states."""
    details = response.get("incomplete_details")
    reason = text(details.get("reason")) if isinstance(details, dict) else None
    return reason or text(response.get("status"))


def _stop(
    response: dict[str, Any], error: ProviderError | None, calls: bool, ended: bool, reasons: dict[str, str]
) -> StopReason | None:
    word = _word(response)
    if error is not None or word == "failed":
        return "error"
    if not ended or word == "incomplete" or word == "cancelled":
        return "incomplete"
    if word == "completed":
        return "tool_call" if calls else "end_turn"
    if word in STOPS:
        return STOPS[word]
    reasons["stop_reason"] = "not stated" if word is None else f"the response is {word!r}"
    return None


def _runs_there(kind: str) -> bool:
    return kind.endswith("_call") and kind not in ("function_call", "custom_tool_call")


def _call(item: dict[str, Any]) -> ToolCall:
    arguments = item.get("arguments") if "arguments" in item else item.get("input")
    return ToolCall(
        text(item.get("call_id")) or text(item.get("id")),
        text(item.get("name")) or text(item.get("type")),
        text(arguments),
    )


def _reasoning(items: list[dict[str, Any]]) -> str | None:
    """The reasoning itself where the provider shows it, else its summaries, a blank line between them."""
    found: list[str] = []
    for item in items:
        if item.get("type") == "reasoning":
            parts = objects(item.get("content")) or objects(item.get("summary"))
            found += [part["text"] for _, part in parts if isinstance(part.get("text"), str)]
    return "\n\n".join(found) if found else None


def _refusal(messages: list[dict[str, Any]]) -> str | None:
    found = [
        part["refusal"]
        for one in messages
        for _, part in objects(one.get("content"))
        if isinstance(part.get("refusal"), str)
    ]
    return "".join(found) if found else None

"""Chat completions as OpenAI defined them and Azure, Mistral, Groq, vLLM, llama.cpp and others speak them.

Of several choices the first (index 0) is the answer, the others are `other_texts`. In a stream, each tool call is put
together by its own index, so that parallel calls do not run into one another (R17). The stream has ended when `[DONE]`
or a `finish_reason` of the first choice has come; a stream without either is `incomplete`.
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

name = "openai.chat"

# A filter that withholds the answer is an error of this turn, though the request was answered.
STOPS: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    "content_filter": "error",
    "error": "error",
}


def speaks(method: str, path: str, headers: Headers, body: bytes) -> bool:
    """POST .../chat/completions."""
    return method == "POST" and path.rstrip("/").endswith("/chat/completions")


# --- requests ---------------------------------------------------------------------------------------------------------


def read_request(body: bytes) -> RequestReading:
    """Read a request's body."""
    return requests.read(body, _messages)


def _messages(document: JsonText) -> list[Message]:
    found: list[Message] = []
    for index, message in objects(document.value.get("messages")):
        at = f"/messages/{index}"
        role, call = text(message.get("role")), text(message.get("tool_call_id"))
        who = text(message.get("name"))
        content = message.get("content")
        if isinstance(content, str):
            found.append(Message(role, at + "/content", content, "text", call, who))
        for number, part in objects(content):
            kind = str(part.get("type"))
            place = f"{at}/content/{number}" + ("/text" if isinstance(part.get("text"), str) else "")
            found.append(Message(role, place, text(part.get("text")), kind, call, who))
        for key in ("reasoning_content", "refusal"):
            if isinstance(message.get(key), str):
                found.append(Message(role, f"{at}/{key}", message[key], key, call, who))
        found += _calls_asked(message, role, at)
    return found


def _calls_asked(message: dict[str, Any], role: str | None, at: str) -> list[Message]:
    found: list[Message] = []
    for number, call in objects(message.get("tool_calls")):
        function = call.get("function") if isinstance(call.get("function"), dict) else {}
        place = f"{at}/tool_calls/{number}/function/arguments"
        found.append(_asked(role, place, function, text(call.get("id"))))
    if isinstance(message.get("function_call"), dict):
        found.append(_asked(role, f"{at}/function_call/arguments", message["function_call"], None))
    return found


def _asked(role: str | None, place: str, function: Any, call_id: str | None) -> Message:
    return Message(role, place, text(function.get("arguments")), "tool_call", call_id, text(function.get("name")))


# --- answers ----------------------------------------------------------------------------------------------------------


def read_answer(status: int, headers: Headers, chunks: Iterable[bytes]) -> AnswerReading:
    """Read an answer's undecoded body, streamed or not."""
    opened = open_answer(headers, chunks)
    if opened.events is not None:
        return _read_stream(opened.events, status)
    if opened.document is None or not isinstance(opened.document.value, dict):
        return unread(status, opened)
    return _read_document(opened.document.value, status)


def _read_document(top: dict[str, Any], status: int) -> AnswerReading:
    answer = _Answer()
    answer.take_top(top)
    answer.error = stated_error(top, status)
    for index, choice in objects(top.get("choices")):
        message = choice.get("message")
        number = choice.get("index", index)
        answer.take_choice(number, message if isinstance(message, dict) else {}, choice.get("finish_reason"))
    return answer.reading(interrupted=False, events=0, unterminated=False, damaged=[])


def _read_stream(events: list[Event], status: int) -> AnswerReading:
    answer = _Answer()
    damaged: list[str] = []
    for _, document in event_documents(events, damaged):
        top = document.value
        answer.take_top(top)
        answer.error = answer.error or stated_error(top)
        for index, choice in objects(top.get("choices")):
            delta = choice.get("delta")
            number = choice.get("index", index)
            answer.take_choice(number, delta if isinstance(delta, dict) else {}, choice.get("finish_reason"))
    if answer.error is None and status >= 400:
        answer.error = ProviderError(None, None, str(status))
    done = any(event.data.strip() == "[DONE]" and event.terminated for event in events)
    ended = done or answer.stops.get(0) is not None or answer.error is not None
    unterminated = bool(events) and not events[-1].terminated
    return answer.reading(interrupted=not ended, events=len(events), unterminated=unterminated, damaged=damaged)


class _Answer:
    """An answer as its pieces come in: one whole message, or the deltas of a stream."""

    def __init__(self) -> None:
        self.texts: dict[int, list[str]] = {}
        self.reasoning: list[str] = []
        self.refusal: list[str] = []
        self.calls: dict[int, list[Any]] = {}  # by the index of the call: id, name, pieces of the arguments
        self.stops: dict[int, str | None] = {}
        self.usage: dict[str, Any] | None = None
        self.model: str | None = None
        self.fingerprint: str | None = None
        self.error: ProviderError | None = None

    def take_top(self, top: dict[str, Any]) -> None:
        """Take what stands beside the choices; the last statement counts."""
        self.model = text(top.get("model")) or self.model
        self.fingerprint = text(top.get("system_fingerprint")) or self.fingerprint
        if isinstance(top.get("usage"), dict):
            self.usage = top["usage"]

    def take_choice(self, number: Any, piece: dict[str, Any], stop: Any) -> None:
        """Take a message or the next delta of one choice."""
        if type(number) is not int:
            return
        content = part_texts(piece.get("content"), "text")
        if content is not None:
            self.texts.setdefault(number, []).append(content)
        if isinstance(stop, str):
            self.stops[number] = stop
        if number != 0:
            return
        for key in ("reasoning_content", "reasoning"):
            if isinstance(piece.get(key), str):
                self.reasoning.append(piece[key])
                break  # some servers send both, the same text twice
        if isinstance(piece.get("refusal"), str):
            self.refusal.append(piece["refusal"])
        for index, call in objects(piece.get("tool_calls")):
            self._take_call(self._slot(call, index), text(call.get("id")), call.get("function"))
        if isinstance(piece.get("function_call"), dict):
            self._take_call(0, None, piece["function_call"])

    def _slot(self, call: dict[str, Any], index: int) -> int:
        """The call's own index; without one, a new id opens a new call and no id continues the last."""
        if type(call.get("index")) is int:
            return int(call["index"])
        known = [slot for slot, one in self.calls.items() if one[0] is not None and one[0] == call.get("id")]
        if known:
            return known[0]
        if text(call.get("id")) is None and self.calls:
            return max(self.calls)
        return max(self.calls, default=-1) + 1

    def _take_call(self, slot: int, call_id: str | None, function: Any) -> None:
        known = self.calls.setdefault(slot, [None, None, []])
        known[0] = known[0] or call_id
        if isinstance(function, dict):
            known[1] = known[1] or text(function.get("name"))
            if isinstance(function.get("arguments"), str):
                known[2].append(function["arguments"])

    def reading(self, *, interrupted: bool, events: int, unterminated: bool, damaged: list[str]) -> AnswerReading:
        """Say what has come in."""
        word = self.stops.get(0)
        reasons = {"events": "; ".join(damaged)} if damaged else {}
        stop: StopReason | None = STOPS.get(word) if word is not None else None
        if self.error is not None:
            stop = "error"
        elif interrupted:
            stop = "incomplete"
        elif stop is None:
            reasons["stop_reason"] = "not stated" if word is None else f"unknown word {word!r}"
        if self.usage is None:
            reasons["usage"] = "not stated"
        if 0 not in self.texts:
            reasons["final_text"] = "the answer holds no text"
        return AnswerReading(
            final_text="".join(self.texts[0]) if 0 in self.texts else None,
            reasoning_text="".join(self.reasoning) if self.reasoning else None,
            refusal_text="".join(self.refusal) if self.refusal else None,
            other_texts=tuple(["".join(self.texts[number]) for number in sorted(self.texts) if number != 0]),
            tool_calls=tuple([_call(*self.calls[slot]) for slot in sorted(self.calls)]),
            stop_reason=stop,
            provider_stop=word,
            usage=self.usage,
            model_name=self.model,
            system_fingerprint=self.fingerprint,
            interrupted=interrupted,
            events=events,
            last_event_unterminated=unterminated,
            error=self.error,
            reasons=reasons,
        )


def _call(call_id: str | None, called: str | None, arguments: list[str]) -> ToolCall:
    return ToolCall(call_id, called, "".join(arguments) if arguments else None)

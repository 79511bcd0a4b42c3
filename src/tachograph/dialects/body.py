"""Bodies of answers, opened: a JSON document, a stream of events, or in words why neither.

The content type decides; only where a server sends none does the first byte (some do: seen in real recordings). A JSON
body shorter than its `content-length` was cut on the way, and is said to be so. Readers of the dialects work on what
`open_answer` gives; what they share beyond it (errors as providers state them, texts in lists of parts) is here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tachograph.dialects.decoding import decode_content
from tachograph.dialects.json_text import JsonText, read_text
from tachograph.dialects.reading import AnswerReading, Headers, ProviderError
from tachograph.dialects.sse import Event, read_events


class Opened(NamedTuple):
    """One of `document` and `events`, or neither and the `reason`; `cut` if bytes are known to be missing."""

    document: JsonText | None = None
    events: list[Event] | None = None
    reason: str | None = None
    cut: bool = False


def open_answer(headers: Headers, chunks: Iterable[bytes]) -> Opened:
    """Undo the content coding of an answer's bytes and open what is inside."""
    wire = b"".join(chunks)
    decoded = decode_content(headers, wire)
    cut = not decoded.complete or _shorter_than_said(headers, wire)
    if decoded.body is None:
        return Opened(reason=decoded.reason, cut=cut)
    if not decoded.body:
        return Opened(reason="the answer has no body", cut=cut)
    if _is_stream(header(headers, b"content-type"), decoded.body):
        return Opened(events=read_events([decoded.body]), cut=cut)
    document = read_text(decoded.body)
    return Opened(reason=document, cut=cut) if isinstance(document, str) else Opened(document=document, cut=cut)


def header(headers: Headers, name: bytes) -> str:
    """Return the first value of a header in lower case, or an empty text."""
    for sent, value in headers:
        if sent.lower() == name:
            return value.decode("latin-1").strip().lower()
    return ""


def _is_stream(content_type: str, body: bytes) -> bool:
    if content_type:
        return content_type.startswith("text/event-stream")
    return body.startswith((b"data:", b"event:", b":", b"id:", b"retry:"))


def _shorter_than_said(headers: Headers, wire: bytes) -> bool:
    said = header(headers, b"content-length")
    return said.isdecimal() and len(wire) < int(said)


def event_documents(events: list[Event], damaged: list[str]) -> Iterable[tuple[Event, JsonText]]:
    """Yield the events whose data is a JSON object; what is neither that nor `[DONE]` is noted in `damaged`."""
    for number, event in enumerate(events):
        if event.data.strip() == "[DONE]" or not event.data:
            continue
        document = read_text(event.data.encode("utf-8"))
        if isinstance(document, JsonText) and isinstance(document.value, dict):
            yield event, document
        elif event.terminated:
            damaged.append(f"event {number}: {document if isinstance(document, str) else 'no object'}")


def unread(status: int, opened: Opened) -> AnswerReading:
    """The reading of an answer that is neither JSON nor a stream: what its status says, and why there is no more."""
    reason = opened.reason or "the answer is no JSON object"
    reasons = dict.fromkeys(("final_text", "usage", "model_name"), reason)
    if status >= 400:
        return AnswerReading(stop_reason="error", error=ProviderError(None, None, str(status)), reasons=reasons)
    if opened.cut:
        return AnswerReading(stop_reason="incomplete", interrupted=True, reasons=reasons)
    return AnswerReading(reasons={**reasons, "stop_reason": reason})


def stated_error(value: Mapping[str, Any], status: int = 0) -> ProviderError | None:
    """Return the error that an object states (`error`, as OpenAI and Anthropic have it), or that the status is."""
    error = value.get("error")
    if isinstance(error, Mapping):
        code = error.get("code")
        return ProviderError(text(error.get("type")), text(error.get("message")), None if code is None else str(code))
    if isinstance(error, str):
        return ProviderError(None, error)
    if status >= 400:
        return ProviderError(text(value.get("type")), text(value.get("message")), str(status))
    return None


def text(value: Any) -> str | None:
    """Return a text, or None for anything else."""
    return value if isinstance(value, str) else None


def objects(value: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a list with their indexes; nothing of anything else."""
    return [(index, one) for index, one in enumerate(value) if isinstance(one, dict)] if isinstance(value, list) else []


def part_texts(content: Any, *kinds: str) -> str | None:
    """Return a content's text: itself, or the texts of its parts of these kinds one behind the other, or None."""
    if isinstance(content, str):
        return content
    texts = [text(part.get("text")) for _, part in objects(content) if part.get("type") in kinds]
    found = [one for one in texts if one is not None]
    return "".join(found) if found else None


def joined(texts: list[str]) -> str | None:
    """Return several system texts as one, a blank line between them; None of none."""
    return "\n\n".join(texts) if texts else None

"""Bodies of answers: opened as what they are, and what is missing or stated is said."""

from __future__ import annotations

from typing import Any

import pytest

from tachograph.dialects.body import event_documents, open_answer, part_texts, stated_error, unread
from tachograph.dialects.reading import ProviderError
from tachograph.dialects.sse import Event

JSON = (b"Content-Type", b"application/json")
EVENTS = b"data: {}\n\n"


@pytest.mark.parametrize(
    ("headers", "body", "kind"),
    [
        ([JSON], b"{}", "document"), ([(b"content-type", b"text/event-stream")], EVENTS, "events"),
        ([(b"content-type", b"Text/Event-Stream; charset=utf-8")], b"", "reason"), ([], b"{}", "document"),
        ([], EVENTS, "events"), ([], b": ping\n\n", "events"), ([JSON], EVENTS, "reason"),
        ([(b"content-type", b"text/html")], b"<p>", "reason"),
    ],
)  # fmt: skip
def test_the_content_type_decides_and_the_first_byte_only_without_one(headers: Any, body: bytes, kind: str) -> None:
    opened = open_answer(headers, [body[:3], body[3:]])
    assert [name for name in ("document", "events", "reason") if getattr(opened, name) is not None] == [kind]


@pytest.mark.parametrize(("said", "cut"), [(b"9", True), (b"5", False), (b"4", False), (b"", False), (b"many", False)])
def test_a_body_shorter_than_its_header_says_was_cut(said: bytes, cut: bool) -> None:
    opened = open_answer([JSON, (b"Content-Length", said)], [b"{", b"bad}"])
    assert opened.cut == cut
    reading = unread(200, opened)
    assert (reading.stop_reason, reading.interrupted) == (("incomplete", True) if cut else (None, False))


def test_nothing_at_all_where_something_was_said_to_come_was_cut() -> None:
    assert open_answer([(b"content-length", b"10")], []).cut
    assert not open_answer([(b"content-length", b"0")], []).cut


@pytest.mark.parametrize(
    ("value", "status", "error"),
    [
        ({"error": {"type": "t", "message": "m", "code": 5}}, 200, ProviderError("t", "m", "5")),
        ({"error": {"message": 7}}, 400, ProviderError(None, None)),
        ({"error": "model not found"}, 404, ProviderError(None, "model not found")),
        ({"object": "error", "type": "invalid", "message": "m"}, 422, ProviderError("invalid", "m", "422")),
        ({"error": None}, 200, None), ({"message": "fine"}, 200, None), ({}, 399, None),
    ],
)  # fmt: skip
def test_an_error_is_read_as_it_is_stated(value: Any, status: int, error: ProviderError | None) -> None:
    assert stated_error(value, status) == error


def test_only_what_should_be_json_and_is_not_counts_as_damaged() -> None:
    damaged: list[str] = []
    data = ["[DONE]", " [DONE] ", "", "{}", "{bad", "[]"]
    read = list(event_documents([Event("message", one) for one in data], damaged))
    assert [event.data for event, _ in read] == ["{}"]
    assert [one.partition(":")[0] for one in damaged] == ["event 4", "event 5"]
    assert list(event_documents([Event("message", "{cut", terminated=False)], damaged)) == []
    assert len(damaged) == 2


def test_the_text_of_a_content_is_itself_or_its_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "text": "x"}, {"type": "text", "text": 3}, "y"]
    assert part_texts([*parts, {"type": "text", "text": "b"}], "text") == "ab"
    assert part_texts(parts[1:], "text") is None
    assert part_texts("whole", "text") == "whole"
    assert part_texts(None, "text") is None

"""Server-Sent Events: split where the standard says, however the bytes are cut, and an unfinished one is marked."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.dialects.sse import Event, EventReader, read_events


def _cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


pieces = st.sampled_from(
    ["data: a", "data:b", "data", "data: é🛶", "event: x", "id: 7", ": ping", "retry: 5", "\n", "\r", "\r\n", "\n\n",
     "\u2028", "\u0085", "data: \u2029", "other: 1", " ", "\x0b", "\x0c"]
)  # fmt: skip


@given(st.lists(pieces, max_size=20).map("".join), st.lists(st.integers(0, 10_000), max_size=12))
def test_the_events_do_not_depend_on_where_the_chunks_are_cut(text: str, cuts: list[int]) -> None:
    stream = text.encode()
    assert read_events(_cut(stream, cuts)) == read_events([stream])
    assert read_events([bytes((byte,)) for byte in stream]) == read_events([stream])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["message", "x"]),
            st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])),
        )
    )
)
def test_what_is_written_is_read(events: list[tuple[str, str]]) -> None:
    stream = "".join(f"event: {name}\r\ndata: {data}\r\n\r\n" for name, data in events).encode()
    assert read_events([stream]) == [Event(name, data) for name, data in events]


def test_lines_end_at_cr_lf_and_crlf() -> None:
    for end in ("\n", "\r", "\r\n"):
        stream = f"event: a{end}data: 1{end}data: 2{end}{end}data: 3{end}{end}".encode()
        assert read_events([stream]) == [Event("a", "1\n2"), Event("message", "3")]


def test_a_cr_and_an_lf_in_two_chunks_are_one_line_end() -> None:
    assert read_events([b"data: 1\r", b"\ndata: 2\r", b"", b"\n\r", b"\ndata: 3\n\n"]) == [
        Event("message", "1\n2"),
        Event("message", "3"),
    ]
    assert read_events([b"data: 1\r", b"", b"\ndata: 2\n\n"]) == [Event("message", "1\n2")]


def test_an_id_lasts_until_the_next_and_holds_no_zero() -> None:
    events = read_events([b"foo: 3\nid: 1\ndata: a\n\nid: x\0y\nretry: 5\ndata: b\n\nid: 2\ndata: c\n\n"])
    assert [event.last_id for event in events] == ["1", "1", "2"]


def test_comments_and_unknown_fields_say_nothing_and_an_event_needs_data() -> None:
    assert read_events([b": ping\n\nevent: x\n\nfoo: 1\ndata\nid: 9\n\n: end\n\n"]) == [Event("message", "", "9")]
    assert read_events([b"data:  two spaces\n\n"]) == [Event("message", " two spaces")]
    assert read_events([b"\xef\xbb", b"\xbfdata: 1\n\n"]) == [Event("message", "1")]
    assert read_events([b"\xef\xbb\xbf"]) == []


def test_what_follows_the_last_blank_line_is_marked() -> None:
    reader = EventReader()
    assert reader.feed(b"data: 1\n\nevent: y\ndata: 2\n") == [Event("message", "1")]
    assert reader.finish() == Event("y", "2", None, terminated=False)
    assert reader.finish() is None
    assert read_events([b"data: 1\n\ndata: 2"])[-1] == Event("message", "2", None, terminated=False)
    assert read_events([b"data: 1\n\n: ping\n"]) == [Event("message", "1")]


def test_bytes_that_are_no_utf8_are_shown_as_such() -> None:
    assert read_events([b"data: \xff\n\ndata: ok\n\n"]) == [
        Event("message", "\ufffd", damaged=True),
        Event("message", "ok"),
    ]


def test_r20_unicode_line_separators_are_text(shared: Path) -> None:
    events = read_events([(shared / "cases" / "R20_line_separators.sse").read_bytes()])
    assert len(events) == 3
    text = json.loads(events[0].data)["choices"][0]["delta"]["content"]
    assert text == "one\u2028two\u0085three\u2029four"


def test_r21_a_character_may_be_split_over_chunks(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R21_split_utf8.json").read_bytes())
    events = read_events([base64.b64decode(chunk) for chunk in case["response"]["chunks_base64"]])
    assert json.loads(events[0].data)["choices"][0]["delta"]["content"] == case["expected_text"]
    assert events[1].data == "[DONE]"


def test_r19_the_last_event_is_unterminated(shared: Path) -> None:
    events = read_events([(shared / "cases" / "R19_interrupted_responses.sse").read_bytes()])
    assert [event.terminated for event in events] == [True, False]


@pytest.mark.parametrize("size", [1, 7])
def test_each_byte_is_looked_at_once_however_small_the_chunks(size: int) -> None:
    line = b"data: " + b"x" * 200_000 + b"\n\n"
    events = read_events([line[at : at + size] for at in range(0, len(line), size)])
    assert len(events[0].data) == 200_000

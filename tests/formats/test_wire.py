"""Answers as they came over the wire: the head, and the body without its framing, whatever the reads' borders are."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tachograph.formats.wire import Deframer, HeadTaker, read_head

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: sid=aB3; Path=/\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
TO_THE_END = b"HTTP/1.0 200 Fine\nX-Token: abc\n\nall of it\n\n"
SECRETS = [b"aB3", b"abc"]


def _cut(data: bytes, borders: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


@pytest.mark.parametrize(
    ("wire", "status", "body"),
    [
        (PLAIN, 200, b"hello"), (CHUNKED, 200, b"abcdefgh"), (INTERIM + PLAIN, 200, b"hello"),
        (INTERIM + CHUNKED, 200, b"abcdefgh"), (TO_THE_END, 200, b"all of it\n\n"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 101 Switching\r\n\r\n\x81\x02hi", 101, b"\x81\x02hi"),
    ],
)  # fmt: skip
@given(borders=st.lists(st.integers(0, 400), max_size=12))
def test_head_and_body_do_not_depend_on_where_the_reads_ended(
    wire: bytes, status: int, body: bytes, borders: list[int]
) -> None:  # fmt: skip
    pieces = _cut(wire, borders)
    taker, deframer = HeadTaker(), Deframer()
    written, heads = [], []
    for piece in pieces:
        kept, head = taker.take(piece) if not taker.done else (piece, None)
        written.append(kept)
        heads += [] if head is None else [head]
    assert [head.status for head in heads] == [status]
    assert [len(one) for one in written] == [len(one) for one in pieces]
    assert b"".join(deframer.feed(one) for one in written) == body
    assert not any(
        secret + end in b"".join(written) for secret in (b"sid=aB3", b"X-Token: abc") for end in (b";", b"\n")
    )


@example(b"\n\n", [])
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_bytes_that_are_no_answer_pass_as_they_are(data: bytes, borders: list[int]) -> None:
    taker = HeadTaker()
    data = b"\x00" + data
    assert b"".join(taker.take(piece)[0] for piece in _cut(data, borders)) == data
    assert Deframer().feed(data) == data


def test_a_head_gives_its_parts_and_folded_lines_belong_to_the_one_before() -> None:
    head = read_head(b"HTTP/1.1 302 Moved for now\r\nLocation: /a\r\nX-Long: one\r\n two\r\nEmpty:\r\nno colon")
    assert head is not None
    assert (head.status, head.version, head.reason) == (302, b"HTTP/1.1", b"Moved for now")
    assert head.headers == [(b"Location", b"/a"), (b"X-Long", b"one two"), (b"Empty", b"")]
    assert read_head(b"GET / HTTP/1.1") is None


def test_what_breaks_its_own_framing_is_not_shown_as_a_body() -> None:
    deframer = Deframer()
    assert deframer.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nnonsense\r\n") == b"ab"
    assert deframer.feed(b"3\r\nabc\r\n") == b""


@pytest.mark.parametrize(
    ("wire", "bodiless", "complete"),
    [
        (PLAIN, False, True), (CHUNKED, False, True), (INTERIM + CHUNKED, False, True), (TO_THE_END, False, False),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", False, True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", True, True), (PLAIN[:-1], False, False),
        (CHUNKED[:-2], False, False), (INTERIM, False, False),
    ],
)  # fmt: skip
@given(borders=st.lists(st.integers(0, 400), max_size=12))
def test_an_answer_is_complete_at_its_last_byte_where_its_framing_says_so(
    wire: bytes, bodiless: bool, complete: bool, borders: list[int]
) -> None:  # fmt: skip
    deframer, seen = Deframer(bodiless=bodiless), []
    for piece in _cut(wire, borders):
        deframer.feed(piece)
        seen.append(deframer.complete)
    assert (seen[-1] if seen else False) == complete
    assert not any(seen[:-1])

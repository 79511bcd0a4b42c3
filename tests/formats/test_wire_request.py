"""What a program sends over a connection is read as requests, wherever its pieces end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.formats.wire_request import Begun, Sending, read_request_head

PLAIN = b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"PUT /up HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: t\r\n\r\n"
BARE = b"GET http://other/x HTTP/1.1\r\nHost: other\r\n\r\n"
EMPTY = b"\r\nDELETE /d HTTP/1.0\r\nContent-Length: 0\r\n\r\n"


def read(pieces: list[bytes]) -> tuple[list[Begun], list[bytes], list[bool]]:
    """The requests that began, the body of each, and whether it came to be whole."""
    sending = Sending()
    begun: list[Begun] = []
    bodies: list[bytes] = []
    whole: list[bool] = []
    for piece in pieces:
        for one in sending.feed(piece):
            if one.begun is not None:
                begun.append(one.begun)
                bodies.append(one.begun.body or b"")
                whole.append(False)
            bodies[-1] += one.body
            whole[-1] = whole[-1] or one.whole
    assert not sending.foreign
    return begun, bodies, whole


@given(borders=st.lists(st.integers(0, 400), max_size=20))
def test_requests_do_not_depend_on_where_the_pieces_end(borders: list[int]) -> None:
    data = PLAIN + CHUNKED + BARE + EMPTY
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    begun, bodies, whole = read([data[a:b] for a, b in itertools.pairwise(places)])
    assert [(one.method, one.target) for one in begun] == [
        ("POST", "/a?b=c"), ("PUT", "/up"), ("GET", "http://other/x"), ("DELETE", "/d"),
    ]  # fmt: skip
    assert bodies == [b"hello", b"abcdefgh", b"", b""]
    assert whole == [True] * 4


def test_a_request_that_comes_in_one_piece_begins_with_its_whole_body() -> None:
    (piece,) = Sending().feed(PLAIN)
    assert piece.begun is not None
    assert (piece.begun.body, piece.body, piece.whole) == (b"hello", b"", True)
    assert piece.begun.headers == [(b"Host", b"h"), (b"Content-Length", b"5")]


def test_an_address_is_whole_behind_a_proxy_and_without_one() -> None:
    begun, _, _ = read([PLAIN, BARE, b"OPTIONS * HTTP/1.1\r\n\r\n"])
    assert [one.url("https://h:8443") for one in begun] == [
        "https://h:8443/a?b=c",
        "http://other/x",
        "https://h:8443/*",
    ]


@pytest.mark.parametrize(
    "foreign", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x81\x02hi", b"\x16\x03\x01\x02\x00\x01\x00", b"a" * 100]
)
def test_what_is_no_request_is_said_to_be_foreign_and_so_is_all_after_it(foreign: bytes) -> None:
    sending = Sending()
    assert sending.feed(foreign) == []
    assert sending.foreign
    assert sending.feed(PLAIN) == []


def test_a_folded_line_belongs_to_the_one_before() -> None:
    head = read_request_head(b"GET / HTTP/1.1\r\nX-Long: one\r\n two\r\nno colon")
    assert head is not None
    assert head.headers == [(b"X-Long", b"one two")]


def test_a_request_is_not_whole_before_its_last_byte() -> None:
    for written in (PLAIN, CHUNKED, BARE, EMPTY):
        sending = Sending()
        assert not any(piece.whole for piece in sending.feed(written[:-1]))
        assert [piece.whole for piece in sending.feed(written[-1:])] == [True]


def test_the_last_of_several_headers_of_one_name_counts() -> None:
    begun = read_request_head(b"GET / HTTP/1.1\r\nUpgrade: h2c\r\nUPGRADE: WebSocket")
    assert begun is not None
    assert (begun.header(b"upgrade"), begun.header(b"expect"), begun.expects) == (b"websocket", b"", False)

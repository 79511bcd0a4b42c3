"""Requests are read whole and kept as they were sent; what is broken or no HTTP is never half returned."""

from __future__ import annotations

import io

import pytest

from tachograph.testing.wire import NotHttp, PeerGone, Request, read_request


def read(raw: bytes) -> Request | None:
    return read_request(io.BytesIO(raw), go_on=lambda: None)


def test_headers_keep_their_order_case_and_repetition() -> None:
    request = read(b"GET /a?b=%2F HTTP/1.1\r\nX-Two: 1\r\nx-one:  2 \r\nX-Two: \xe9\r\n\r\n")
    assert request is not None
    assert request.headers == (("X-Two", "1"), ("x-one", "2"), ("X-Two", "é"))
    assert (request.method, request.path, request.query) == ("GET", "/a", "b=%2F")
    assert request.header("X-ONE") == "2"
    assert request.header("none", "default") == "default"


def test_a_body_is_as_long_as_its_content_length() -> None:
    request = read(b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n[1]\nGET / HTTP/1.1\r\n\r\n")
    assert request is not None
    assert request.body == b"[1]\n"
    assert request.json() == [1]


def test_a_chunked_body_keeps_its_borders() -> None:
    body = b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\ntrailer: 1\r\n\r\n"
    request = read(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + body)
    assert request is not None
    assert request.body == b"abc0123456789"
    assert request.chunks == (b"abc", b"0123456789")


def test_a_client_that_waits_is_told_to_go_on_before_its_body_is_read() -> None:
    told: list[int] = []
    source = io.BytesIO(b"PUT / HTTP/1.1\r\nExpect: 100-Continue\r\ncontent-length: 2\r\n\r\nhi")
    request = read_request(source, go_on=lambda: told.append(source.tell()))
    assert request is not None
    assert told == [source.getbuffer().nbytes - 2]


def test_a_close_between_two_requests_is_no_fault() -> None:
    assert read(b"") is None
    assert read(b"\r\n") is None


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: a\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
    ],
)
def test_a_request_that_breaks_off_is_not_returned(raw: bytes) -> None:
    with pytest.raises(PeerGone):
        read(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\n",
        b"GET /\r\n\r\n",
        b"GET / FTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: five\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
    ],
)
def test_what_is_no_http_is_named(raw: bytes) -> None:
    with pytest.raises(NotHttp):
        read(raw)


@pytest.mark.parametrize(
    ("version", "connection", "alive"),
    [
        ("HTTP/1.1", "", True),
        ("HTTP/1.1", "Close", False),
        ("HTTP/1.0", "", False),
        ("HTTP/1.0", "Keep-Alive", True),
    ],
)
def test_a_client_says_whether_it_keeps_the_connection(version: str, connection: str, alive: bool) -> None:
    headers = (("Connection", connection),) if connection else ()
    assert Request(method="GET", target="/", version=version, headers=headers).keeps_alive is alive

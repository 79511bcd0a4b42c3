"""Each behaviour reaches a bare socket byte for byte: borders, breaks, what was sent before."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tachograph.testing.replies import (
    Behaviour,
    Hangup,
    Raw,
    Reply,
    Silence,
    head_then_hang,
    malformed_status_line,
    plain,
    stream,
)
from tachograph.testing.scripted import ScriptedServer

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


def asked(behaviour: Behaviour, request: bytes = GET, *, timeout_s: float = 5.0) -> tuple[list[bytes], str]:
    """What one request gets: the pieces as they were read from the socket, and how the connection ended."""
    with ScriptedServer([behaviour]) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.settimeout(timeout_s)
        client.sendall(request)
        pieces = []
        try:
            while piece := client.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:
            return pieces, "reset"
        except TimeoutError:
            return pieces, "open"
        return pieces, "closed"


def body_of(raw: bytes) -> bytes:
    return raw.partition(b"\r\n\r\n")[2]


def test_a_whole_answer_has_the_given_headers_its_length_and_nothing_else() -> None:
    pieces, _ = asked(plain(b"hi", headers=[("X-B", "1"), ("x-a", "2")]), timeout_s=0.3)
    assert b"".join(pieces) == b"HTTP/1.1 200 OK\r\nX-B: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nhi"


def test_each_chunk_is_read_by_itself_when_reads_are_asked_for() -> None:
    cut = [b"data: caf\xc3", b"\xa9\n", b"\n", b"data: [DONE]\n\n"]
    pieces, ended = asked(stream(cut, framing="until_close", borders="reads"))
    assert (pieces[1:], ended) == (cut, "closed")
    pieces, _ = asked(stream(cut, borders="reads"), timeout_s=0.3)
    assert pieces[1:5] == [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in cut]
    assert b"".join(pieces[5:]) == b"0\r\n\r\n"


def test_pauses_stand_between_chunks() -> None:
    started = time.monotonic()
    pieces, _ = asked(stream([b"a", 0.15, b"b"], framing="until_close"))
    assert b"".join(pieces).endswith(b"ab")
    assert time.monotonic() - started >= 0.15


def test_a_reset_comes_after_the_last_byte_inside_a_chunk() -> None:
    pieces, ended = asked(stream([b"0123456789", b"0123456789"], ending="reset", cut_after=13))
    assert ended == "reset"
    assert body_of(b"".join(pieces)) == b"a\r\n0123456789\r\na\r\n012"


def test_a_reset_takes_no_byte_back_however_many_there_were() -> None:
    body = bytes(range(256)) * 4000
    pieces, ended = asked(stream([body], framing="until_close", ending="reset"))
    assert ended == "reset"
    assert body_of(b"".join(pieces)) == body


@pytest.mark.parametrize("framing", ["content_length", "chunked", "until_close"])
def test_a_fin_can_come_inside_any_body(framing: str) -> None:
    pieces, ended = asked(Reply(chunks=(b"0123456789",), framing=framing, ending="cut", cut_after=3))  # type: ignore[arg-type]
    assert ended == "closed"
    assert b"".join(pieces).endswith(b"012")


def test_a_length_of_the_scripts_own_is_left_alone() -> None:
    pieces, ended = asked(Reply(headers=(("Content-Length", "99"),), chunks=(b"ab",), ending="cut"))
    assert ended == "closed"
    assert b"".join(pieces).count(b"ength") == 1
    assert b"Content-Length: 99" in b"".join(pieces)


@pytest.mark.parametrize(("behaviour", "head"), [(Silence(), b""), (head_then_hang(), b"HTTP/1.1 200 OK\r\n")])
def test_a_hanging_server_keeps_the_connection_open(behaviour: Behaviour, head: bytes) -> None:
    pieces, ended = asked(behaviour, timeout_s=0.3)
    assert ended == "open"
    assert b"".join(pieces).startswith(head)


def test_a_stream_may_hang_after_some_chunks() -> None:
    pieces, ended = asked(stream([b"abc"], ending="hang"), timeout_s=0.3)
    assert (body_of(b"".join(pieces)), ended) == (b"3\r\nabc\r\n", "open")


def test_a_connection_can_end_without_an_answer() -> None:
    assert asked(Hangup()) == ([], "closed")
    assert asked(Hangup(ending="reset")) == ([], "reset")


def test_raw_bytes_go_out_as_they_are() -> None:
    assert asked(Raw(chunks=(b"SSH-2.0-x\r\n",), ending="reset")) == ([b"SSH-2.0-x\r\n"], "reset")
    assert asked(malformed_status_line())[0][0].startswith(b"HTP/1.1 two hundred")


def test_an_answer_to_head_has_the_headers_of_the_body_and_no_body() -> None:
    reply = plain(b"abc", headers={"content-encoding": "gzip"})
    pieces, _ = asked(reply, GET.replace(b"GET", b"HEAD"), timeout_s=0.3)
    assert b"".join(pieces) == b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n"


def test_interim_answers_come_before_the_head() -> None:
    pieces, _ = asked(Reply(interim=((103, (("link", "</a>"),)),), chunks=(b"x",)), timeout_s=0.3)
    assert b"".join(pieces).startswith(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n")


def test_a_client_that_waits_for_100_continue_gets_it() -> None:
    with ScriptedServer([plain(b"done")]) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert server.wait_for_deliveries(1)
        assert server.requests[0].body == b"abc"


def test_a_client_that_goes_away_ends_the_stream_and_closes_what_feeds_it() -> None:
    closed = threading.Event()

    def endless() -> Iterator[bytes | float]:
        try:
            while True:
                yield b"x" * 1000
                yield 0.001
        finally:
            closed.set()

    with ScriptedServer([stream(endless())]) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(GET)
            assert client.recv(100)
        assert server.wait_for_deliveries(1)
        assert closed.is_set()
        assert server.deliveries[0].ended == "client_gone"
        assert server.deliveries[0].sent >= 1000

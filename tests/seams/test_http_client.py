"""http.client and what stands on it: the program sees what it would have seen, and all of it comes back in a replay.

Real clients against a real server on loopback, each behaviour with each client in turn.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tachograph.testing.scripted import (
    Behaviour,
    Hangup,
    Raw,
    Reply,
    Request,
    ScriptedServer,
    Silence,
    head_then_hang,
    plain,
    stream,
)
from tests.seams.driver import Session
from tests.seams.http_clients import HEAD, each_client, twice, written
from tests.seams.tls import TlsServer, certificate

# --- requests and answers ---------------------------------------------------------------------------------------------

ASKS = """
told(call("POST", "/v1?x=1&y=%20", b'{"a": 1}', {"Content-Type": "application/json", "X-Two": "1"}))
told(call("GET", "/binary"))
told(call("DELETE", "/none"))
told(call("HEAD", "/head"))
told(call("GET", "/chunked"))
told(call("GET", "/old"))
told(call("GET", "/close"))
told(call("GET", "/empty"))
told(call("PUT", "/none", b""))
told(call("GET", "/interim"))
told(call("GET", "/large"))
told(call("GET", "/trailer"))
"""
LARGE = bytes(range(256)) * 6000


def asks_script(request: Request) -> Behaviour:
    many = (("X-Many", "one"), ("x-many", "two"), ("X-Empty", ""), ("content-type", "application/json"))
    trailer = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nwith\r\n0\r\nX-Trailer: one\r\n\r\n",)
    return {
        "/v1": Reply(status=201, reason="Made", headers=many, chunks=(b'{"b":2}',)),
        "/binary": plain(b"\x00\xff\r\n\r\n"), "/none": Reply(status=204), "/head": plain(b"never sent"),
        "/chunked": stream([b"one", b"two"]), "/old": Raw(chunks=(b"HTTP/1.0 200 Fine\r\nX-A: b\r\n\r\nall of it",)),
        "/close": stream([b"to the end"], framing="until_close"), "/empty": plain(b""), "/large": plain(LARGE),
        "/interim": Reply(interim=((100, ()),), chunks=(b"after it",)), "/trailer": Raw(chunks=trailer),
    }[request.path]  # fmt: skip


@each_client
def test_requests_and_answers_come_back_whole(tmp_path: Path, client: str) -> None:
    with ScriptedServer(asks_script) as server:
        recorded = twice(tmp_path, written(ASKS, client), server)
        sent = server.requests[len(server.requests) // 2]
    effects = recorded.log.effects
    first = effects[0]
    assert (first.library, first.method) == ("http.client", "POST")
    assert first.url == f"http://{sent.header('host')}/v1?x=1&y=%20"
    assert first.body == sent.body == b'{"a": 1}'
    assert [(name.decode(), value.decode()) for name, value in first.headers] == list(sent.headers)
    assert (first.status, first.reason, first.version, first.answer) == (201, b"Made", b"HTTP/1.1", b'{"b":2}')
    assert (b"X-Many", b"one") in first.response_headers, "names as sent"
    assert {effect.ended for effect in effects} == {"eof"}
    assert effects[10].answer == LARGE
    assert (effects[9].status, effects[9].answer, effects[11].answer) == (200, b"after it", b"with")
    assert all(effect.body_complete for effect in effects)


@each_client
def test_a_connection_over_tls_is_recorded_above_it_and_its_replay_makes_no_handshake(
    tmp_path: Path, client: str
) -> None:
    authority = certificate(tmp_path)
    body = """
    told(call("GET", "/chunked"))
    told(call("POST", "/v1", b"{}"))
    """
    with TlsServer.under(authority, asks_script) as server:
        recorded = twice(tmp_path, written(body, client), server)
    assert [effect.url.split(":")[0] for effect in recorded.log.effects] == ["https"] * 2
    assert recorded.log.effects[0].answer == b"onetwo"


@each_client
def test_a_certificate_that_is_not_trusted_fails_in_the_same_way(tmp_path: Path, client: str) -> None:
    (tmp_path / "other").mkdir()
    authority, other = certificate(tmp_path), certificate(tmp_path / "other")
    with TlsServer.under(authority, asks_script) as server:
        server.authority = other
        session = Session(tmp_path, written('tried(call, "GET", "/v1")', client))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CA", str(authority))
            recorded = session.record(server.url)
            assert "CERTIFICATE_VERIFY_FAILED" in recorded.out
            before = server.connections
            replayed = recorded.replay()
        assert server.connections == before
    assert replayed.out == recorded.out
    assert replayed.clean, (replayed.misses, replayed.attempts)
    (effect,) = recorded.log.effects
    assert (effect.method, effect.url, effect.ended) == ("CONNECT", f"{server.url}/", "error")


STREAMS = 'told(parts("/stream"), parts("/lines"))'
EVENTS = 'data: {"text": "grüße"}\n\ndata: {"text": "\u2028 end"}\n\ndata: [DONE]\n\n'.encode()
CUT = [EVENTS[at : at + 7] for at in range(0, len(EVENTS), 7)]


@each_client
def test_a_stream_keeps_its_borders_wherever_it_is_cut(tmp_path: Path, client: str) -> None:
    def script(request: Request) -> Behaviour:
        return stream(CUT, borders="reads", framing="chunked" if request.path == "/stream" else "until_close")

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, written(STREAMS, client), server)
    assert [effect.chunks for effect in recorded.log.effects] == [CUT, CUT]


# --- what breaks ------------------------------------------------------------------------------------------------------

BREAKS = """
for path in ("/refuse", "/reset", "/cut", "/hang", "/half", "/length", "/malformed", "/nothing"):
    tried(call, "GET", path)
told(call("GET", "/well")[0])
"""
BROKEN: dict[str, Behaviour] = {
    "/refuse": Hangup(), "/reset": Hangup(ending="reset"), "/hang": Silence(),
    "/cut": stream([b"one", b"two"], ending="cut", cut_after=4, borders="reads"),
    "/half": stream([b"one", b"two"], ending="reset", borders="reads"),
    "/length": stream([b"one", b"two"], framing="content_length", ending="cut", cut_after=4, borders="reads"),
    "/malformed": Raw(chunks=(b"HTP/1.1 two hundred fine\r\n\r\n",)), "/nothing": head_then_hang(),
    "/well": plain(b"well"),
}  # fmt: skip


@each_client
def test_what_breaks_breaks_again_in_the_same_way(tmp_path: Path, client: str) -> None:
    with ScriptedServer(lambda request: BROKEN[request.path]) as server:
        recorded = twice(tmp_path, written(BREAKS, client, limit=0.4), server)
    assert recorded.out.count("raised") >= 5
    assert recorded.log.effects[-1].ended == "eof"


@each_client
def test_a_refused_connection_is_an_effect_and_its_error_is_built_again_by_the_client(
    tmp_path: Path, client: str
) -> None:
    body = """
    BASE = "http://127.0.0.1:1"
    kept = HOST = "127.0.0.1:1"
    if "opened" in globals(): kept = opened()
    tried(call, "GET", "/x")
    tried(call, "GET", "/x")
    """
    with ScriptedServer([]) as server:
        recorded = twice(tmp_path, written(body, client), server)
    assert recorded.out.count("EndpointConnectionError" if client == "botocore" else "Connection refused") >= 2
    for effect in recorded.log.effects:
        assert (effect.method, effect.url, effect.ended) == ("CONNECT", "http://127.0.0.1:1/", "error")


def test_the_clients_own_error_stands_on_the_recorded_one(tmp_path: Path) -> None:
    body = """
    import requests
    for host in ("127.0.0.1:1", "no-such-host.invalid"):
        try:
            requests.get(f"http://{host}/")
        except requests.ConnectionError as fault:
            reason = fault.args[0].reason
            told(type(reason).__name__, type(reason.__cause__).__name__, reason.__cause__.errno, reason.args[0])
    """
    with ScriptedServer([]) as server:
        recorded = twice(tmp_path, HEAD + textwrap.dedent(body), server)
    assert "NewConnectionError ConnectionRefusedError 111" in recorded.out
    assert "NameResolutionError gaierror" in recorded.out


def test_a_miss_comes_out_of_the_call_and_nothing_is_sent(tmp_path: Path) -> None:
    source = written('tried(call, "GET", sys.argv[2])', "requests")
    with ScriptedServer([], then=plain(b"a")) as server:
        recorded = Session(tmp_path, source).record(server.url, "/a")
        before = server.hits, server.connections
        replayed = recorded.replay(server.url, "/b")
        assert (server.hits, server.connections) == before
    assert "EffectMissed" in replayed.ended.err
    (miss,) = replayed.misses
    assert miss["firstDifference"]["path"] == "/url/path" or "path" in miss["firstDifference"]["path"]

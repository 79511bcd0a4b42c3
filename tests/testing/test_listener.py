"""The scripted server remembers what it was asked, keeps order, and leaves nothing behind."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tachograph.testing.scripted import Behaviour, Request, ScriptedServer, Silence, json_reply, plain
from tachograph.testing.wire import NotHttp


def test_every_request_is_kept_as_it_came() -> None:
    before = time.monotonic()
    with ScriptedServer([plain(b"1"), plain(b"2")]) as server, httpx.Client() as client:
        client.post(f"{server.url}/a?q=1", content=b"\x00\xff", headers={"X-Case": "kept"})
        client.get(f"{server.url}/b")
        first, second = server.requests
    assert (first.method, first.target, first.body) == ("POST", "/a?q=1", b"\x00\xff")
    assert ("X-Case", "kept") in first.headers
    assert before <= first.arrived <= second.arrived <= time.monotonic()
    assert (first.number, second.number, server.hits) == (0, 1, 2)
    assert [delivery.ended for delivery in server.deliveries] == ["complete", "complete"]


def test_one_connection_serves_many_requests() -> None:
    with ScriptedServer([plain()] * 5) as server, httpx.Client() as client:
        for _ in range(5):
            client.get(server.url)
    assert (server.hits, server.connections) == (5, 1)


def test_a_program_that_calls_nobody_leaves_no_hit_and_no_connection() -> None:
    with ScriptedServer([plain()]) as server:
        pass
    assert (server.hits, server.connections, server.requests) == (0, 0, ())


def test_a_connection_without_a_request_is_counted() -> None:
    with ScriptedServer([plain()]) as server:
        with socket.create_connection(("127.0.0.1", server.port)):
            pass
        with httpx.Client() as client:
            client.get(server.url)
    assert (server.hits, server.connections) == (1, 2)


def test_a_script_may_be_a_function_of_the_request() -> None:
    def echo(request: Request) -> Behaviour:
        return json_reply({"path": request.path, "number": request.number})

    with ScriptedServer(echo) as server, ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda path: httpx.get(server.url + path).json(), [f"/{n}" for n in range(5)]))
    assert [answer["path"] for answer in answers] == [f"/{n}" for n in range(5)]
    assert sorted(answer["number"] for answer in answers) == list(range(5))


def test_beyond_the_script_the_answer_says_so() -> None:
    with ScriptedServer([plain()]) as server, httpx.Client() as client:
        client.get(server.url)
        answer = client.get(f"{server.url}/late")
    assert answer.status_code == 410
    assert "1 behaviours; this is request 2: GET /late" in answer.text


def test_beyond_the_script_another_behaviour_may_be_named() -> None:
    with ScriptedServer([plain(b"first")], then=plain(b"then")) as server, httpx.Client() as client:
        assert [client.get(server.url).text for _ in range(3)] == ["first", "then", "then"]


def test_what_a_script_raises_is_raised_again_and_no_answer() -> None:
    def broken(request: Request) -> Behaviour:
        raise KeyError("the test's own mistake")

    def ask() -> None:
        with ScriptedServer(broken) as server, pytest.raises(httpx.TransportError):
            httpx.get(server.url)

    with pytest.raises(KeyError, match="own mistake"):
        ask()


def test_what_is_no_http_is_a_fault_of_the_test() -> None:
    server = ScriptedServer([plain()]).start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"\x16\x03\x01\n")
        assert client.recv(10) == b""
    server.stop()
    assert isinstance(server.faults[0], NotHttp)
    assert server.hits == 0


def test_the_end_of_the_server_ends_every_connection_and_thread() -> None:
    before = threading.active_count()
    server = ScriptedServer([Silence()]).start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert server.wait_for_hits(1)
        server.stop()
        server.stop()
        assert client.recv(10) == b""
    assert threading.active_count() == before
    assert server.deliveries[0].ended == "stopped"


def test_a_server_that_was_not_started_has_no_port() -> None:
    with pytest.raises(RuntimeError, match="start"):
        _ = ScriptedServer([]).port


def test_waiting_for_requests_that_do_not_come_ends() -> None:
    with ScriptedServer([]) as server:
        assert not server.wait_for_hits(1, timeout_s=0.05)
        assert not server.wait_for_deliveries(1, timeout_s=0.05)

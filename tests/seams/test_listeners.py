"""The run's own listeners: a call to one stays inside the run, and the port that one was given is a draw."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.seams import listeners
from tachograph.testing.scripted import ScriptedServer, plain
from tests.seams.driver import Session

GIVEN = """
import socket
def given():
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen()
    return one
"""

ASKING = (
    GIVEN
    + """
import sys, threading, httpx
def serve(listener, times):
    for _ in range(times):
        with listener.accept()[0] as one:
            one.recv(65536)
            one.sendall(b"HTTP/1.1 200 OK\\r\\ncontent-length: 4\\r\\nconnection: close\\r\\n\\r\\nself")
def start(listener, times=1):
    thread = threading.Thread(target=serve, args=(listener, times))
    thread.start()
    return thread
"""
)


def test_a_port_that_was_given_is_a_draw_and_bound_again(tmp_path: Path) -> None:
    session = Session(tmp_path, GIVEN + """
first, second = given(), socket.create_server(("localhost", 0))
print(first.getsockname(), second.getsockname())
""")  # fmt: skip
    recorded = session.record()
    assert [draw.site[0] for draw in recorded.log.draws] == ["socket.bind", "socket.bind"]
    assert "create_server" in recorded.log.draws[1].site[3]  # the program's line, not the library's
    replayed = recorded.replay()
    assert (replayed.out, replayed.drift, replayed.clean) == (recorded.out, [], True)


def test_where_the_recorded_port_is_taken_another_is_bound_and_the_drift_says_so(tmp_path: Path) -> None:
    recorded = Session(tmp_path, GIVEN + "print(given().getsockname()[1])").record()
    with socket.create_server(("127.0.0.1", int(recorded.out))):
        replayed = recorded.replay()
    assert replayed.out != recorded.out
    (drift,) = replayed.drift
    assert drift["site"][0] == "socket.bind"
    assert drift["what"] == f"port {replayed.out.strip()} was bound, the recorded {recorded.out.strip()} is taken here"


def test_a_port_that_the_program_chose_is_no_draw(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
    recorded = Session(tmp_path, f"import socket\nsocket.socket().bind(('127.0.0.1', {port}))").record()
    assert (recorded.ended.status, recorded.log.draws) == (0, [])


def test_a_call_to_an_own_listener_is_no_effect_and_is_made_again(tmp_path: Path) -> None:
    session = Session(tmp_path, ASKING + """
listener = given()
thread = start(listener, 2)
print(httpx.get("http://localhost:%d/" % listener.getsockname()[1]).text)
with socket.create_connection(listener.getsockname()) as one:
    one.sendall(b"GET")
    print(one.recv(65536)[-4:])
thread.join()
""")  # fmt: skip
    recorded = session.record()
    assert recorded.out == "self\nb'self'\n"
    assert (recorded.log.effects, recorded.notes()) == ([], [])
    replayed = recorded.replay()
    assert (replayed.out, replayed.clean, replayed.said(fr.LIVE)) == (recorded.out, True, [])


def test_what_takes_the_port_of_a_closed_listener_is_the_world_outside(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain("outside")) as server:
        recorded = Session(tmp_path, ASKING + f"""
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.2", {server.port}))
listener.listen()
print(httpx.get("http://127.0.0.1:{server.port}/").text)  # the same port of another address
held = given()
port = held.getsockname()[1]
held.close()
try:
    httpx.get(f"http://127.0.0.1:{{port}}/")
except httpx.ConnectError as fault:
    print("refused")
""").record()  # fmt: skip
        assert recorded.out == "outside\nrefused\n"
        assert [effect.kind for effect in recorded.log.effects] == ["http", "http"]
        hits = server.hits
        replayed = recorded.replay()
        assert (replayed.out, replayed.clean, server.hits) == (recorded.out, True, hits)


def test_a_replay_lets_nobody_reach_a_port_that_its_program_does_not_listen_at(tmp_path: Path) -> None:
    session = Session(tmp_path, GIVEN + "import os, sys\nlistener = given()\n")
    recorded = session.record()
    with ScriptedServer([], then=plain("pong")) as server:
        session.rewrite(GIVEN + f"""
listener = given()
try:
    socket.create_connection(("127.0.0.1", {server.port}))
except PermissionError:
    print("refused")
listener.close()
try:
    socket.create_connection(listener_address := ("127.0.0.1", {recorded.log.draws[0].value}))
except PermissionError:
    print("refused")
""")  # fmt: skip
        replayed = recorded.replay()
        assert (replayed.out, server.connections) == ("refused\nrefused\n", 0)
    assert len(replayed.attempts) == 2


def test_a_unix_socket_of_its_own_is_own(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import os, socket
        if os.path.exists("own"): os.unlink("own")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("own")
        listener.listen()
        one = socket.socket(socket.AF_UNIX)
        one.connect("own")
        listener.accept()[0].sendall(b"hello")
        print(one.recv(5))
    """).record()  # fmt: skip
    assert (recorded.out, recorded.notes()) == ("b'hello'\n", [])
    replayed = recorded.replay()
    assert (replayed.out, replayed.clean) == (recorded.out, True)


@pytest.mark.parametrize(
    ("bound", "host", "own"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "192.0.2.1", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "localhost", True),
        ("0.0.0.0", "0.0.0.0", True),
        ("0.0.0.0", "api.example", False),
        ("", "127.0.0.3", True),
    ],
)
def test_an_address_is_own_where_a_connection_to_it_would_end_at_the_listener(bound: str, host: str, own: bool) -> None:
    with socket.socket() as one:
        one.bind((bound, 0))
        one.listen()
        listeners.add(one)
        number = one.getsockname()[1]
        assert listeners.is_own(host, number) is own
        assert listeners.is_own_address((host, number)) is own
        assert not listeners.is_own(host, number + 1)
    assert not listeners.is_own(host, number)


def test_a_listener_whose_number_went_to_something_else_is_no_listener() -> None:
    """A closed descriptor's number is used again at once."""
    one = socket.create_server(("127.0.0.1", 0))
    listeners.add(one)
    number, fd = one.getsockname()[1], one.fileno()
    one.close()
    again = os.open(os.devnull, os.O_RDONLY)
    assert again == fd
    assert not listeners.is_own("127.0.0.1", number)
    os.close(again)

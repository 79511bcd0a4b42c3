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


def test_where_a_unix_socket_of_another_process_was_and_is_gone_nobody_is_reached(tmp_path: Path) -> None:
    session = Session(tmp_path, """
        import os, socket, sys
        if os.path.exists("below"): os.unlink("below")
        if not os.fork():
            one = socket.socket(socket.AF_UNIX)
            one.bind("below")
            one.listen()
            os.unlink("below")
            os._exit(0)
        os.wait()
        for path in ("below", *sys.argv[1:]):
            try:
                socket.socket(socket.AF_UNIX).connect(path)
            except OSError as fault:
                print(type(fault).__name__)
    """)  # fmt: skip
    recorded = session.record()
    assert (recorded.out, recorded.notes()) == ("FileNotFoundError\n", [])
    replayed = recorded.replay()
    assert (replayed.out, replayed.clean) == (recorded.out, True)
    replayed = recorded.replay("never there")
    assert (replayed.out, len(replayed.attempts)) == (recorded.out + "PermissionError\n", 1)


SERVED = """
import socket, subprocess, sys
CHILD = "import socket, sys\\n" + {serve!r}
def start(*words):
    child = subprocess.Popen([sys.executable, "-c", CHILD, *words], stdin=-1, stdout=-1, text=True)
    return child, child.stdout.readline().strip()
def called(address, family=socket.AF_INET):
    one = socket.socket(family)
    try:
        one.connect(address)
        return one.recv(5)
    except OSError as fault:
        return type(fault).__name__
"""

SERVE = """
family = getattr(socket, sys.argv[1])
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(eval(sys.argv[2]))
listener.listen()
listener.settimeout(20)
name = listener.getsockname()
print(name[1] if isinstance(name, tuple) else "there", flush=True)
def answer():
    with listener.accept()[0] as one:
        one.sendall(b"hello")
answer()
sys.stdin.read()
listener.close()
print("closed", flush=True)
sys.stdin.close()
import time
time.sleep(0.2)
"""

ADDRESSES = {
    "loopback": ("AF_INET", '("127.0.0.1", 0)', '("localhost", int(where))'),
    "every address": ("AF_INET", '("", 0)', '("127.0.0.1", int(where))'),
    "IPv6": ("AF_INET6", '("::1", 0)', '("::1", int(where))'),
    "a path": ("AF_UNIX", '"below"', '"below"'),
    "an abstract name": (
        "AF_UNIX",
        'b"\\0tachograph-" + sys.argv[3].encode()',
        'b"\\0tachograph-" + sys.argv[1].encode()',
    ),
}


@pytest.mark.parametrize("kind", ADDRESSES)
def test_what_a_child_listens_at_is_own_until_it_has_closed_it(tmp_path: Path, kind: str) -> None:
    family, bound, called = ADDRESSES[kind]
    session = Session(tmp_path, SERVED.format(serve=SERVE) + f"""
import os
child, where = start({family!r}, {bound!r}, *sys.argv[1:])
print(called({called}, socket.{family}))
child.stdin.close()
print(child.stdout.readline().strip())
if {family!r} == "AF_UNIX" and os.path.exists("below"): os.unlink("below")
print(called({called}, socket.{family}), child.wait())
""")  # fmt: skip
    recorded = session.record(tmp_path.name)
    assert recorded.out.splitlines()[:2] == ["b'hello'", "closed"], recorded.ended
    assert len(recorded.notes()) == (0 if kind == "a path" else 1), "what is closed is nobody's"
    replayed = recorded.replay()
    assert replayed.out.splitlines()[:2] == recorded.out.splitlines()[:2]
    assert [said["where"] for said in replayed.attempts] == [detail for _, detail in recorded.notes()]


def test_a_replay_lets_nobody_reach_a_port_that_only_another_program_listens_at(tmp_path: Path) -> None:
    session = Session(tmp_path, SERVED.format(serve=SERVE) + """
child, where = start("AF_INET", "('127.0.0.1', 0)")
print(called(("127.0.0.1", int(sys.argv[1] if sys.argv[1:] else where))))
child.kill()
""")  # fmt: skip
    recorded = session.record()
    assert (recorded.out, recorded.notes()) == ("b'hello'\n", [])
    assert recorded.replay().clean
    with ScriptedServer([], then=plain("outside")) as server:
        replayed = recorded.replay(str(server.port))
        assert (replayed.out, server.connections) == ("PermissionError\n", 0)
    assert len(replayed.attempts) == 1


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


def test_what_the_kernel_shows_of_listeners_is_each_that_listens_and_no_other(tmp_path: Path) -> None:
    bound = {
        "127.0.0.1": socket.create_server(("127.0.0.1", 0)),
        "0.0.0.0": socket.create_server(("0.0.0.0", 0)),
        "::1": socket.create_server(("::1", 0), family=socket.AF_INET6),
        "::": socket.create_server(("::", 0), family=socket.AF_INET6),
        "127.0.0.9": socket.socket(socket.AF_INET6),
    }
    bound["127.0.0.9"].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    bound["127.0.0.9"].bind(("::ffff:127.0.0.9", 0))
    bound["127.0.0.9"].listen()
    there, idle = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    there.bind(str(tmp_path / "a path"))
    there.listen()
    idle.bind(str(tmp_path / "idle"))
    with socket.create_connection(bound["127.0.0.1"].getsockname()) as one, bound["127.0.0.1"].accept()[0] as other:
        found = {inode: (host, where) for host, where, inode in listeners._listening()}
        for host, listener in bound.items():
            assert found[os.fstat(listener.fileno()).st_ino] == (host, listener.getsockname()[1])
        assert found[os.fstat(there.fileno()).st_ino] == ("", str(tmp_path / "a path"))
        assert not {os.fstat(idle.fileno()).st_ino, os.fstat(one.fileno()).st_ino, os.fstat(other.fileno()).st_ino} & {
            *found
        }
    for listener in (*bound.values(), there, idle):
        listener.close()

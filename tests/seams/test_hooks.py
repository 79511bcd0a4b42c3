"""What passes no seam is noted while recording, and refused and reported in a replay; what stays inside is neither."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tachograph.intake.skeleton import gone_past
from tachograph.testing.scripted import ScriptedServer, plain
from tests.seams.driver import Session

# A name that is no address and no `localhost`, and yet leads nowhere: RFC 6761 keeps it from ever being given.
NAME = "model.invalid"

TRIED = """
import os, socket, sys
def tried(what, call):
    try:
        print(what, "done", call() is None)
    except OSError as fault:
        print(what, type(fault).__name__)
"""


def test_a_connection_that_no_seam_claims_is_noted_with_its_address(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain("pong")) as server:
        recorded = Session(tmp_path, f"""
            import socket
            with socket.create_connection(("127.0.0.1", {server.port})) as one:
                one.sendall(b"GET / HTTP/1.1\\r\\nhost: a\\r\\nconnection: close\\r\\n\\r\\n")
                print(b"pong" in one.makefile("rb").read())
        """).record()  # fmt: skip
        assert recorded.out == "True\n"
        assert recorded.notes() == [("socket.connect", f"127.0.0.1:{server.port}")]


def test_each_is_noted_once_however_often_it_happens(tmp_path: Path) -> None:
    recorded = Session(tmp_path, TRIED + """
for _ in range(3):
    tried("connect", lambda: socket.socket().connect(("127.0.0.1", 9)))
tried("elsewhere", lambda: socket.socket().connect(("127.0.0.1", 11)))
""").record()  # fmt: skip
    assert recorded.notes() == [("socket.connect", "127.0.0.1:9"), ("socket.connect", "127.0.0.1:11")]


LEAVING = {
    "socket.connect": 'socket.socket().connect(("127.0.0.1", 9))',
    "socket.connect_ex": 'socket.socket().connect_ex(("127.0.0.1", 9))',
    "_socket": '__import__("_socket").socket().connect(("127.0.0.1", 9))',
    "unix": 'socket.socket(socket.AF_UNIX).connect("/nowhere")',
    "socket.sendto": 'socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))',
    "socket.sendmsg": 'socket.socket(type=socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, ("127.0.0.1", 9))',
    "socket.getaddrinfo": f'socket.getaddrinfo("{NAME}", 80)',
    "socket.gethostbyname": f'socket.gethostbyname("{NAME}")',
    "socket.bind": 'socket.socket().bind(("192.0.2.1", 0))',
    "os.system": 'os.system("true")',
    "os.posix_spawn": 'os.posix_spawn("/bin/true", ["true"], {})',
    "os.popen": '__import__("_posixsubprocess") and os.spawnv(os.P_WAIT, "/bin/true", ["true"])',
}


@pytest.fixture(scope="module")
def leaving(tmp_path_factory: pytest.TempPathFactory) -> Session:
    lines = "".join(f"tried({what!r}, lambda: {call})\n" for what, call in LEAVING.items())
    return Session(tmp_path_factory.mktemp("leaving"), TRIED + lines)


def test_every_way_out_is_noted_while_recording(leaving: Session) -> None:
    recorded = leaving.record()
    assert recorded.out == leaving.plain().out
    assert [what for what, _ in recorded.notes()] == [
        "socket.connect", "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
        "socket.gethostbyname", "socket.bind",
    ]  # fmt: skip
    assert ("socket.connect", "/nowhere") in recorded.notes()
    started = [(said["what"], said["detail"]) for said in gone_past(recorded.log) if said["what"].startswith("os.")]
    assert started == [("os.posix_spawn", "/bin/true"), ("os.exec", "/bin/true")]
    assert [effect.summary for effect in recorded.log.effects] == ["true"], "os.system is an effect"


def test_every_way_out_is_refused_and_reported_in_a_replay(leaving: Session) -> None:
    replayed = leaving.record().replay()
    refused = {line.split()[0] for line in replayed.out.splitlines() if line.endswith("PermissionError")}
    assert refused == {*LEAVING} - {"os.popen", "os.system"}
    attempts = [(attempt["what"], attempt["stoppedBy"]) for attempt in replayed.attempts]
    assert attempts.count(("socket.connect", "audit hook")) == 4
    assert {what for what, _ in attempts} == {
        "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname",
        "socket.bind", "os.posix_spawn", "os.exec",
    }  # fmt: skip
    assert not replayed.clean


STAYING = """
import array, asyncio, os, socket, tempfile, threading
one, other = socket.socketpair()
one.sendall(b"a pair"); print(other.recv(9))
one.sendmsg([b"a message"]); print(other.recvmsg(9)[0])
socket.send_fds(one, [b"x"], [0]); print(len(socket.recv_fds(other, 9, 1)[1]))
path = os.path.join(tempfile.mkdtemp(), "listener")
for family, address in ((socket.AF_INET, ("127.0.0.1", 0)), (socket.AF_INET, ("", 0)),
                        (socket.AF_INET, ("localhost", 0)), (socket.AF_UNIX, path)):
    with socket.socket(family) as listener:
        listener.bind(address); listener.listen(); print(family.name, bool(listener.getsockname()))
socket.socket(type=socket.SOCK_DGRAM).close()
print(socket.getaddrinfo("127.0.0.1", 80)[0][4], socket.getaddrinfo(None, 80)[0][1].name)
print(bool(socket.getaddrinfo("localhost", 1)))
async def main():
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    server.close()
    await asyncio.to_thread(print, "in a thread")
    await asyncio.sleep(0.001)
asyncio.run(main())
read, write = os.pipe(); os.write(write, b"pipe"); print(os.read(read, 9))
"""


def test_sockets_pairs_and_listeners_on_loopback_are_no_attempts(tmp_path: Path) -> None:
    session = Session(tmp_path, STAYING)
    recorded = session.record()
    assert recorded.out == session.plain().out
    assert recorded.notes() == []
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.attempts == []


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", socket.gethostname()])
def test_what_a_seam_claims_is_not_noted_whichever_thread_looks_its_name_up(
    tmp_path: Path, library: str, host: str
) -> None:
    try:
        with ScriptedServer([], then=plain("pong")) as server, socket.create_connection((host, server.port)):
            pass
    except OSError:
        pytest.skip(f"{host} does not lead to loopback here")
    with ScriptedServer([], then=plain("pong")) as server:
        recorded = Session(tmp_path, f"""
            import asyncio, {library} as library
            async def main():
                async with library.AsyncClient() as client:
                    print((await client.get("http://{host}:{server.port}/")).text)
            print(library.get("http://{host}:{server.port}/").text)
            asyncio.run(main())
        """).record()  # fmt: skip
        assert recorded.out == "pong\npong\n"
        assert recorded.notes() == []
        assert len(recorded.log.effects) == 2


def test_started_programs_are_claimed_by_their_seam(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import asyncio, subprocess
        print(subprocess.run(["echo", "a"], capture_output=True).stdout)
        print(subprocess.check_output("echo b", shell=True, close_fds=False))
        async def main():
            one = await asyncio.create_subprocess_exec("echo", "c", stdout=-1)
            print((await one.communicate())[0])
        asyncio.run(main())
    """).record()  # fmt: skip
    assert recorded.out == "b'a\\n'\nb'b\\n'\nb'c\\n'\n"
    assert recorded.notes() == []


def test_a_closed_world_was_probed_from_inside_before_the_program_began(tmp_path: Path) -> None:
    replayed = Session(tmp_path, "print('started')").record().replay()
    (ready,) = [said for _, said in replayed.said(64)]
    assert ready["held"] == {"connect": True, "start": True}
    assert replayed.attempts == [], "our own attempts are not the program's"

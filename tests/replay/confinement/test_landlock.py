"""Where no namespace may be left, Landlock and the filter close what they can, and say what they cannot."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.supervision.supervisor import Ending
from tests.replay.confinement.closed import LANDLOCK, UNSHARE, USERS, Closed, folder_of, python, run

pytestmark = [LANDLOCK, pytest.mark.parametrize("user", USERS)]

WAYS = ("landlock",)


def _tried(source: str, user: int | None) -> Closed:
    """Each line of `source` is tried by itself."""
    tries = "".join(
        f"try:\n    {line.strip()}\n    print('OUT')\nexcept OSError as fault:\n    print(type(fault).__name__)\n"
        for line in source.strip().splitlines()
    )
    return python("import ctypes, os, socket as s\n" + tries, user=user, ways=WAYS)


def test_what_the_probes_found_stands_in_the_report(user: int | None) -> None:
    closed = run("/bin/true", user=user, ways=WAYS)
    (said,) = closed.of(fr.CONFINED)
    assert said["way"] == "landlock"
    assert said["held"] == dict.fromkeys(
        ("tcp", "udp", "unix", "abstract", "file", "processes", "io_uring", "vsock"), True
    )
    assert any("modes, owners and times" in one for one in said["open"])
    assert (closed.came_out, closed.attempts, closed.ending) == ([], [], Ending(0))


def test_it_is_tried_where_namespaces_are_refused(user: int | None) -> None:

    closed = run("/bin/echo", "once", user=user, ways=("namespaces", "landlock"), without=UNSHARE)
    (said,) = closed.of(fr.CONFINED)
    # One process has one listener: the test's own refusal of namespaces has taken that place.
    assert [one for one, _ in said["failed"]] in (["namespaces"], ["namespaces", "landlock"])
    assert closed.out == "once\n"


def test_no_socket_leaves_and_each_attempt_is_told(user: int | None) -> None:
    closed = _tried(
        """
        s.create_connection(("127.0.0.1", 9))
        s.socket(s.AF_INET6).connect(("::1", 9))
        s.socket(s.AF_INET, s.SOCK_DGRAM)
        s.socket(s.AF_UNIX).connect("\\0other")
        s.socket(s.AF_UNIX, s.SOCK_DGRAM)
        s.socket(s.AF_INET, s.SOCK_STREAM, 262)
        s.socket(s.AF_INET).sendto(b"x", 0x20000000, ("127.0.0.1", 9))
        """,
        user,
    )
    held = ["PermissionError"] * 7
    held[3] = "ConnectionRefusedError"
    assert closed.out.split() == held
    told = [(said["what"], said["where"].split(" by ")[0]) for said in closed.of(fr.ATTEMPT)]
    assert told == [
        ("connect", "127.0.0.1:9"), ("connect", "[::1]:9"), ("socket", "AF_INET, SOCK_DGRAM"),
        ("connect", "unix:@other"), ("socket", "AF_UNIX, SOCK_DGRAM"), ("socket", "AF_INET, SOCK_STREAM"),
        ("sendto", "127.0.0.1:9"),
    ]  # fmt: skip


def test_what_an_ordinary_program_does_with_sockets_goes_on(user: int | None) -> None:
    """A pair of sockets, asyncio, a listener on a port that the kernel chooses, a look at the interfaces."""
    closed = python(
        """if True:
        import asyncio, socket
        one, other = socket.socketpair(); one.send(b"x"); print(other.recv(1))
        asyncio.run(asyncio.sleep(0))
        print(socket.create_server(("127.0.0.1", 0)).getsockname()[0])
        print(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[0][1].name)
        print([name for _, name in socket.if_nameindex()][0])
        """, user=user, ways=WAYS,
    )  # fmt: skip
    assert (closed.out, closed.err, closed.attempts) == ("b'x'\n127.0.0.1\nSOCK_STREAM\nlo\n", "", [])


def test_ports_that_the_run_listens_on_itself_are_let_through_and_named(user: int | None) -> None:
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port = any_socket.getsockname()[1]
    source = f"""if True:
        import socket
        server = socket.create_server(("127.0.0.1", {port}))
        socket.create_connection(("127.0.0.1", {port})).send(b"own")
        print(server.accept()[0].recv(3))
    """
    closed = python(source, user=user, ways=WAYS, ports=(port,))
    assert (closed.out, closed.err, closed.attempts) == ("b'own'\n", "", [])
    assert any(str(port) in one for one in closed.of(fr.CONFINED)[0]["open"])


def test_files_are_written_in_the_folders_that_are_given_and_nowhere_else(user: int | None, tmp_path: Path) -> None:
    with folder_of(user, tmp_path) as folder:
        given, other = folder / "given", folder / "other"
        for one in (given, other):
            one.mkdir()
            one.chmod(0o777)
        source = """if True:
            import os, sys
            for folder in sys.argv[1:]:
                for act in (lambda p: open(p, "w").close(), os.mkdir, lambda p: os.truncate(folder + "/kept", 1)):
                    try: act(folder + "/made"); print("done")
                    except FileExistsError: print("done")
                    except OSError as fault: print(type(fault).__name__)
            open("/dev/null", "w").write("x")
        """
        for one in (given, other):
            (one / "kept").write_text("kept")
            (one / "kept").chmod(0o666)
        closed = python(source, str(given), str(other), user=user, ways=WAYS, folders=(str(given),))
        assert closed.out == "done\n" * 3 + "PermissionError\n" * 3
        assert (other / "kept").read_text() == "kept"
        assert closed.err == ""


@pytest.mark.parametrize("code", [0, 3])
def test_it_ends_as_the_program_ends(user: int | None, code: int) -> None:
    assert run("/bin/sh", "-c", f"exit {code}", user=user, ways=WAYS).ending == Ending(code)
    killed = run("/bin/sh", "-c", "kill -SEGV $$", user=user, ways=WAYS).ending
    assert killed == Ending(128 + signal.SIGSEGV, signal=signal.SIGSEGV)


def test_what_it_leaves_behind_does_not_outlive_it(user: int | None) -> None:
    mark = f"6{time.time_ns() % 10**9}"
    assert run("/bin/sh", "-c", f"setsid sleep {mark} & exit 4", user=user, ways=WAYS).ending.exit_code == 4
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _read(path).split(b"\0")]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_program_that_is_not_there_is_told_as_a_shell_would(user: int | None) -> None:
    assert run("/nowhere/program", user=user, ways=WAYS).ending.exit_code == 127

"""A program in a closed world starts, runs and ends as it would in the open one, and nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.replay.confinement import system_calls as sc
from tachograph.supervision.supervisor import Ending, StreamKinds
from tests.replay.confinement.closed import NAMESPACES, UNSHARE, USERS, folder_of, python, run

pytestmark = [NAMESPACES, pytest.mark.parametrize("user", USERS)]


def test_what_the_probes_found_stands_in_the_report(user: int | None) -> None:
    """Every door was tried from inside and none was gone through outside."""
    closed = run("/bin/true", user=user)
    (said,) = closed.of(fr.CONFINED)
    assert said["way"] == "namespaces"
    assert said["held"] == dict.fromkeys(
        ("tcp", "udp", "unix", "abstract", "file", "processes", "io_uring", "vsock"), True
    )
    assert (said["failed"], closed.came_out, closed.attempts) == ([], [], [])


@pytest.mark.parametrize("code", [0, 3, 127])
def test_the_exit_code_is_the_program_s(user: int | None, code: int) -> None:
    assert run("/bin/sh", "-c", f"exit {code}", user=user).ending == Ending(code)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_the_signal_that_ends_it_is_the_program_s(user: int | None, number: signal.Signals) -> None:
    closed = run("/bin/sh", "-c", f"kill -{number.value} $$", user=user)
    assert closed.ending == Ending(128 + number, signal=number)


def test_streams_umask_folder_and_environment_are_handed_over(user: int | None, tmp_path: Path) -> None:
    with folder_of(user, tmp_path) as folder:
        closed = run(
            "/bin/sh", "-c", "pwd; umask; echo $TACHO_TEST; cat; echo err >&2",
            user=user, cwd=str(folder), umask=0o027, env={"TACHO_TEST": "here"}, stdin_bytes=b"fed",
        )  # fmt: skip
    assert closed.out == f"{folder}\n0027\nhere\nfed"
    assert closed.err == "err\n"
    assert closed.ending == Ending(0)


def test_a_program_that_is_not_there_or_no_program_is_told_as_a_shell_would(user: int | None) -> None:
    assert run("/nowhere/program", user=user).ending.exit_code == 127
    assert run("/etc", user=user).ending.exit_code == 126
    assert (
        run("no-such-program", user=user, env={"PATH": "/usr/bin"}).ending.refused
        == "no-such-program: command not found"
    )
    in_no_folder = run("/bin/true", user=user, cwd="/no/folder").ending
    assert (in_no_folder.exit_code, in_no_folder.refused) == (126, "/no/folder: No such file or directory")


def test_signals_are_as_our_process_was_started_with(user: int | None) -> None:
    source = (
        "import signal as s; print(s.pthread_sigmask(s.SIG_BLOCK, ()), s.getsignal(s.SIGTERM), s.getsignal(s.SIGCHLD))"
    )
    assert python(source, user=user).out == "set() 0 0\n"


def test_it_leads_its_group_in_the_foreground_of_its_terminal(user: int | None) -> None:
    source = "import os; print(os.getpgrp() == os.getpid(), os.tcgetpgrp(0) == os.getpid(), end='')"
    kinds = StreamKinds("terminal", "terminal", "terminal", 91, 17)
    closed = python(source, user=user, kinds=kinds)
    assert closed.out == "True True"
    assert any("terminals of the same user" in one for one in closed.of(fr.CONFINED)[0]["open"])


def test_a_deadline_ends_it_and_all_that_it_started(user: int | None) -> None:
    """What left its session with `setsid` goes too."""
    mark = f"4{time.time_ns() % 10**9}"
    source = f"""if True:
        import os, time
        os.fork() or (os.setsid(), os.execv('/bin/sleep', ['sleep', '{mark}']))
        time.sleep(60)
    """
    closed = python(source, user=user, deadline_s=2.0)
    assert closed.ending.ended_by == "deadline"
    assert closed.ending.signal == signal.SIGTERM
    _none_is_left(mark)


def test_what_it_leaves_behind_does_not_outlive_its_world(user: int | None) -> None:
    mark = f"5{time.time_ns() % 10**9}"
    closed = run("/bin/sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 & exit 4", user=user)
    assert closed.ending == Ending(4)
    _none_is_left(mark)


def test_what_kills_us_or_the_keeper_kills_the_world(user: int | None) -> None:
    mark = f"7{time.time_ns() % 10**9}"
    pid = os.fork()
    if pid == 0:
        try:
            run("/bin/sh", "-c", f"setsid sleep {mark} & sleep {mark}", user=user)
        finally:
            os._exit(0)
    until = time.monotonic() + 20
    while time.monotonic() < until and len(_with(mark)) < 2:
        time.sleep(0.02)
    assert len(_with(mark)) >= 2
    for one in (*_children(pid), pid):
        os.kill(one, signal.SIGKILL)
    os.waitpid(pid, 0)
    _none_is_left(mark)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _none_is_left(mark: str) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        left = _with(mark)
        if not left:
            return
        time.sleep(0.02)
    raise AssertionError(f"{left} are left")


def _with(mark: str) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and mark in _words(pid)]


def _words(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def test_no_descriptor_but_the_report_s_is_open(user: int | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        source = """if True:
            import json, os
            names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd") if int(name) > 2]
            print(json.dumps([os.readlink(name) for name in names if os.path.lexists(name)]))
        """
        (one,) = json.loads(python(source, user=user).out)
    assert one.startswith("/memfd:report")


def test_processes_of_the_machine_are_not_there(user: int | None) -> None:
    source = "import os; print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()), os.getpid())"
    assert python(source, user=user).out == "[1, 2] 2\n"


def test_standard_streams_that_are_closed_stay_closed(user: int | None) -> None:
    source = "import os, sys; sys.exit(sum(1 << n for n in range(3) if os.path.lexists(f'/proc/self/fd/{n}')))"
    kinds = StreamKinds("closed", "closed", "closed")
    closed = python(source, user=user, kinds=kinds)
    assert closed.ending == Ending(0)
    assert [said["way"] for said in closed.of(fr.CONFINED)] == ["namespaces"]


def test_a_way_that_fails_has_started_nothing_and_says_why(user: int | None) -> None:
    """Where no namespace may be left, the program runs in the open, once."""
    closed = run("/bin/echo", "once", user=user, without=UNSHARE)
    assert (closed.out, closed.ending) == ("once\n", Ending(0))
    (said,) = closed.of(fr.CONFINED)
    assert said == {"way": "none", "held": {}, "open": [], "failed": [("namespaces", "EPERM")]}


def test_where_no_filter_can_be_set_the_namespaces_hold_alone(user: int | None) -> None:
    """As where another program listens to ours already."""
    closed = run("/bin/true", user=user, without=0 if sc.NUMBERS is None else sc.NUMBERS.seccomp)
    (said,) = closed.of(fr.CONFINED)
    assert said["way"] == "namespaces"
    assert (said["held"]["tcp"], "io_uring" in said["held"]) == (True, False)

"""On a terminal a supervised program finds a terminal, and the terminal shows and does what it would without us."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.supervision.screen import Screen, Seen, under_us

PYTHON = sys.executable


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report"


def nothing(screen: Screen) -> None:
    pass


def alike(argv: Sequence[str], report: Path, act: Callable[[Screen], None] = nothing) -> bytes:
    """Run `argv` on a terminal without and with us, acting alike: the same is shown, with the same status and modes."""
    ends = []
    for command in (argv, under_us(report, argv)):
        with Screen(command) as screen:
            act(screen)
            ends.append((screen.end(), screen.shown, screen.modes_now()))
    assert ends[1] == ends[0]
    assert Seen(report).ending.held_open == ()
    return ends[0][1]


def python(source: str) -> list[str]:
    return [PYTHON, "-c", source]


# A signal that comes right before a read is handled by Python after the read, which would wait: so wait for both.
ON_SIGNAL = """
import os, select, signal
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)
def signalled_or_line():
    ready, _, _ = select.select([woken, 0], [], [])
    return os.read(woken, 1)[0] if woken in ready else os.read(0, 100)
"""


# --- what the program finds ------------------------------------------------------------------------------------------

FINDS = """
import json, os, stat, sys, termios
said = {"terminals": [os.isatty(n) for n in range(3)], "kinds": [stat.S_IFMT(os.fstat(n).st_mode) for n in range(3)]}
for number in range(3):
    if os.isatty(number):
        said[f"size {number}"] = os.get_terminal_size(number)
        said[f"modes {number}"] = [part if isinstance(part, int) else repr(part) for part in termios.tcgetattr(number)]
said["leads its group"] = os.getpgrp() == os.getpid()
said["leads its session"] = os.getsid(0) == os.getpid()
tty = os.open("/dev/tty", os.O_RDWR)
said["in the foreground"] = os.tcgetpgrp(tty) == os.getpgrp()
open(os.environ["SAYS"], "w").write(json.dumps(said))
"""


@pytest.mark.parametrize("combination", list(itertools.product([True, False], repeat=3)))
def test_each_stream_is_a_terminal_exactly_where_ours_is(
    report: Path, tmp_path: Path, combination: tuple[bool, bool, bool]
) -> None:
    said = []
    for supervised in (False, True):
        says = tmp_path / f"says{supervised}"
        reading, writing = os.pipe()
        instead = {n: reading if n == 0 else writing for n, terminal in enumerate(combination) if not terminal}
        # A shell with job control between, so that the program is no session leader: as at a prompt.
        argv = under_us(report, python(FINDS)) if supervised else python(FINDS)
        shell = ["bash", "--norc", "-c", 'set -m; "$@"; exit $?', "bash", *argv]
        with Screen(shell, env={**os.environ, "SAYS": str(says)}, instead=instead) as screen:
            os.close(reading)
            os.close(writing)
            assert screen.end() == 0, screen.shown
        said.append(json.loads(says.read_text()))
    plain, ours = said
    assert ours["terminals"] == list(combination)
    if not combination[0]:
        # The keys may belong to another process of the pipeline until the program reads its terminal.
        del plain["in the foreground"], ours["in the foreground"]
    if not any(combination):
        # Without a terminal it stays in our group, so that it gets what is sent to the group from the sender.
        del plain["leads its group"], ours["leads its group"]
    assert ours == plain


def test_its_size_is_the_terminals(report: Path) -> None:
    shown = alike(python("import os; print([tuple(os.get_terminal_size(n)) for n in range(3)])"), report)
    assert shown == b"[(100, 30), (100, 30), (100, 30)]\r\n"


def test_a_new_size_arrives_once_and_is_there_when_it_does(report: Path) -> None:
    program = python(f"""
{ON_SIGNAL}
signal.signal(signal.SIGWINCH, lambda *_: None)
os.write(1, b"ready\\n")
while signalled_or_line() != b"end\\n":
    os.write(1, b"%r\\n" % [tuple(os.get_terminal_size(n)) for n in range(3)])
""")

    def act(screen: Screen) -> None:
        screen.wait_for(b"ready\r\n")
        screen.resize(77, 22)
        screen.wait_for(b"(77, 22)]\r\n")
        screen.type(b"end\r")

    assert alike(program, report, act).count(b"(77, 22)]") == 1


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"one\ntwo\n",
        b"no end",
        b"progress 1\rprogress 2\rdone\n",
        b"already\r\nreturned\r\n",
        b"\x1b[31mred\x1b[0m\ttab\n\n\n",
        bytes(range(256)),
        b"\r",
        b"\r\r\n\r",
        b"long " * 20_000 + b"\n" * 3000,
    ],
)
def test_what_is_written_is_shown_alike_and_seen_as_it_was_written(report: Path, tmp_path: Path, text: bytes) -> None:
    (tmp_path / "text").write_bytes(text)
    alike(["cat", str(tmp_path / "text")], report)
    assert Seen(report).bytes_of("stdout") == text


def test_both_streams_are_shown_and_told_apart(report: Path) -> None:
    alike(["sh", "-c", "echo out; sleep 0.3; echo err >&2; sleep 0.3; echo out again; exit 3"], report)
    assert Seen(report).bytes_of("stdout") == b"out\nout again\n"
    assert Seen(report).bytes_of("stderr") == b"err\n"


def test_lines_to_both_streams_are_shown_in_the_order_of_writing(report: Path) -> None:
    program = python("import sys\nfor n in range(9): print('out', n); print('err', n, file=sys.stderr)")
    right = "".join(f"out {n}\r\nerr {n}\r\n" for n in range(9)).encode()
    for attempt in range(12):  # without the weave none is right: all of one stream comes first
        with Screen(under_us(report.with_name(f"report{attempt}"), program)) as screen:
            screen.end()
            if screen.shown == right:
                return
    raise AssertionError(f"never in order, the last time as {screen.shown!r}")


def test_fast_output_passes_whole(report: Path) -> None:
    shown = alike(["sh", "-c", "seq 60000"], report)
    assert shown == b"".join(b"%d\r\n" % n for n in range(1, 60001))


def test_a_refusal_is_shown_on_the_terminal(report: Path) -> None:
    with Screen(under_us(report, ["no-such-program"])) as screen:
        assert screen.end() == 127
        assert screen.shown == b"tacho: no-such-program: command not found\r\n"
        assert screen.modes_now() == screen.modes


# --- keys ------------------------------------------------------------------------------------------------------------


def test_lines_are_edited_echoed_and_ended_as_without_us(report: Path) -> None:
    def act(screen: Screen) -> None:
        screen.wait_for(b"name? ")
        screen.type(b"bob\x7f\x7fill\r")
        screen.wait_for(b"hello bill\r\n")
        screen.type(b"rest\r")
        screen.wait_for(b"rest\r\n")
        screen.type(b"\x04")

    shown = alike(python("import sys; print('hello', input('name? ')); print([sys.stdin.read()])"), report, act)
    assert shown.endswith(b"hello bill\r\nrest\r\n['rest\\n']\r\n")
    seen = Seen(report)
    assert seen.bytes_of("stdin") == b"bob\x7f\x7fill\rrest\r\x04"
    assert seen.bytes_of("stdout") == b"hello bill\n['rest\\n']\n"
    assert seen.bytes_of("stderr") == b"name? ", "an echo is no output of the program"


COUNTS = f"""
{ON_SIGNAL}
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, lambda *_: None)
os.write(1, b"ready\\n")
while (number := signalled_or_line()) != b"end\\n":
    os.write(1, b"<%s>" % signal.Signals(number).name.encode())
"""


@pytest.mark.parametrize(("key", "name"), [(b"\x03", b"SIGINT"), (b"\x1c", b"SIGQUIT")])
def test_a_key_that_signals_does_so_once(report: Path, key: bytes, name: bytes) -> None:
    def act(screen: Screen) -> None:
        screen.wait_for(b"ready\r\n")
        screen.type(key)
        screen.wait_for(b"<" + name)
        time.sleep(0.2)  # a second one would be under way now
        screen.type(b"end\r")

    assert alike(python(COUNTS), report, act).count(name) == 1


@pytest.mark.parametrize(("key", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_that_kills_does_so(report: Path, key: bytes, number: int) -> None:
    def act(screen: Screen) -> None:
        screen.wait_for(b"ready\r\n")
        screen.type(key)

    alike(["sh", "-c", "echo ready; exec sleep 300"], report, act)
    assert Seen(report).ending[:2] == (128 + number, number)


def test_a_quoted_key_does_not_signal(report: Path) -> None:
    def act(screen: Screen) -> None:
        screen.wait_for(b"ready\r\n")
        screen.type(b"\x16\x03end\r")

    assert alike(python("print('ready'); print([input()])"), report, act).endswith(b"['\\x03end']\r\n")


def test_a_program_in_raw_mode_gets_every_key_and_controls_the_screen(report: Path) -> None:
    program = python("""
import os, termios, time, tty
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"raw")  # stdout is another device: its modes follow with this
time.sleep(0.5)
os.write(1, b"\\ndown\\r\\n")
keys = b""
while not keys.endswith(b"q"): keys += os.read(0, 1)
termios.tcsetattr(0, termios.TCSADRAIN, before)
print(keys)
""")

    def act(screen: Screen) -> None:
        screen.wait_for(b"down")
        screen.type(b"\x03\x1a\x04\r\x1b[Aq")

    shown = alike(program, report, act)
    assert shown.startswith(b"raw\ndown\r\n"), "no return was added in raw mode"
    assert shown.endswith(rb"b'\x03\x1a\x04\r\x1b[Aq'" + b"\r\n")


def test_modes_set_on_stdout_hold_for_stdin(report: Path) -> None:
    program = python("""
import os, termios
modes = termios.tcgetattr(1)
modes[3] &= ~(termios.ECHO | termios.ICANON)
termios.tcsetattr(1, termios.TCSANOW, modes)
os.write(2, b"key? ")
print(os.read(0, 1))
modes[3] |= termios.ECHO | termios.ICANON
termios.tcsetattr(2, termios.TCSANOW, modes)
""")

    def act(screen: Screen) -> None:
        screen.wait_for(b"key? ")
        time.sleep(0.3)
        screen.type(b"x")

    assert alike(program, report, act) == b"key? b'x'\r\n"


@pytest.mark.parametrize("stdin_is_a_pipe", [False, True])
def test_keys_can_be_read_from_the_terminal_that_stderr_is(report: Path, stdin_is_a_pipe: bool) -> None:
    """As `less`, `more` and `vim -` do."""
    program = python("""
import os, termios, tty
keys = os.open(os.ttyname(2), os.O_RDWR)
before = termios.tcgetattr(keys)
tty.setcbreak(keys)
os.write(1, b"key?\\n")
print(os.read(keys, 1))
termios.tcsetattr(keys, termios.TCSANOW, before)
""")
    shown = []
    for command in (program, under_us(report, program)):
        reading, writing = os.pipe()
        with Screen(command, instead={0: reading} if stdin_is_a_pipe else None) as screen:
            screen.wait_for(b"key?\r\n")
            time.sleep(0.3)
            screen.type(b"q")
            assert screen.end() == 0
            shown.append(screen.shown)
        os.close(reading)
        os.close(writing)
    assert shown[1] == shown[0]


def test_a_password_is_asked_on_the_terminal_and_not_echoed(report: Path) -> None:
    def act(screen: Screen) -> None:
        screen.wait_for(b"Password: ")
        time.sleep(0.3)
        screen.type(b"secret\r")

    shown = alike(python("import getpass; print(len(getpass.getpass()))"), report, act)
    assert shown == b"Password: \r\n6\r\n"
    assert Seen(report).bytes_of("stdout") == b"6\n", "what is written to /dev/tty is no output"


def test_a_stopped_screen_stops_the_program_and_goes_on(report: Path) -> None:
    with Screen(under_us(report, ["sh", "-c", "echo ready; while :; do echo more; sleep 0.02; done"])) as screen:
        screen.wait_for(b"more")
        screen.type(b"\x13")  # Ctrl-S
        time.sleep(0.3)
        screen.look()
        before = screen.shown
        time.sleep(0.5)
        assert screen.look() == before
        screen.type(b"\x11")  # Ctrl-Q
        screen.wait_for(b"more", times=before.count(b"more") + 5)
        screen.type(b"\x03")
        assert screen.end() == -signal.SIGINT


# --- the terminal afterwards -----------------------------------------------------------------------------------------


def test_modes_that_a_program_sets_on_purpose_stay(report: Path) -> None:
    with Screen(under_us(report, ["stty", "-echo"])) as screen:
        assert screen.end() == 0
        assert not screen.modes_now()[3] & termios.ECHO
        assert screen.modes_now()[3] & termios.ICANON


@pytest.mark.parametrize("victim", ["program", "us"])
def test_modes_are_put_back_after_a_kill(report: Path, victim: str) -> None:
    program = python("import os, tty, time; tty.setraw(1); os.write(1, b'ready\\r\\n'); time.sleep(300)")
    with Screen(under_us(report, program)) as screen:
        screen.wait_for(b"ready\r\n")
        assert screen.modes_now() != screen.modes
        os.kill(Seen(report).pid if victim == "program" else screen.pid, signal.SIGKILL)
        assert screen.end() == -signal.SIGKILL
        deadline = time.monotonic() + 10
        while screen.modes_now() != screen.modes and time.monotonic() < deadline:
            time.sleep(0.01)
        assert screen.modes_now() == screen.modes


def test_a_hang_up_reaches_the_program(report: Path, tmp_path: Path) -> None:
    program = python(f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
print("ready", flush=True)
signal.sigwait([signal.SIGHUP])
open({str(tmp_path / "said")!r}, "w").close()
""")
    with Screen(under_us(report, program)) as screen:
        screen.wait_for(b"ready\r\n")
        screen.hang_up()
        deadline = time.monotonic() + 30
        while not (tmp_path / "said").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_child_left_behind_is_not_hung_up_on(report: Path, tmp_path: Path) -> None:
    said = tmp_path / "said"
    child = f"import time, sys; time.sleep(1.5); open({str(said)!r}, 'w').write('alive')"
    with Screen(under_us(report, ["sh", "-c", f'{PYTHON} -c "{child}" & echo left'])) as screen:
        assert screen.end() == 0
        deadline = time.monotonic() + 30
        while not said.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert set(Seen(report).ending.held_open) == {"stdout", "stderr"}

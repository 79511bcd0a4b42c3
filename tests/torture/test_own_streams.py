"""Row 11: through the real `tacho run`, a program's streams, signals and statuses are what they are without us.

The supervisor has tests of its own (tests/capture); here the whole command is compared with a plain run, injection,
recorder and intake included, and what passed is in the capture.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.supervision.screen import Screen
from tests.torture.kept import Kept

PROGRAM = str(Path(__file__).parent / "programs" / "voicing.py")
PATIENCE_S = 60


def command(*words: str) -> list[str]:
    """The program."""
    return [sys.executable, PROGRAM, *words]


def under(words: list[str]) -> list[str]:
    """The same under capture."""
    return [sys.executable, "-m", "tachograph", "run", "--", *words]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """What both runs get."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**kept, "TACHO_STORE": str(tmp_path / "store")}


def run(words: list[str], env: dict[str, str], stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run to the end, on pipes."""
    source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(words, env=env, capture_output=True, check=False, timeout=PATIENCE_S, **source)  # type: ignore[call-overload,no-any-return]


def alike(words: list[str], env: dict[str, str], stdin: bytes | None = None) -> bytes:
    """Run it plainly and under us: the same status and the same bytes; and they are in the capture. Its stdout."""
    plain, ours = run(words, env, stdin), run(under(words), env, stdin)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr
    (kept,) = Kept(Path(env["TACHO_STORE"])).runs().values()
    assert (kept.log.streams[1], kept.log.streams[2]) == (plain.stdout, plain.stderr)
    assert kept.ended is not None
    status = kept.ended["exitCode"] if kept.ended["signal"] is None else -kept.ended["signal"]
    assert status == plain.returncode
    return plain.stdout


def test_bytes_of_every_value_on_both_streams(env: dict[str, str]) -> None:
    assert len(alike(command("bytes_of_every_value"), env)) == 3851


def test_more_than_any_pipe_holds_and_an_exit_status(env: dict[str, str]) -> None:
    assert len(alike(command("much"), env)) == 5 << 20


@pytest.mark.parametrize("stdin", [None, b"", bytes(range(256)) * 3000], ids=["none", "empty", "binary"])
def test_stdin(env: dict[str, str], stdin: bytes | None) -> None:
    assert alike(command("echo"), env, stdin) == (stdin or b"")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT"])
def test_death_by_a_signal(env: dict[str, str], name: str) -> None:
    assert alike(command("dies", name), env) == b"last words"


def test_a_program_that_is_no_python(env: dict[str, str]) -> None:
    assert alike(["sh", "-c", "printf 'a\\0b'; printf c >&2; exit 77"], env) == b"a\0b"


def test_a_program_finds_the_surroundings_that_it_would_find(env: dict[str, str]) -> None:
    words = command("surroundings")
    plain, ours = run(words, env), run(under(words), env)
    assert (ours.returncode, ours.stdout, ours.stderr) == (0, plain.stdout, plain.stderr)


def test_a_signal_from_outside_reaches_the_program_which_ends_as_it_wants(env: dict[str, str]) -> None:
    process = subprocess.Popen(under(command("handles")), env=env, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 9
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_leaves(env: dict[str, str]) -> None:
    words = ["sh", "-c", "yes | cat"]
    statuses = []
    for each in (words, under(words)):
        process = subprocess.Popen(each, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        try:
            process.stdout.read(100)
            process.stdout.close()
            statuses.append(process.wait(timeout=PATIENCE_S))
        finally:
            process.kill()  # it would write for ever
            process.wait()
    assert statuses[0] == statuses[1]


def test_a_command_that_cannot_be_started(env: dict[str, str]) -> None:
    for words, status in ((["/nowhere/at/all"], 127), (["/etc/passwd"], 126)):
        ours = run(under(words), env)
        assert (ours.returncode, ours.stdout) == (status, b"")
        assert ours.stderr.startswith(b"tacho: ")


@pytest.mark.parametrize("quiet", ["1", ""])
def test_a_terminal_stays_a_terminal(env: dict[str, str], quiet: str) -> None:
    shown = []
    for words in (command("colours"), under(command("colours"))):
        with Screen(words, env={**env, "TACHO_QUIET": quiet}) as screen:
            screen.wait_for(b"name? ")
            screen.type(b"Ann\x7fa\n")
            assert screen.end() == 4
            shown.append(screen.shown)
    plain, ours = shown
    assert b"\x1b[1;32mgreen" in plain
    assert ours.startswith(plain)
    added = ours[len(plain) :]
    assert (added == b"") if quiet else (added.count(b"\n") == 1 and added.startswith(b"tachograph: recorded dec_"))


def test_its_surroundings_on_a_terminal(env: dict[str, str]) -> None:
    shown = []
    for words in (command("surroundings"), under(command("surroundings"))):
        with Screen(words, env={**env, "TACHO_QUIET": "1"}, size=(91, 33)) as screen:
            assert screen.end() == 0
            shown.append(screen.shown.splitlines()[-2:])
    assert shown[0] == shown[1]
    assert b"[True, True, True] os.terminal_size(columns=91, lines=33)" in shown[0][0]


def test_the_interrupt_key_ends_the_program_and_us_by_the_signal(env: dict[str, str]) -> None:
    with Screen(under(command("handles")), env={**env, "TACHO_QUIET": "1"}) as screen:
        screen.wait_for(b"ready")
        time.sleep(0.05)
        screen.type(b"\x03")
        assert screen.end() == -signal.SIGINT
        assert b"KeyboardInterrupt" in screen.shown

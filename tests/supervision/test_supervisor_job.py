"""Under a shell with job control a supervised program is a job like any other."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervision.screen import Screen, Seen, under_us

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is the shell whose job control is used")

TICKS = [sys.executable, "-c", "import time\nwhile True: print('tick', flush=True); time.sleep(0.05)"]
READS = ["sh", "-c", 'echo ready; read line; echo "<$line>"']


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report"


class Prompt(Screen):
    """An interactive bash, whose prompts are numbered so that each can be waited for."""

    def __init__(self) -> None:
        env = {**os.environ, "PS1": r"<\#>$ ", "HISTFILE": "", "TERM": "dumb", "INPUTRC": "/dev/null"}
        super().__init__(["bash", "--norc", "--noprofile", "-i"], env=env)
        self._prompts = 0
        self.prompted()

    def prompted(self) -> None:
        """Wait for the next prompt."""
        self._prompts += 1
        self.wait_for(b"<%d>$ " % self._prompts)

    def enter(self, line: str) -> None:
        self.type(line.encode() + b"\r")

    def leave(self) -> None:
        """The shell goes on: it has not been stopped, killed or left in another's modes."""
        self.enter("echo still $((1 + 1)) here")
        self.wait_for(b"still 2 here")
        self.enter("exit 5")
        assert self.end() == 5


@pytest.fixture
def prompt() -> Iterator[Prompt]:
    with Prompt() as shell:
        yield shell


@pytest.fixture(params=["without us", "with us"])
def command(request: pytest.FixtureRequest, report: Path) -> object:
    """Makes a command line of an argv. Each test runs without us too: what it asks is what the shell does anyway."""
    supervised = request.param == "with us"
    return lambda argv: shlex.join(under_us(report, argv) if supervised else argv)


def test_a_program_is_stopped_by_its_key_and_goes_on_in_the_foreground(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(READS))
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    prompt.enter("fg")
    prompt.wait_for(b"fg\r\n")
    time.sleep(0.5)
    prompt.enter("line")
    prompt.wait_for(b"<line>\r\n")
    prompt.prompted()
    prompt.leave()


def test_a_stopped_program_does_not_run(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(TICKS))
    prompt.wait_for(b"\ntick\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    ticks = prompt.look(0.5).count(b"tick\r")
    assert prompt.look(0.5).count(b"tick\r") == ticks
    prompt.enter("fg")
    prompt.wait_for(b"tick\r", times=ticks + 3)
    prompt.type(b"\x03")
    prompt.prompted()
    prompt.leave()


def test_a_program_that_reads_in_the_background_is_stopped(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(READS) + " &")
    prompt.prompted()
    prompt.wait_for(b"ready")
    time.sleep(1.0)
    prompt.enter("")
    prompt.wait_for(b"Stopped")
    prompt.enter("fg")
    time.sleep(1.0)
    prompt.enter("line")
    prompt.wait_for(b"<line>\r\n")
    prompt.prompted()
    prompt.leave()


def test_a_stopped_program_goes_on_in_the_background_until_it_reads(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    reads_late = "import time\nprint('ready', flush=True)\ntime.sleep(2)\nprint('<' + input() + '>')"
    prompt.enter(command([sys.executable, "-c", reads_late]))
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    prompt.enter("bg")
    prompt.prompted()
    time.sleep(3.0)
    prompt.enter("")
    prompt.wait_for(b"Stopped", times=2)
    prompt.enter("fg")
    time.sleep(1.0)
    prompt.enter("line")
    prompt.wait_for(b"<line>\r\n")
    prompt.prompted()
    prompt.leave()


def test_a_program_writes_from_the_background_and_ends_there(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(["sh", "-c", "sleep 0.5; echo by'-'itself; exit 7"]) + "; echo came to the foreground")
    prompt.wait_for(b"by-itself\r\n")
    prompt.wait_for(b"\r\ncame to")
    prompt.prompted()
    prompt.enter(command(["sh", "-c", "sleep 0.5; echo in'-'background; exit 7"]) + " & wait $!; echo code $?")
    prompt.wait_for(b"in-background\r\n")
    prompt.wait_for(b"code 7")
    prompt.leave()


def test_ctrl_c_ends_a_loop_and_not_only_its_body(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter("bash -c " + shlex.quote(f"while :; do {command(['sh', '-c', 'echo turn; exec sleep 300'])}; done"))
    prompt.wait_for(b"turn\r\n")
    prompt.type(b"\x03")
    prompt.prompted()
    assert prompt.look(0.5).count(b"turn\r\n") == 1
    prompt.leave()


@pytest.fixture
def said(tmp_path: Path) -> Path:
    """What another member of the pipeline writes when it gets a SIGINT."""
    return tmp_path / "said"


@pytest.fixture
def other(tmp_path: Path, said: Path) -> str:
    """The command line of that other member."""
    program = tmp_path / "other.py"
    program.write_text(
        f"import signal, sys\nsignal.signal(signal.SIGINT, lambda *_: open({str(said)!r}, 'w'))\n"
        "print('listening', file=sys.stderr)\nsys.stdin.read()\n"
    )
    return f"{sys.executable} {program}"


def test_ctrl_c_reaches_the_whole_pipeline(prompt: Prompt, command, other: str, said: Path) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(["sh", "-c", "echo ready >&2; exec sleep 300"]) + " | " + other)
    prompt.wait_for(b"listening\r\n")
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x03")
    prompt.prompted()
    assert said.exists()
    prompt.leave()


def test_a_quoted_ctrl_c_reaches_nobody(prompt: Prompt, command, other: str, said: Path) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(command(["sh", "-c", "echo ready >&2; read line"]) + " | " + other)
    prompt.wait_for(b"listening\r\n")
    prompt.wait_for(b"ready\r\n")
    time.sleep(0.5)
    prompt.type(b"\x16\x03end\r")
    prompt.prompted()
    assert not said.exists()
    prompt.leave()


def test_a_program_whose_stdin_is_a_pipe_reads_keys_from_the_terminal(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    reads = 'cat; read key < /dev/tty; echo "got $key"; read key < /dev/tty; echo "and $key"'
    prompt.enter(f"printf 'a\\nb\\n' | {command(['sh', '-c', reads])}; echo code $?")
    prompt.wait_for(b"a\r\nb\r\n")
    time.sleep(0.5)
    prompt.enter("typed")
    prompt.wait_for(b"got typed\r\n")
    prompt.enter("again")
    prompt.wait_for(b"and again\r\n")
    prompt.wait_for(b"code 0")
    prompt.leave()


def test_ctrl_c_ends_a_program_whose_stdin_is_a_pipe(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(f"sleep 300 | {command(['sh', '-c', 'echo ready; exec sleep 300'])}")
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x03")
    prompt.prompted()
    prompt.enter("echo code $?")
    prompt.wait_for(b"code 130")
    prompt.leave()


def test_a_pipeline_is_stopped_and_goes_on(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    prompt.enter(f"{command(READS)} | cat")
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    prompt.enter("fg")
    time.sleep(1.0)
    prompt.enter("line")
    prompt.wait_for(b"<line>\r\n")
    prompt.prompted()
    prompt.leave()


def test_output_into_a_pipe_stops_with_ctrl_z_too(prompt: Prompt, command) -> None:  # type: ignore[no-untyped-def]
    """No stream is a terminal: the program stays in our process group, and the terminal stops all of it."""
    prompt.enter(f"{command(TICKS)} < /dev/null 2>&1 | cat")
    prompt.wait_for(b"\ntick\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    count = prompt.look(0.5).count(b"tick\r")
    assert prompt.look(0.5).count(b"tick\r") == count
    prompt.enter("fg")
    prompt.wait_for(b"tick\r", times=count + 3)
    prompt.type(b"\x03")
    prompt.prompted()
    prompt.leave()


def test_a_program_stopped_by_a_signal_is_a_stopped_job(prompt: Prompt, report: Path) -> None:
    prompt.enter(shlex.join(under_us(report, READS)))
    prompt.wait_for(b"ready\r\n")
    os.kill(Seen(report).pid, signal.SIGSTOP)
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    prompt.enter("fg")
    time.sleep(0.5)
    prompt.enter("line")
    prompt.wait_for(b"<line>\r\n")
    prompt.prompted()
    prompt.leave()


def test_killing_us_while_the_shell_has_the_terminal_leaves_it_alone(prompt: Prompt, report: Path) -> None:
    prompt.enter(shlex.join(under_us(report, READS)))
    prompt.wait_for(b"ready\r\n")
    prompt.type(b"\x1a")
    prompt.wait_for(b"Stopped")
    prompt.prompted()
    time.sleep(0.3)
    before = prompt.modes_now()
    program = Seen(report).pid
    os.kill(parent_of(parent_of(program)), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while Path(f"/proc/{program}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert prompt.modes_now() == before
    while b"Killed" not in prompt.look(0.2):  # until the shell has noticed, it does not let go of us
        assert time.monotonic() < deadline
        prompt.enter("")
    prompt.leave()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

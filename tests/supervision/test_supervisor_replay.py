"""A program is run again with streams of recorded kinds, shut off from ours, and can be ended."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tachograph.supervision.supervisor import Ending, StreamKinds, supervise
from tests.supervision.screen import PATIENCE_S, Screen, Seen, under_us

PYTHON = sys.executable
PIPES = StreamKinds("pipe", "pipe", "pipe")
TERMINALS = StreamKinds("terminal", "terminal", "terminal", 91, 17)


class Kept:
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.out: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.pid = 0

    def wrote(self, stream: str, data: bytes) -> None:
        self.out[stream] += data

    def read(self, data: bytes) -> None:
        raise AssertionError("what is fed in a replay is known")

    def started(self, pid: int) -> None:
        self.pid = pid


def replay(argv: Sequence[str], **options: Any) -> tuple[Ending, Kept]:
    kept = Kept()
    options = {"env": os.environ, "kinds": PIPES, "deadline_s": PATIENCE_S, **options}
    return supervise(argv, watcher=kept, forward=False, **options), kept


def python(source: str) -> list[str]:
    return [PYTHON, "-c", source]


def test_its_output_goes_to_the_watcher_alone(capfd: pytest.CaptureFixture[str]) -> None:
    ending, kept = replay(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert ending == Ending(3)
    assert kept.out == {"stdout": b"out\n", "stderr": b"err\n"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kinds", list(itertools.product(["terminal", "pipe", "file", "null", "closed"], repeat=2)))
def test_the_streams_are_of_the_recorded_kinds(kinds: tuple[Any, Any], tmp_path: Path) -> None:
    says = """
import os, stat, sys
names = {stat.S_IFCHR: "null", stat.S_IFIFO: "pipe", stat.S_IFREG: "file"}
found = []
for number in range(3):
    try:
        found.append("terminal" if os.isatty(number) else names[stat.S_IFMT(os.fstat(number).st_mode)])
    except OSError:
        found.append("closed")
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), " ".join(found).encode())
"""
    stdin, stdout = kinds
    ending, _ = replay([*python(says), str(tmp_path / "said")], kinds=StreamKinds(stdin, stdout, "pipe"))
    assert ending == Ending(0)
    # What is written has to be seen, so that a file or the null device becomes a pipe, as it was while recording.
    wanted = {"file": "pipe", "null": "pipe"}.get(stdout, stdout)
    assert (tmp_path / "said").read_text() == f"{stdin} {wanted} pipe"


def test_the_terminal_has_the_recorded_size() -> None:
    _, kept = replay(python("import os; print([tuple(os.get_terminal_size(n)) for n in range(3)])"), kinds=TERMINALS)
    assert kept.out["stdout"] == b"[(91, 17), (91, 17), (91, 17)]\n"


@pytest.mark.parametrize("kind", ["pipe", "file"])
@pytest.mark.parametrize("content", [b"", b"three\nlines\nhere", b"x" * 300_000], ids=["empty", "short", "long"])
def test_the_recorded_stdin_is_fed_and_ends(kind: Any, content: bytes) -> None:
    _, kept = replay(["cat"], kinds=PIPES._replace(stdin=kind), stdin_bytes=content)
    assert kept.out["stdout"] == content


def test_a_file_as_stdin_can_be_sought() -> None:
    program = python("import os; os.read(0, 3); os.lseek(0, 1, 0); print(os.read(0, 9), os.fstat(0).st_size)")
    _, kept = replay(program, kinds=PIPES._replace(stdin="file"), stdin_bytes=b"abcdef")
    assert kept.out["stdout"] == b"b'bcdef' 6\n"


def test_a_stdin_that_is_not_read_keeps_nobody() -> None:
    ending, _ = replay(["true"], stdin_bytes=b"x" * 1_000_000)
    assert ending == Ending(0)


def test_keys_are_typed_again_line_by_line_when_the_program_waits_for_them() -> None:
    program = python("""
import getpass, sys, time
print("one", input("? "))
until = time.monotonic() + 0.5
while time.monotonic() < until: pass  # and then getpass discards what was typed too early
print("two", getpass.getpass())
print(sys.stdin.read())
""")
    _, kept = replay(program, kinds=TERMINALS, stdin_bytes=b"bob\x7f\x7fill\rsecret\rrest\r\x04")
    assert kept.out["stdout"] == b"one bill\ntwo secret\nrest\n\n"
    assert kept.out["stderr"] == b"? Password: \n", "prompts are the program's, an echo is not"


def test_an_end_of_file_is_typed_for_a_program_that_reads_on() -> None:
    ending, kept = replay(python("import sys; print([sys.stdin.read()])"), kinds=TERMINALS, stdin_bytes=b"line\r")
    assert (ending, kept.out["stdout"]) == (Ending(0), b"['line\\n']\n")


def test_a_typed_ctrl_c_interrupts_again() -> None:
    program = python("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('interrupted')")
    _, kept = replay(program, kinds=TERMINALS, stdin_bytes=b"\x03")
    assert kept.out["stdout"] == b"interrupted\n"


def test_a_run_on_a_terminal_gives_the_same_bytes_again(tmp_path: Path) -> None:
    program = python("import sys\nprint('hello', input('name? '))\nprint('odd\\r\\n\\tend', file=sys.stderr)")
    with Screen(under_us(tmp_path / "report", program)) as screen:
        screen.wait_for(b"name? ")
        screen.type(b"bob\r")
        assert screen.end() == 0
    seen = Seen(tmp_path / "report")
    kinds = StreamKinds("terminal", "terminal", "terminal", 100, 30)
    _, kept = replay(program, kinds=kinds, stdin_bytes=seen.bytes_of("stdin"))
    assert kept.out == {"stdout": seen.bytes_of("stdout"), "stderr": seen.bytes_of("stderr")}


def test_only_the_named_descriptors_reach_the_program() -> None:
    reading, writing = os.pipe()
    other = os.open("/", os.O_RDONLY)
    os.set_inheritable(other, True)
    program = python(f"""
import os
os.write({writing}, b"through")
for fd in range({max(reading, writing, other) + 200}):
    try:
        os.fstat(fd)
        print(fd)
    except OSError:
        pass
""")
    try:
        _, kept = replay(program, pass_fds=(writing,))
        assert {int(number) for number in kept.out["stdout"].split()} == {0, 1, 2, writing}
        assert os.read(reading, 100) == b"through"
    finally:
        for fd in (reading, writing, other):
            os.close(fd)


def test_folder_umask_and_environment_are_those_given(tmp_path: Path) -> None:
    program = python("import os; print(os.getcwd(), os.umask(0), sorted(os.environ))")
    _, kept = replay(program, cwd=str(tmp_path), umask=0o027, env={"ONLY": "this", "LC_CTYPE": "C.UTF-8"})
    assert kept.out["stdout"] == f"{tmp_path} {0o027} ['LC_CTYPE', 'ONLY']\n".encode()


def test_a_folder_that_is_not_there_is_a_refusal(tmp_path: Path) -> None:
    ending, kept = replay(["true"], cwd=str(tmp_path / "gone"))
    assert ending == Ending(126, refused=f"{tmp_path / 'gone'}: No such file or directory")
    assert kept.pid == 0


def test_a_program_that_is_not_there_is_a_refusal(capfd: pytest.CaptureFixture[str]) -> None:
    ending, _ = replay(["no-such-program"])
    assert ending == Ending(127, refused="no-such-program: command not found")
    assert capfd.readouterr() == ("", "")


def test_a_deadline_ends_it() -> None:
    began = time.monotonic()
    ending, kept = replay(["sh", "-c", "echo partial; sleep 300"], deadline_s=1.0)
    assert ending == Ending(143, 15, "deadline")
    assert kept.out["stdout"] == b"partial\n"
    assert time.monotonic() - began < 10


def test_a_tick_ends_it_and_says_why() -> None:
    asked: list[float] = []

    def tick() -> str | None:
        asked.append(time.monotonic())
        return "3 misses" if len(asked) > 5 else None

    ending, _ = replay(["sleep", "300"], on_tick=tick)
    assert ending == Ending(143, 15, "3 misses")
    assert len(asked) == 6
    assert asked[-1] - asked[0] > 0.2


def test_a_program_that_ignores_the_request_is_killed() -> None:
    program = python("import signal, time; signal.signal(15, lambda *_: print('no', flush=True)); time.sleep(300)")
    ending, _ = replay(program, deadline_s=1.0)
    assert ending == Ending(137, 9, "deadline")


def test_a_stopped_program_is_ended_too_and_can_say_goodbye() -> None:
    ending, kept = replay(["sh", "-c", "trap 'echo bye; exit 4' TERM; kill -STOP $$; sleep 60"], deadline_s=1.0)
    assert ending == Ending(4, ended_by="deadline")
    assert kept.out["stdout"] == b"bye\n"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("way", ["in its group", "in a group of its own"])
def test_nothing_that_it_started_outlives_it(way: str) -> None:
    own_group = "" if way == "in its group" else "set -m; "
    ending, kept = replay(["bash", "-c", f"{own_group}sleep 300 & echo $!"])
    assert ending.exit_code == 0
    assert ending.held_open == ("stdout", "stderr")
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(int(kept.out["stdout"])):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_exception_out_of_a_tick_ends_it_first() -> None:
    kept = Kept()

    def tick() -> str | None:
        if kept.pid:
            raise KeyError("a fault of ours")
        return None

    with pytest.raises(KeyError):
        supervise(["sleep", "300"], env=os.environ, kinds=PIPES, watcher=kept, forward=False, on_tick=tick)
    assert not is_alive(kept.pid)


def test_an_interrupt_of_ours_ends_it_first(tmp_path: Path) -> None:
    kept = Kept()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        supervise(["sleep", "300"], env=os.environ, kinds=PIPES, watcher=kept, forward=False)
    timer.join()
    assert not is_alive(kept.pid)


def test_it_works_beside_other_threads() -> None:
    endings = []
    threads = [threading.Thread(target=lambda: endings.append(replay(["sh", "-c", "exit 4"])[0])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endings == [Ending(4)] * 4


def test_it_leaves_no_descriptor_and_no_process_behind() -> None:
    before = os.listdir("/proc/self/fd")
    children = Path(f"/proc/self/task/{threading.main_thread().native_id}/children")
    born = children.read_text()
    for kinds in (PIPES, TERMINALS, StreamKinds("file", "null", "closed")):
        replay(["sh", "-c", "echo out; exit 1"], kinds=kinds, stdin_bytes=b"in")
        replay(["no-such-program"], kinds=kinds)
    assert os.listdir("/proc/self/fd") == before
    assert children.read_text() == born

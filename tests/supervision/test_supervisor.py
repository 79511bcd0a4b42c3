"""A supervised program with pipes, files or nothing as its streams behaves as it does without us, and is seen."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.supervision.screen import PATIENCE_S, Seen, under_us

PYTHON = sys.executable
BOTH = [False, True]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report"


def run(argv: Sequence[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    options = {"stdin": subprocess.DEVNULL, **options}
    if "input" in options:
        del options["stdin"]
    return subprocess.run(argv, capture_output=True, timeout=PATIENCE_S * 2, **options)  # type: ignore[call-overload,no-any-return]


def alike(argv: Sequence[str], report: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run `argv` without and with us: same status, same bytes on both streams."""
    plain = run(argv, **options)
    ours = run(under_us(report, argv), **options)
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    return plain


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)


@contextmanager
def started(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not outlive the test, whatever the test finds: killing us kills the program."""
    process = subprocess.Popen(argv, **options)
    try:
        yield process
    finally:
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait(PATIENCE_S)


def takes(fd: int) -> bool:
    try:
        return os.write(fd, b"x") == 1
    except BrokenPipeError:
        return False


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 255])
def test_the_exit_code_is_the_programs(report: Path, code: int) -> None:
    assert alike(["sh", "-c", f"echo out; echo err >&2; exit {code}"], report).returncode == code
    assert Seen(report).ending.exit_code == code
    assert Seen(report).ending.signal is None


@pytest.mark.parametrize("name", ["SEGV", "KILL", "TERM", "INT", "HUP", "ABRT", "USR1"])
def test_death_by_a_signal_is_death_by_the_same_signal(report: Path, name: str) -> None:
    number = signal.Signals[f"SIG{name}"]
    assert alike(["sh", "-c", f"echo last; kill -{name} $$"], report).returncode == -number
    assert Seen(report).ending[:2] == (128 + number, number)


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["no-such-program"], 127, "no-such-program: command not found"),
        (["./no/such/program"], 127, "./no/such/program: No such file or directory"),
        (["/"], 126, "/: Is a directory"),
        (["/dev/null"], 126, "/dev/null: Permission denied"),
    ],
)
def test_a_program_that_cannot_be_started_is_refused_as_a_shell_does(
    report: Path, argv: list[str], code: int, sentence: str
) -> None:
    done = run(under_us(report, argv))
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", f"tacho: {sentence}\n".encode())
    assert [name for name, _ in Seen(report).events] == ["ending"]
    assert Seen(report).ending.refused == sentence


def test_a_script_without_an_interpreter_line_is_given_to_the_shell(report: Path, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$0 $1"\nexit 4\n')
    script.chmod(0o755)
    done = run(under_us(report, [str(script), "word"]))
    assert (done.returncode, done.stdout) == (4, f"{script} word\n".encode())


# --- output ----------------------------------------------------------------------------------------------------------


def test_what_it_writes_is_seen_by_stream(report: Path) -> None:
    alike(["sh", "-c", "echo out; echo err >&2; printf 'no end'"], report)
    seen = Seen(report)
    assert seen.bytes_of("stdout") == b"out\nno end"
    assert seen.bytes_of("stderr") == b"err\n"
    assert seen.events[0][0] == "started"


def test_output_is_seen_before_it_is_passed_on(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = f"""
import os, time
from tachograph.supervision.supervisor import exit_like, supervise
class Slow:
    def wrote(self, stream, data):
        time.sleep(0.2)
        open({str(seen)!r}, "ab").write(data)
    def read(self, data): pass
    def started(self, pid): pass
exit_like(supervise(["cat"], env=os.environ, watcher=Slow()))
"""
    with started([PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for word in (b"one\n", b"two\n", b"three\n"):
            process.stdin.write(word)
            process.stdin.flush()
            assert process.stdout.readline() == word
            assert seen.read_bytes().endswith(word)
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0


def test_questions_and_answers_pass_at_once(report: Path) -> None:
    program = [PYTHON, "-c", "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"]
    with started(under_us(report, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for number in range(20):
            process.stdin.write(b"question %d\n" % number)
            process.stdin.flush()
            assert process.stdout.readline() == b"QUESTION %d\n" % number
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert Seen(report).bytes_of("stdin") == b"".join(b"question %d\n" % number for number in range(20))


def test_twenty_megabytes_of_binary_pass_both_ways_unchanged(report: Path, tmp_path: Path) -> None:
    content = os.urandom(1 << 20) * 20
    seen_digests = tmp_path / "digests"
    program = f"""
import hashlib, os, sys
from tachograph.supervision.supervisor import exit_like, supervise
class Digests:
    def __init__(self):
        self.of = {{"stdin": hashlib.sha256(), "stdout": hashlib.sha256()}}
    def wrote(self, stream, data):
        self.of[stream].update(data)
    def read(self, data):
        self.of["stdin"].update(data)
    def started(self, pid):
        pass
watcher = Digests()
ending = supervise(["cat"], env=os.environ, watcher=watcher)
open({str(seen_digests)!r}, "w").write(" ".join(digest.hexdigest() for digest in watcher.of.values()))
exit_like(ending)
"""
    done = run([PYTHON, "-c", program], input=content)
    digest = hashlib.sha256(content).hexdigest()
    assert (done.returncode, hashlib.sha256(done.stdout).hexdigest(), done.stderr) == (0, digest, b"")
    assert seen_digests.read_text() == f"{digest} {digest}"


def test_a_reader_that_leaves_ends_the_program_as_without_us(report: Path) -> None:
    writes = ["head", "-c", "50000000", "/dev/zero"]  # not for ever: a fault here must not fill a disk
    for argv in (writes, under_us(report, writes)):
        with started(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout.read(2) == bytes(2)
            process.stdout.close()
            assert process.wait(PATIENCE_S) == -signal.SIGPIPE


def test_a_program_that_ignores_sigpipe_gets_the_error(report: Path) -> None:
    program = """
import os, sys
try:
    for _ in range(50000): os.write(1, bytes(1000))
except BrokenPipeError:
    sys.exit(9)
"""
    with started(under_us(report, [PYTHON, "-c", program]), stdout=subprocess.PIPE) as process:
        process.stdout.read(2)
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 9


def test_a_slow_reader_slows_the_program(report: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = (
        "import os, sys\nf = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
        "for n in range(1024): os.write(1, bytes([n % 256]) * 4096); os.pwrite(f, b'%8d' % n, 0)"
    )
    with started(under_us(report, [PYTHON, "-c", program, str(count)]), stdout=subprocess.PIPE) as process:
        wait_until(lambda: count.exists() and count.read_text(), "it writes")
        time.sleep(0.5)
        blocks_ahead = int(count.read_text())
        assert blocks_ahead <= 64, "two pipes of 16 pages each and one piece of 16 in between are 48"
        assert (
            hashlib.sha256(process.stdout.read()).digest()
            == hashlib.sha256(b"".join(bytes([n % 256]) * 4096 for n in range(1024))).digest()
        )
        assert process.wait(PATIENCE_S) == 0


def test_a_stdout_that_the_program_closes_ends_for_our_reader_too(report: Path) -> None:
    program = ["sh", "-c", "echo all; exec >&-; read go; echo late >&2"]
    with started(
        under_us(report, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read() == b"all\n"
        assert process.poll() is None
        _, late = process.communicate(b"go\n", timeout=PATIENCE_S)
        assert late == b"late\n"


def test_both_streams_in_one_file_keep_their_order(report: Path, tmp_path: Path) -> None:
    program = ["sh", "-c", "for n in 1 2 3 4 5; do echo out $n; sleep 0.1; echo err $n >&2; sleep 0.1; done"]
    with (tmp_path / "log").open("wb") as log:
        subprocess.run(under_us(report, program), stdout=log, stderr=subprocess.STDOUT, check=True)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == [f"{stream} {n}" for n in range(1, 6) for stream in ("out", "err")]


def test_output_into_a_file_is_appended_where_the_shell_would(report: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = " ".join(under_us(report, ["echo"]))
    subprocess.run(["sh", "-c", f"(echo before; {command} within; echo after) > {log}"], check=True)
    assert log.read_text() == "before\nwithin\nafter\n"


def test_a_child_that_outlives_the_program_does_not_keep_us(report: Path) -> None:
    began = time.monotonic()
    done = run(under_us(report, ["sh", "-c", "sleep 60 & echo $!; echo last"]))
    os.kill(int(done.stdout.split()[0]), signal.SIGKILL)
    assert (done.returncode, done.stdout.split()[1]) == (0, b"last")
    assert time.monotonic() - began < 20
    assert Seen(report).ending.held_open == ("stdout", "stderr")


def test_our_own_stdout_is_left_to_us_after_the_programs_end() -> None:
    program = """
import os
from tachograph.supervision.supervisor import supervise
for _ in range(20):
    supervise(["true"], env=os.environ, watcher=object())
os.write(1, b"after")
"""
    assert run([PYTHON, "-c", program]).stdout == b"after"


def test_what_a_child_writes_right_after_the_programs_end_is_passed_on(report: Path) -> None:
    done = run(under_us(report, ["sh", "-c", "(sleep 0.1; echo late) & echo soon"]))
    assert done.stdout == b"soon\nlate\n"
    assert Seen(report).ending.held_open == ()


def test_everything_written_is_passed_on_however_late_it_is_read(report: Path) -> None:
    with started(under_us(report, ["head", "-c", "100000", "/dev/zero"]), stdout=subprocess.PIPE) as process:
        time.sleep(1.5)  # longer than the grace after the program's end
        assert len(process.stdout.read()) == 100_000


def test_what_a_program_left_in_its_pipe_is_passed_on_too(report: Path) -> None:
    program = f"""
import fcntl, os
fcntl.fcntl(1, {fcntl.F_SETPIPE_SZ}, 1 << 20)
for _ in range(2000): os.write(1, bytes(1000))
"""
    with started(under_us(report, [PYTHON, "-c", program]), stdout=subprocess.PIPE, pipesize=1 << 20) as process:
        time.sleep(1.5)
        size = 0
        while piece := process.stdout.read1(1 << 20):
            size += len(piece)
        assert size == 2_000_000


def test_a_signal_ends_us_while_a_dead_programs_output_waits(report: Path) -> None:
    # 100 kB: the program ends with its last bytes in its pipe, our reader's pipe being full.
    with started(under_us(report, ["head", "-c", "100000", "/dev/zero"]), stdout=subprocess.PIPE) as process:
        wait_until(lambda: Seen(report).events and is_gone(Seen(report).pid), "the program has ended")
        time.sleep(0.2)
        process.terminate()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


# --- input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"abc", b"line\n" * 50_000], ids=["empty", "short", "longer than a pipe"])
def test_stdin_from_a_pipe_reaches_it_and_ends(report: Path, content: bytes) -> None:
    alike(["wc", "-c"], report, input=content)
    assert Seen(report).bytes_of("stdin") == content


def test_what_it_leaves_in_a_pipe_is_left_for_the_next_reader(report: Path) -> None:
    command = " ".join(under_us(report, ["echo"]))
    loop = f"printf '1\\n2\\n3\\n' | while read line; do {command} $line; done"
    assert run(["sh", "-c", loop]).stdout == b"1\n2\n3\n"
    assert Seen(report).bytes_of("stdin") == b""


def test_what_it_took_of_a_pipe_is_seen_and_no_more(report: Path) -> None:
    takes_five = [PYTHON, "-c", "import os; os.read(0, 5)"]
    command = " ".join(f"'{word}'" for word in under_us(report, takes_five))
    assert run(["sh", "-c", f"printf 'first and rest' | ({command}; cat)"]).stdout == b" and rest"
    assert Seen(report).bytes_of("stdin") == b"first"


def test_a_pipe_is_read_as_much_at_once_as_without_us(report: Path) -> None:
    reads_once = [PYTHON, "-c", "import os, time; time.sleep(0.3); print(len(os.read(0, 1 << 20)))"]
    assert alike(reads_once, report, input=b"x" * 50_000).stdout == b"50000\n"


def test_a_stdin_that_the_program_closes_is_closed_for_our_writer_too(report: Path) -> None:
    program = ["sh", "-c", "exec <&-; echo closed; sleep 300"]
    with started(under_us(report, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        wait_until(lambda: not takes(process.stdin.fileno()), "writing into it fails")
        assert process.poll() is None
        process.kill()


def test_a_file_as_stdin_is_the_file_itself(report: Path, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(b"skipped, read and left")
    program = "import os, stat; s = os.fstat(0); print(stat.S_ISREG(s.st_mode), s.st_ino, os.read(0, 8))"
    with (tmp_path / "input").open("rb", buffering=0) as file:
        file.read(9)
        ours = run(under_us(report, [PYTHON, "-c", program]), stdin=file)
        assert ours.stdout.decode() == f"True {os.fstat(file.fileno()).st_ino} {b'read and'}\n"
        assert file.read() == b" left"
    assert Seen(report).bytes_of("stdin") == b"read and left"


def test_a_socket_as_stdin_is_read(report: Path) -> None:
    near, far = socket.socketpair()
    with near, far:
        near.sendall(b"by socket")
        near.shutdown(socket.SHUT_WR)
        assert run(under_us(report, ["cat"]), stdin=far).stdout == b"by socket"
    assert Seen(report).bytes_of("stdin") == b"by socket"


def test_a_socket_as_stdout_is_never_waited_for(report: Path) -> None:
    near, far = socket.socketpair()
    with near:
        argv = under_us(report, ["sh", "-c", "head -c 3000000 /dev/zero & sleep 0.5; echo not blocked >&2; wait"])
        with started(argv, stdin=subprocess.DEVNULL, stdout=far, stderr=subprocess.PIPE) as process:
            far.close()
            assert process.stderr.readline() == b"not blocked\n"
            size = 0
            while piece := near.recv(1 << 16):
                size += len(piece)
            assert size == 3_000_000
            assert process.wait(PATIENCE_S) == 0


# --- surroundings ----------------------------------------------------------------------------------------------------

SURROUNDINGS = """
import json, os, stat, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
kinds = []
for number in range(3):
    try:
        mode = os.fstat(number).st_mode
        kinds.append([stat.S_IFMT(mode), os.isatty(number)])
    except OSError as fault:
        kinds.append(fault.strerror)
said = {
    "signals": {name: status[name] for name in ("SigBlk", "SigIgn", "SigCgt")},
    "descriptors": sorted(set(os.listdir("/proc/self/fd")) - {os.environ["REPORT_FD"]})[:-1],
    "kinds": kinds, "argv": sys.argv, "cwd": os.getcwd(), "umask": os.umask(0), "env": dict(os.environ),
    "same group as parent's parent": os.getpgrp() == os.getsid(0), "leads its group": os.getpgrp() == os.getpid(),
}
os.write(int(os.environ["REPORT_FD"]), json.dumps(said).encode())
"""


def surroundings(
    argv_of: Callable[[list[str]], list[str]], *, prefix: str = "", **options: object
) -> dict[str, object]:
    """What a program says of its surroundings, started through a shell that runs `prefix` first."""
    reading, writing = os.pipe()
    try:
        argv = argv_of([PYTHON, "-c", SURROUNDINGS, "word", ""])
        env = {**os.environ, "REPORT_FD": str(writing), "LC_ALL": "C"}
        shell = ["bash", "-c", prefix + ' exec "$@"', "bash", *argv]  # dash cannot ignore SIGCHLD
        run(shell, pass_fds=(writing,), env=env)
        os.close(writing)
        writing = -1
        said = b""
        while piece := os.read(reading, 1 << 16):
            said += piece
        found: dict[str, object] = json.loads(said)
        return found
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "exec <&-;",
        "exec >&-;",
        "exec 2>&-;",
        "exec <&- >&- 2>&-;",
        "trap '' HUP INT;",
        "trap '' CHLD USR1;",
        "umask 077; cd /;",
        "exec 9</;",
    ],
)
def test_the_program_finds_what_it_would_find_without_us(report: Path, prefix: str) -> None:
    plain = surroundings(lambda argv: argv, prefix=prefix)
    ours = surroundings(lambda argv: under_us(report, argv), prefix=prefix)
    assert ours == plain


# --- signals ---------------------------------------------------------------------------------------------------------

COUNTS = """
import os, signal, sys
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing)  # a byte for each delivery, even where two come before Python looks
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda *_: None)
os.write(1, b"ready\\n")
while True:
    os.write(1, b"".join(b"%s\\n" % signal.Signals(number).name.encode() for number in os.read(reading, 99)))
"""


@pytest.fixture
def counting(report: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A supervised program that says which signals it gets, in a group with its supervisor."""
    argv = under_us(report, [PYTHON, "-c", COUNTS])
    with started(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, process_group=0) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"])
@pytest.mark.parametrize("target", ["us", "group", "program"])
def test_a_signal_reaches_the_program_once(
    counting: subprocess.Popen[bytes], report: Path, name: str, target: str
) -> None:
    for _ in range(5):  # two that come at once can count as one: often enough, they do not
        number = signal.Signals[name]
        if target == "group":
            os.killpg(counting.pid, number)
        else:
            os.kill(counting.pid if target == "us" else Seen(report).pid, number)
        assert counting.stdout.readline() == name.encode() + b"\n"
        time.sleep(0.1)  # a second one would be under way now
    os.kill(Seen(report).pid, signal.SIGKILL)
    assert counting.communicate(timeout=PATIENCE_S)[0] == b""


def test_killing_us_kills_the_program(report: Path) -> None:
    with started(under_us(report, ["sleep", "300"])) as process:
        wait_until(lambda: Seen(report).events, "it runs")
        process.kill()
        wait_until(lambda: is_gone(Seen(report).pid), "the program is gone")


def test_a_signal_that_kills_the_program_kills_us(report: Path) -> None:
    with started(under_us(report, ["sleep", "300"])) as process:
        wait_until(lambda: Seen(report).events, "it runs")
        process.terminate()
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


# --- the watcher -----------------------------------------------------------------------------------------------------


def test_a_watcher_that_fails_harms_nothing_and_is_told(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = f"""
import os
from tachograph.supervision.supervisor import exit_like, supervise
class Fails:
    def wrote(self, stream, data): raise OSError(28, "No space left on device")
    def read(self, data): raise ValueError("read")
    def started(self, pid): raise KeyError(pid)
    def failed(self, fault): open({str(told)!r}, "a").write(type(fault).__name__ + "\\n"); raise fault
exit_like(supervise(["sh", "-c", "cat; echo err >&2; exit 3"], env=os.environ, watcher=Fails()))
"""
    done = run([PYTHON, "-c", program], input=b"through")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"through", b"err\n")
    assert set(told.read_text().split()) == {"OSError", "ValueError", "KeyError"}


def test_a_watcher_without_failed_harms_nothing_either() -> None:
    program = """
import os
from tachograph.supervision.supervisor import exit_like, supervise
exit_like(supervise(["sh", "-c", "echo out; exit 3"], env=os.environ, watcher=object()))
"""
    done = run([PYTHON, "-c", program])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"")


def test_a_tick_can_end_a_live_program() -> None:
    program = """
import os
from tachograph.supervision.supervisor import exit_like, supervise
class Nobody:
    def wrote(self, stream, data): pass
    def read(self, data): pass
    def started(self, pid): pass
ending = supervise(["sleep", "300"], env=os.environ, watcher=Nobody(), on_tick=lambda: "enough")
print(tuple(ending))
"""
    assert run([PYTHON, "-c", program]).stdout == b"(143, 15, 'enough', None, ())\n"

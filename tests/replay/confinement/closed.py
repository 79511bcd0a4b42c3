"""Run a program in a closed world without the rest of a replay, as root or as an ordinary user, and read the report."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay.confinement import possible
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.launcher import World
from tachograph.replay.confinement.probes import Doors
from tachograph.replay.confinement.watching import Settings
from tachograph.supervision.supervisor import Ending, StreamKinds, supervise

NOBODY = 65534
PIPES = StreamKinds("pipe", "pipe", "pipe")
LIMIT_S = 40.0


def _python() -> str | None:
    """A Python that an ordinary user can start too; None where there is none."""
    for path in (os.path.realpath(sys.executable), shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if path is not None and all(Path(one).stat().st_mode & 1 for one in (path, *map(str, Path(path).parents))):
            return path
    return None


PYTHON = _python()
USERS = [
    pytest.param(None, id="ourselves"),
    pytest.param(
        NOBODY, id="ordinary", marks=pytest.mark.skipif(
            os.geteuid() != 0 or PYTHON is None, reason="only root can become another user, and he needs a Python"
        )
    ),
]  # fmt: skip
LANDLOCK = pytest.mark.skipif(bool(possible.look().landlock), reason="no Landlock that knows the network here")
NAMESPACES = pytest.mark.skipif(bool(possible.look().namespaces), reason="no user namespaces here")


@dataclass
class Closed:
    """What became of a program in a closed world."""

    ending: Ending
    out: str
    err: str
    frames: list[tuple[int, Any]]
    came_out: list[str]

    def of(self, kind: int) -> list[Any]:
        """What the report's frames of one kind say."""
        return [said for one, said in self.frames if one == kind]

    @property
    def attempts(self) -> list[tuple[str, str]]:
        """What was tried, and what stopped it."""
        return [(said["what"], said["stoppedBy"]) for said in self.of(fr.ATTEMPT)]


class _Kept:
    def __init__(self) -> None:
        self.out: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        self.pid = 0

    def wrote(self, stream: str, data: bytes) -> None:
        self.out[stream] += data

    def read(self, data: bytes) -> None:
        """Nothing is fed."""

    def started(self, pid: int) -> None:
        self.pid = pid


UNSHARE = 0 if sc.NUMBERS is None else {0xC000003E: 272, 0xC00000B7: 97}[sc.NUMBERS.audit]


def run(
    *argv: str, ways: tuple[str, ...] = ("namespaces",), user: int | None = None, without: int | None = None,
    **options: Any,
) -> Closed:  # fmt: skip
    """Run `argv` in a closed world; as `user`, or where the system call `without` is refused, in a child process."""

    def action() -> Closed:
        if without is not None:
            _refuse(without)
        return _run(argv, ways, options)

    return action() if user is None and without is None else _as(user, action)


def refuse_to_close() -> None:
    """From here on the kernel lets this process close no world."""
    _refuse(UNSHARE, 444)  # landlock_create_ruleset


def _refuse(*numbers: int) -> None:
    sc.gain_nothing()
    code = [(0x20, 0, 0, 0)]
    for number in numbers:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50001)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    os.close(sc.install_filter(b"".join(struct.pack("=HBBI", *one) for one in code)))


def python(source: str, *args: str, user: int | None = None, **options: Any) -> Closed:
    """Run a Python program."""
    assert PYTHON is not None
    return run(PYTHON, "-I", "-c", source, *args, user=user, **options)


def _run(argv: tuple[str, ...], ways: tuple[str, ...], options: dict[str, Any]) -> Closed:
    report = os.memfd_create("report")
    os.set_blocking(report, True)
    kept, doors = _Kept(), Doors()
    made = {name: options.pop(name) for name in list(options) if name in Settings._fields}
    kinds = options.get("kinds", PIPES)
    settings = Settings(ways=ways, report=report, terminal="terminal" in kinds, targets=doors.targets)._replace(**made)
    arguments = {"env": os.environ, "kinds": kinds, "deadline_s": LIMIT_S, "cwd": "/", **options}
    try:
        ending = supervise(
            argv, watcher=kept, forward=False, pass_fds=(report,), surrounding=World(settings), **arguments
        )
        data = os.pread(report, 1 << 26, 0)
        frames = [(frame.kind, values.decode(frame.payload)) for frame in fr.read_log(data)]
        text = {name: one.decode("utf-8", "replace") for name, one in kept.out.items()}
        return Closed(ending, text["stdout"], text["stderr"], frames, doors.passed())
    finally:
        doors.close()
        os.close(report)


def _as(user: int | None, action: Callable[[], Closed]) -> Closed:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        said: Any = None
        try:
            os.close(read)
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            said = action()
        except BaseException as fault:  # noqa: BLE001  the test in the parent must hear of it
            said = f"{type(fault).__name__}: {fault}"
        finally:
            with open(write, "wb") as file:
                pickle.dump(said, file)
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        said = pickle.load(file)
    os.waitpid(pid, 0)
    assert isinstance(said, Closed), said
    return said


@contextlib.contextmanager
def folder_of(user: int | None, path: Path) -> Iterator[Path]:
    """A folder that `user` may use, whatever lies above the test's own."""
    if user is None:
        yield path
        return
    made = Path("/tmp") / f"tachograph-{path.name}-{os.getpid()}"
    made.mkdir(mode=0o777)
    made.chmod(0o777)
    os.chown(made, user, user)
    try:
        yield made
    finally:
        shutil.rmtree(made)

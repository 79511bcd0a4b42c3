"""A terminal for tests: a real pseudo-terminal whose other end a process has as its controlling terminal."""

from __future__ import annotations

import ast
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tachograph.supervision.supervisor import Ending

PATIENCE_S = 30.0  # two busy cores
SUPERVISED = str(Path(__file__).with_name("supervised.py"))


def under_us(report: Path, argv: Sequence[str]) -> list[str]:
    """The command that runs `argv` under the supervisor."""
    return [sys.executable, SUPERVISED, str(report), *argv]


class Seen:
    """What a reporter wrote down."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text().splitlines() if path.exists() else []
        self.events: list[tuple[str, Any]] = []
        for line in lines:
            name, _, what = line.partition(" ")
            self.events.append((name, ast.literal_eval(what)))

    def bytes_of(self, stream: str) -> bytes:
        return b"".join(what for name, what in self.events if name == stream)

    @property
    def pid(self) -> int:
        (pid,) = [what for name, what in self.events if name == "started"]
        return int(pid)

    @property
    def ending(self) -> Ending:
        (what,) = [what for name, what in self.events if name == "ending"]
        return Ending(*what)


class Screen:
    """A terminal of 100 columns and 30 rows, and the process that leads its session.

    `instead` gives the descriptors that are to be something else than the terminal.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        instead: Mapping[int, int] | None = None,
        cwd: Path | None = None,
        size: tuple[int, int] = (100, 30),
    ) -> None:
        self.master, slave = os.openpty()
        os.set_blocking(self.master, False)
        self.resize(*size)
        self.shown = b""
        self._slave = slave  # held, so that the terminal outlives its processes and can be looked at
        self.modes = termios.tcgetattr(slave)
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
                for number in range(3):
                    os.dup2((instead or {}).get(number, slave), number)
                os.closerange(3, 256)
                if cwd is not None:
                    os.chdir(cwd)
                os.execvpe(argv[0], list(argv), dict(os.environ if env is None else env))
            finally:
                os._exit(99)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def look(self, timeout_s: float = 0.0) -> bytes:
        """What is shown; waits up to `timeout_s` for something new."""
        ready, _, _ = select.select([self.master], [], [], timeout_s)
        if ready:
            try:
                self.shown += os.read(self.master, 1 << 16)
            except (BlockingIOError, OSError):
                pass
        return self.shown

    def wait_for(self, text: bytes, *, times: int = 1) -> None:
        """Until `text` has been shown `times` times."""
        deadline = time.monotonic() + PATIENCE_S
        while self.shown.count(text) < times:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was not shown {times} times within {PATIENCE_S} s, but {self.shown!r}")
            self.look(0.1)

    def end(self) -> int:
        """The exit status of the process (negative: the signal that killed it), all that it wrote being shown."""
        deadline = time.monotonic() + PATIENCE_S
        while self.status is None:
            self.look(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                self.close()
                raise AssertionError(f"it did not end within {PATIENCE_S} s, and showed {self.shown!r}")
        while self.look(0.05) != (before := self.shown) or len(before) != len(self.look(0.0)):
            continue
        return self.status

    def modes_now(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        os.close(self.master)
        os.close(self._slave)
        self.master = self._slave = -1

    def close(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        for fd in (self.master, self._slave):
            if fd >= 0:
                os.close(fd)
        self.master = self._slave = -1

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

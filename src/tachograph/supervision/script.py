"""A recorded stdin, given to a program again, then the end of file.

Guarantees:
- Into a pipe it goes as fast as the program reads.
- As a regular file it is one: seekable, of the recorded length, and gone with its last descriptor.
- Into a terminal it goes as it was typed, a line (or a signalling key) at a time: the next when the one before has been
  read and the program sleeps. A program that discards what was typed too early (getpass does) loses nothing.
"""

from __future__ import annotations

import fcntl
import os
from time import monotonic
from typing import TYPE_CHECKING

from tachograph.supervision.streams import waiting_bytes
from tachograph.supervision.terminal import KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tachograph.supervision.echo import Echo
    from tachograph.supervision.readiness import Readiness
    from tachograph.supervision.terminal import ProgramTerminals

_ENDS_A_LINE = b"\r\n\x03\x04\x1a\x1c"  # Enter, Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-\
_END_OF_FILE = b"\x04"
_LOOK_S = 0.02
_QUIET_S = 0.05  # longer than the start of an interpreter lets pass between two of its own system calls


def as_file(content: bytes) -> int:
    """A regular file that holds `content`, without a name, open for reading at its start."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("stdin")
    else:
        path = os.path.join(os.environ.get("TMPDIR") or "/tmp", f".stdin-{os.urandom(8).hex()}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class ScriptedPipe:
    """`content` for the pipe whose writing end is `sink`; an `inflow.Inflow`."""

    def __init__(self, content: bytes, sink: int, *, readiness: Readiness) -> None:
        self._rest = memoryview(content)
        self._sink = sink
        self._readiness = readiness
        os.set_blocking(sink, False)
        readiness.watch(sink, write=True)

    def fds(self) -> tuple[int, ...]:
        """As `Inflow.fds`."""
        return (self._sink,) if self._sink >= 0 else ()

    def run(self) -> float | None:
        """As `Inflow.run`."""
        while self._sink >= 0 and self._rest:
            try:
                self._rest = self._rest[os.write(self._sink, self._rest) :]
            except BlockingIOError:
                self._readiness.exhausted(self._sink)
                return None
            except OSError:  # the program has closed its stdin
                break
        self.finish()
        return None

    def finish(self) -> None:
        """As `Inflow.finish`."""
        if self._sink >= 0:
            self._readiness.forget(self._sink)
            os.close(self._sink)
            self._sink = -1


class ScriptedKeys:
    """`content` for the program's terminal; an `inflow.Inflow`.

    `sleeps` says whether the program sleeps and how long it has been quiet, in seconds.
    """

    def __init__(self, content: bytes, terminals: ProgramTerminals, *, echo: Echo, sleeps: Callable[[], float]) -> None:
        self._lines = lines_typed(content)
        self._terminals = terminals
        self._slave = fcntl.fcntl(terminals.slaves[KEYS], fcntl.F_DUPFD_CLOEXEC, 3)
        self._echo = echo
        self._sleeps = sleeps

    def fds(self) -> tuple[int, ...]:
        """As `Inflow.fds`."""
        return ()

    def run(self) -> float | None:
        """As `Inflow.run`."""
        master = self._terminals.masters.get(KEYS)
        if master is None or self._slave < 0:
            return None
        if self._sleeps() < _QUIET_S or waiting_bytes(self._slave):
            return _LOOK_S
        line = self._lines.pop(0) if self._lines else _END_OF_FILE
        self._terminals.agree()
        self._echo.typed(line, self._terminals.agreed)
        try:
            written = os.write(master, line)
        except BlockingIOError:
            written = 0
        except OSError:  # hung up
            return None
        if written < len(line):
            self._lines.insert(0, line[written:])
        return _QUIET_S

    def finish(self) -> None:
        """As `Inflow.finish`."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1


def lines_typed(content: bytes) -> list[bytes]:
    """Keys, cut after each that ends a line or signals."""
    lines, start = [], 0
    for at, key in enumerate(content):
        if key in _ENDS_A_LINE:
            lines.append(content[start : at + 1])
            start = at + 1
    return [*lines, content[start:]] if start < len(content) else lines


class Sleep:
    """How long the program `pid` has done nothing: no output (`stirred`), asleep, no processor time."""

    def __init__(self) -> None:
        self.pid = 0
        self._since = monotonic()
        self._used = b""

    def stirred(self) -> None:
        """The program has written something."""
        self._since = monotonic()

    def __call__(self) -> float:
        """Seconds of quiet up to now. Without /proc, output alone counts."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return monotonic() - self._since
        used = fields[0] + b" " + b" ".join(fields[11:13])  # proc(5): state, utime, stime
        if used != self._used or not used.startswith(b"S"):
            self._used = used
            self._since = monotonic()
        return monotonic() - self._since

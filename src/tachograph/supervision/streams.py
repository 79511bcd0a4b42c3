"""What each of the three standard streams is, as the program would find it.

Guarantees:
- `look` reads and changes nothing; it says for stdin, stdout and stderr whether each is a terminal, a pipe (a FIFO, a
  socket, any other device that is read as it comes), a file, the null device, or closed, and how large the terminal is.
- `plug` puts the null device on the numbers 0 to 2 that are closed in our own process, so that nothing which is opened
  later (a spool file, a pipe) is taken for a standard stream by a stray write. The program still gets them closed.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import termios
from typing import Literal, NamedTuple

Kind = Literal["terminal", "pipe", "file", "null", "closed"]
StreamName = Literal["stdin", "stdout", "stderr"]

STREAMS: tuple[StreamName, StreamName, StreamName] = ("stdin", "stdout", "stderr")
"""The standard streams; the place in this tuple is the descriptor's number."""

_WINSIZE = struct.Struct("HHHH")
_COUNT = struct.Struct("i")


class StreamKinds(NamedTuple):
    """What the standard streams are. `columns` and `rows` are the terminal's, 0 where there is none or it has none."""

    stdin: Kind
    stdout: Kind
    stderr: Kind
    columns: int = 0
    rows: int = 0

    def of(self, stream: StreamName) -> Kind:
        """The kind of one stream, by its name."""
        kind: Kind = getattr(self, stream)
        return kind

    @property
    def terminals(self) -> tuple[StreamName, ...]:
        """Those of the three that are a terminal."""
        return tuple(stream for stream in STREAMS if self.of(stream) == "terminal")


def kind_of(fd: int) -> Kind:
    """What the descriptor `fd` is; `closed` where it is not open."""
    try:
        mode = os.fstat(fd)
    except OSError:
        return "closed"
    if stat.S_ISCHR(mode.st_mode):
        if os.isatty(fd):
            return "terminal"
        return "null" if mode.st_rdev == os.stat(os.devnull).st_rdev else "pipe"
    return "pipe" if stat.S_ISFIFO(mode.st_mode) or stat.S_ISSOCK(mode.st_mode) else "file"


def look() -> StreamKinds:
    """What our own standard streams are. To be asked before anything is opened: a closed number is given out again."""
    kinds = StreamKinds(kind_of(0), kind_of(1), kind_of(2))
    for stream in kinds.terminals:
        columns, rows = window_size(STREAMS.index(stream))
        return kinds._replace(columns=columns, rows=rows)
    return kinds


def plug(kinds: StreamKinds) -> None:
    """Put the null device on every standard number that is closed in our process now and was when `kinds` was taken."""
    for number, stream in enumerate(STREAMS):
        if kinds.of(stream) == "closed" and kind_of(number) == "closed":
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one: those below it are open by now


def window_size(fd: int) -> tuple[int, int]:
    """Columns and rows of the terminal `fd`, (0, 0) where it does not say."""
    try:
        rows, columns, _, _ = _WINSIZE.unpack(fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(_WINSIZE.size)))
    except OSError:
        return 0, 0
    return columns, rows


def set_window_size(fd: int, size: tuple[int, int]) -> None:
    """Tell the terminal `fd` its columns and rows; the kernel signals the foreground programs if they changed."""
    columns, rows = size
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, _WINSIZE.pack(rows, columns, 0, 0))
    except OSError:  # it hung up
        return


def waiting_bytes(fd: int) -> int:
    """How many bytes lie in the pipe or terminal `fd`; 0 where it does not say."""
    try:
        (count,) = _COUNT.unpack(fcntl.ioctl(fd, termios.FIONREAD, bytes(_COUNT.size)))
    except OSError:
        return 0
    return int(count)

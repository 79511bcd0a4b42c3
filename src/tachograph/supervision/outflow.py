"""What the program writes: seen first, then passed on, and never more of it held than one piece.

Guarantees:
- `Outflow` hands every piece to the watcher before it goes on, exact to the byte.
- While our own stream takes no more, nothing more is read from the program, so that a slow reader slows the program.
- When our own stream's reader is gone, the program's end is closed: its next write fails as it would have without us.
- Our own streams are never made non-blocking (others share them); where a description of our own cannot be opened, a
  piece is as small as a ready descriptor takes without waiting.
"""

from __future__ import annotations

import os
import select
import stat
from typing import TYPE_CHECKING

from tachograph.supervision.kernel import send_now
from tachograph.supervision.streams import StreamName, kind_of, waiting_bytes
from tachograph.supervision.terminal import LineEnds, is_controlling, open_again

if TYPE_CHECKING:
    from tachograph.supervision.echo import Echo
    from tachograph.supervision.readiness import Readiness
    from tachograph.supervision.terminal import RealTerminal
    from tachograph.supervision.watching import Guarded

PIECE = 1 << 16  # a pipe's capacity on Linux
_TURN = 4  # pieces read from one stream before the others get their turn


class Outlet:
    """One of our own streams, or the real terminal, as the place where bytes go."""

    def __init__(self, fd: int, readiness: Readiness) -> None:
        kind = kind_of(fd)
        self._readiness = readiness
        self._number = fd
        self._is_socket = kind == "pipe" and stat.S_ISSOCK(os.fstat(fd).st_mode)
        own = None
        if kind == "terminal" and is_controlling(fd):
            own = _open_controlling_output()
        if own is None and kind in ("terminal", "pipe") and not self._is_socket:
            own = open_again(fd, os.O_WRONLY)
        self._own = own is not None
        self.fd = fd if own is None else own
        # PIPE_BUF: what a pipe that says it is writable takes without waiting. A file takes anything.
        self._most = PIECE if self._own or self._is_socket or kind in ("file", "null") else select.PIPE_BUF
        self._pending: memoryview = memoryview(b"")
        self.broken = False
        self._waits = readiness.watch(self.fd)

    @property
    def full(self) -> bool:
        """Whether it still has to get rid of what it was given."""
        return bool(self._pending)

    def send(self, data: bytes) -> None:
        """Pass `data` on; what does not go now goes by `flush`."""
        self._pending = memoryview(bytes(self._pending) + data) if self._pending else memoryview(data)
        self.flush()

    def flush(self) -> None:
        """Write what can be written without waiting."""
        while self._pending and not self.broken:
            if not self._can_write():
                self._wait()
                return
            try:
                piece = self._pending[: self._most]
                done = send_now(self.fd, bytes(piece)) if self._is_socket else os.write(self.fd, piece)
                self._pending = self._pending[done:]
            except BlockingIOError:
                self._wait()
                return
            except OSError:  # the reader is gone, the disk is full, the terminal hung up
                self.give_up()

    def _can_write(self) -> bool:
        if self._own or self._is_socket or not self._waits:
            return True
        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(0))

    def _wait(self) -> None:
        self._readiness.watch(self.fd, write=True)
        self._readiness.exhausted(self.fd)

    def give_up(self) -> None:
        """Nothing can be passed on any more."""
        self.broken = True
        self._pending = memoryview(b"")

    def end(self) -> None:
        """Let our own reader see the end, although our process goes on: the program has closed this stream."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._number)
        os.close(null)
        self.close()

    def close(self) -> None:
        """Give back what was opened; our standard stream itself stays."""
        if self.fd >= 0:
            self._readiness.forget(self.fd)
            if self._own:
                os.close(self.fd)
        self.fd = -1
        self.give_up()


def _open_controlling_output() -> int | None:
    try:
        return os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


class Outflow:
    """One stream that the program writes, from our end `fd`.

    `name` is `stdin` for a terminal of the program that is none of its output streams: what it writes to /dev/tty is
    passed on and not reported. `device`: which of the program's terminals it is, None for a pipe. `outlet` is None
    where nothing is passed on. `real` is the terminal that stands behind the outlet, if one does. `undo_returns`: the
    program's terminal adds returns. `echo` tells what the line discipline shows by itself, which is not reported.
    """

    def __init__(
        self,
        fd: int,
        *,
        name: StreamName,
        device: str | None,
        outlet: Outlet | None,
        real: RealTerminal | None,
        undo_returns: bool,
        echo: Echo | None,
        watcher: Guarded,
        readiness: Readiness,
    ) -> None:
        self.fd = fd
        self.name = name
        self.device = device
        self.outlet = outlet
        self.ready = False
        self.owed = 0
        self._ended = False
        self._real = real
        self._echo = echo
        self._seen = LineEnds() if undo_returns else None
        self._shown = LineEnds() if undo_returns else None
        self._watcher = watcher
        self._readiness = readiness
        os.set_blocking(fd, False)
        readiness.watch(fd, read=True)

    @property
    def open(self) -> bool:
        """Whether more may come."""
        return self.fd >= 0

    @property
    def runnable(self) -> bool:
        """Whether a piece can be read and passed on now."""
        return self.open and self.ready and not (self.outlet is not None and self.outlet.full)

    @property
    def deserted(self) -> bool:
        """Whether the program still writes and nobody reads it any more."""
        return self.open and self.outlet is not None and self.outlet.broken

    def run(self) -> None:
        """Read some pieces, show them to the watcher, pass them on."""
        for _ in range(_TURN):
            if self.deserted:
                self.close()
            if not self.runnable:
                return
            self.pass_on(self.take())
            self.settle()

    def take(self) -> bytes:
        """Read one piece, if it is `runnable`. To be followed by `pass_on` of all of it and `settle`."""
        if not self.runnable:
            return b""
        try:
            data = os.read(self.fd, PIECE)
        except BlockingIOError:
            self.ready = False
            self._readiness.exhausted(self.fd)
            return b""
        except OSError:  # EIO: every process has closed its end of the terminal
            data = b""
        self._ended = not data
        self.owed -= len(data)
        return data

    def pass_on(self, data: bytes) -> None:
        """Show `data` to the watcher and pass it on; an echo at its beginning is passed on alone."""
        self.pass_written(self.pass_echo(data))

    def pass_echo(self, data: bytes) -> bytes:
        """Pass on the echo with which `data` begins, and return the rest."""
        if self._echo is None or not data:
            return data
        echo, data = self._echo.taken_from(data)
        self._show(echo)
        return data

    @property
    def may_echo(self) -> bool:
        """Whether what comes without having been written may be an echo."""
        return self._echo is not None and self._echo.awaited

    def pass_written(self, data: bytes) -> None:
        """Show `data`, which the program wrote, to the watcher and pass it on."""
        if data:
            self._report(data)
            self._show(data)

    def settle(self) -> None:
        """Everything that was taken has been passed on."""
        if self._ended:
            self.close()
        elif not self.ready:
            self._show(b"", last=True)

    def _report(self, data: bytes, *, last: bool = False) -> None:
        if self._seen is not None:
            data = self._seen.feed(data) + (self._seen.flush() if last else b"")
        if data and self.name != "stdin":
            self._watcher.wrote(self.name, data)

    def _show(self, data: bytes, *, last: bool = False) -> None:
        if self.outlet is None:
            return
        if self._shown is not None:
            if self._real is None or self._real.adds_returns:
                data = self._shown.feed(data) + (self._shown.flush() if last else b"")
            else:
                data = self._shown.flush() + data
        if data and not self.outlet.broken:
            self.outlet.send(data)

    def expect_rest(self) -> None:
        """The program has ended or stopped: what lies here now is its own, what comes later is somebody else's."""
        if self.open:
            self.owed = waiting_bytes(self.fd)
            self.ready = True

    def close(self) -> None:
        """Close our end: the program, if it still writes, finds nobody there."""
        if self.open:
            self._readiness.forget(self.fd)
            self._report(b"", last=True)
            self._show(b"", last=True)
            os.close(self.fd)
            self.fd = -1

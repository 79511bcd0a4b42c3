"""What the program reads from a pipe or a file: seen, and no more taken from our own stdin than the program took.

Guarantees:
- `Siphon` copies a pipe with tee(2) and drains it only by what the program has read. What the program leaves is left
  for whoever reads the pipe next, so that `while read line; do tacho run ...; done` meets every line, as without us.
- `rest_of_file` reads a regular file, which the program inherits, without moving the offset that both share.
- `Pump` serves sockets, devices, and systems without tee(2): it reads ahead by up to a pipe's capacity.
"""

from __future__ import annotations

import os
import select
import stat
from typing import TYPE_CHECKING, Protocol

from tachograph.supervision.kernel import HAS_TEE, tee
from tachograph.supervision.streams import waiting_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tachograph.supervision.readiness import Readiness
    from tachograph.supervision.watching import Guarded

MOST_OF_A_FILE = 64 << 20  # the bound that DESIGN section 4 gives to files that are kept as they were
_PIECE = 1 << 16  # a pipe's capacity on Linux
_SOONEST_S, _LATEST_S, _LATEST_IDLE_S = 0.0005, 0.02, 0.2


class Inflow(Protocol):
    """A source of the program's stdin."""

    def fds(self) -> tuple[int, ...]:
        """The descriptors whose readiness concerns it."""

    def run(self) -> float | None:
        """Do what can be done now; seconds until it wants to be asked again without any event, None for never."""

    def finish(self) -> None:
        """The program has ended: report the rest of what it took, and close."""


def events_now(fd: int, wanted: int = 0) -> int:
    """The poll(2) events of `fd` at this moment."""
    poll = select.poll()
    poll.register(fd, wanted)
    return sum(events for _, events in poll.poll(0))


def rest_of_file(fd: int) -> Iterator[bytes]:
    """The content of the regular file `fd` from its offset on, at most 64 MB, its offset unmoved."""
    try:
        at = os.lseek(fd, 0, os.SEEK_CUR)
        end = at + MOST_OF_A_FILE
        while at < end:
            piece = os.pread(fd, min(1 << 20, end - at), at)
            if not piece:
                return
            at += len(piece)
            yield piece
    except OSError:  # a directory, or not open for reading: the program will not read it either
        return


def from_pipe(source: int, sink: int, *, watcher: Guarded, readiness: Readiness) -> Inflow:
    """Hand our stdin `source` on to the program's pipe, whose writing end is `sink`."""
    can_tee = HAS_TEE and stat.S_ISFIFO(os.fstat(source).st_mode)
    return (Siphon if can_tee else Pump)(source, sink, watcher=watcher, readiness=readiness)


class _PipeInflow:
    """Two ends: our stdin and the writing end of the program's, -1 once that is closed."""

    def __init__(self, source: int, sink: int, *, watcher: Guarded, readiness: Readiness) -> None:
        self._source = source
        self._sink = sink
        self._watcher = watcher
        self._readiness = readiness
        os.set_blocking(sink, False)
        readiness.watch(source, read=True)
        readiness.watch(sink, write=True)

    def fds(self) -> tuple[int, ...]:
        """As `Inflow.fds`."""
        return (self._source, self._sink) if self._sink >= 0 else ()

    def _wait(self) -> None:
        self._readiness.exhausted(self._source)
        self._readiness.exhausted(self._sink)

    def _close(self) -> None:
        if self._sink >= 0:
            self._readiness.forget(self._source)
            self._readiness.forget(self._sink)
            os.close(self._sink)
            self._sink = -1

    def _let_go(self) -> None:
        """The program has closed its stdin: whoever writes into ours must notice it, as it would have without us."""
        self._close()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, self._source)
        os.close(null)


class Siphon(_PipeInflow):
    """A pipe, handed on by tee(2)."""

    def __init__(self, source: int, sink: int, *, watcher: Guarded, readiness: Readiness) -> None:
        super().__init__(source, sink, watcher=watcher, readiness=readiness)
        self._lies = 0  # bytes in the program's pipe that are still in the source too
        self._delay_s = _SOONEST_S
        self._gauge = -1  # a reading end of the program's pipe, once the writing end is closed

    def run(self) -> float | None:
        """As `Inflow.run`."""
        if self._sink < 0:
            return None
        self._settle()
        if events_now(self._sink) & select.POLLERR:
            self._let_go()
            return None
        if self._lies == 0:
            try:
                self._lies = tee(self._source, self._sink, _PIECE)
            except BlockingIOError:
                self._wait()
                return None
            except OSError:  # ours is not open for reading
                self._lies = 0
            if not self._lies:
                self._close()
                return None
            self._delay_s = _SOONEST_S
        return self._next_look()

    def _next_look(self) -> float | None:
        """The program's reading makes no event: look again, sooner while it reads, rarely when no more is to come."""
        self._wait()
        more = waiting_bytes(self._source) > self._lies
        if not more and events_now(self._source) & select.POLLHUP and self._see_out():
            return None
        self._delay_s = min(self._delay_s * 2, _LATEST_S if more else _LATEST_IDLE_S)
        return self._delay_s

    def _see_out(self) -> bool:
        """All there will ever be lies in the program's pipe: close it, so that its end comes without a delay."""
        try:
            self._gauge = os.open(f"/proc/self/fd/{self._sink}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # no /proc: the end comes with the next look
            return False
        self._close()
        return True

    def _settle(self) -> None:
        """Take from the source what the program has taken from its pipe."""
        left = waiting_bytes(self._sink if self._sink >= 0 else self._gauge)
        taken, self._lies = self._lies - left, left
        if taken > 0:
            self._delay_s = _SOONEST_S
        # Somebody else may read the same pipe: then it is empty, and a read would wait.
        while taken > 0 and events_now(self._source, select.POLLIN) & select.POLLIN:
            piece = os.read(self._source, taken)
            taken -= len(piece)
            self._watcher.read(piece)

    def finish(self) -> None:
        """As `Inflow.finish`."""
        if self._sink >= 0 or self._gauge >= 0:
            self._settle()
        self._close()
        if self._gauge >= 0:
            os.close(self._gauge)
            self._gauge = -1


class Pump(_PipeInflow):
    """Anything that is read as it comes."""

    def __init__(self, source: int, sink: int, *, watcher: Guarded, readiness: Readiness) -> None:
        super().__init__(source, sink, watcher=watcher, readiness=readiness)
        self._pending = b""

    def run(self) -> float | None:
        """As `Inflow.run`."""
        while self._sink >= 0 and (self._pending or self._read()):
            try:
                self._pending = self._pending[os.write(self._sink, self._pending) :]
            except BlockingIOError:
                self._wait()
                return None
            except OSError:
                self._let_go()
        return None

    def _read(self) -> bool:
        if not events_now(self._source, select.POLLIN):
            self._wait()
            return False
        try:
            self._pending = os.read(self._source, _PIECE)
        except BlockingIOError:
            self._wait()
            return False
        except OSError:  # not open for reading
            self._pending = b""
        if self._pending:
            self._watcher.read(self._pending)
        else:
            self._close()
        return bool(self._pending)

    def finish(self) -> None:
        """As `Inflow.finish`."""
        self._close()

"""The order in which a program wrote to stdout and stderr, where both are shown in one place.

The two are read through two descriptors, so that they can be told apart; what is left of their order are the kernel's
modification events (inotify), one for each run of writes to one of the two. Guarantees:
- Each stream's bytes are passed on exactly and in order, whatever the events say.
- Where each write is one line, as in a log, the lines come in the order of the writes. Where a run holds several
  lines while the program writes on to both, a line can come a place too early or too late.
- Without inotify, or where it is exhausted, there is no weave: each stream is passed on as it is read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tachograph.capture.supervision.kernel import Modifications

if TYPE_CHECKING:
    from tachograph.capture.supervision.outflow import Outflow

_TURN = 4  # pieces read before anybody else gets a turn


def interleave(pieces: tuple[bytes, ...], runs: list[int]) -> list[tuple[int, bytes]]:
    """Cut two pieces into parts and put these in order; each part with the number of its piece.

    `runs`: which of the two was written, in order. Each run gets one line, the last of a piece gets the rest of it;
    what has no run comes last.
    """
    parts = []
    to_come = [runs.count(0), runs.count(1)]
    at = [0, 0]
    for number in runs:
        piece = pieces[number]
        to_come[number] -= 1
        if at[number] < len(piece):
            end = (to_come[number] and piece.find(b"\n", at[number]) + 1) or len(piece)
            parts.append((number, piece[at[number] : end]))
            at[number] = end
    parts.extend((number, piece[at[number] :]) for number, piece in enumerate(pieces) if at[number] < len(piece))
    return parts


class Weave:
    """Two outflows, passed on in the order in which they were written."""

    def __init__(self, flows: tuple[Outflow, Outflow], written: Modifications) -> None:
        self.flows = flows
        self._written = written
        self._ahead = [False, False]  # data was passed on whose event had not come
        self._amid_line = [False, False]
        self._last = 0  # the stream of the last run

    def run(self) -> None:
        """Read some pieces of both, show them to the watcher, pass them on."""
        for _ in range(_TURN):
            pieces: tuple[bytes, ...] = (self._take(0), self._take(1))
            runs = self._written.since()
            # More events than lines: the data came between our reading and our asking, or was passed on already.
            pieces = tuple(
                piece + self._take(n) if runs.count(n) > piece.count(b"\n") else piece for n, piece in enumerate(pieces)
            )
            runs = self._unspent(pieces, runs)
            for number, part in interleave(tuple(self._line_end(n, piece) for n, piece in enumerate(pieces)), runs):
                self._pass_on(number, part)
            for flow in self.flows:
                flow.settle()
            if not any(flow.ready for flow in self.flows):
                return

    def _unspent(self, pieces: tuple[bytes, ...], runs: list[int]) -> list[int]:
        """The runs without those that stand for what has been passed on."""
        if runs and runs[0] == self._last and self._amid_line[self._last]:
            # Many programs write a line and its end apart: the second half of a run that we have seen.
            self._ahead[self._last] = False
            runs = runs[1:]
        for number, piece in enumerate(pieces):
            if self._ahead[number] and number in runs and (not piece.endswith(b"\n") or runs.count(number) > 1):
                runs.remove(number)
                self._ahead[number] = False
            elif piece:
                self._ahead[number] = number not in runs
                self._last = number
        self._last = runs[-1] if runs else self._last
        return runs

    def _take(self, number: int) -> bytes:
        # The events are of both streams: ask both, whichever was reported as readable.
        flow = self.flows[number]
        flow.ready = flow.open
        return flow.take()

    def _pass_on(self, number: int, part: bytes) -> None:
        self._amid_line[number] = not part.endswith(b"\n")
        self.flows[number].pass_on(part)

    def _line_end(self, number: int, piece: bytes) -> bytes:
        """Pass on the line end with which `piece` begins if its line has been passed on, and return the rest.

        A line discipline hands on a line and its end apart, in one write and with one event, which may be spent.
        """
        end = next((end for end in (b"\r\n", b"\n") if piece.startswith(end)), b"")
        if not end or not self._amid_line[number]:
            return piece
        self._pass_on(number, end)
        return piece[len(end) :]

    def close(self) -> None:
        """Give the watch back."""
        self._written.close()


def watch_writes(fds: tuple[int, int]) -> Modifications | None:
    """Watch writes to what the two descriptors lead to; None where the system does not tell."""
    try:
        return Modifications([f"/proc/self/fd/{fd}" for fd in fds])
    except OSError:
        return None


def same_place(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same device, pipe or file."""
    found, sought = os.fstat(one), os.fstat(other)
    return (found.st_dev, found.st_ino) == (sought.st_dev, sought.st_ino)

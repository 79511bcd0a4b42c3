"""The order in which a program wrote to its streams, where several of them are shown in one place.

They are read through a descriptor each, so that they can be told apart; what is left of their order are the kernel's
modification events (inotify), one for each run of writes to one of them. Guarantees:
- Each stream's bytes are passed on exactly and in order, whatever the events say.
- Where each write is one line, as in a log, the lines come in the order of the writes. Where a run holds several
  lines while the program writes on to another, a line can come a place too early or too late.
- Without inotify, or where it is exhausted, there is no weave: each stream is passed on as it is read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tachograph.supervision.kernel import Modifications

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tachograph.supervision.outflow import Outflow

_TURN = 4  # pieces read before anybody else gets a turn


def interleave(pieces: Sequence[bytes], runs: Sequence[int]) -> list[tuple[int, bytes]]:
    """Cut pieces into parts and put these in order; each part with the number of its piece.

    `runs`: which of them was written, in order. Each run gets one line, the last of a piece gets the rest of it. What
    has no run comes last.
    """
    parts = []
    to_come = [runs.count(number) for number in range(len(pieces))]
    at = [0] * len(pieces)
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
    """Outflows, passed on in the order in which they were written; an echo, which the program answers, goes first."""

    def __init__(self, flows: Sequence[Outflow], written: Modifications) -> None:
        self.flows = flows
        self._written = written
        self._ahead = [False for _ in flows]  # data was passed on whose event had not come
        self._amid_line = [False for _ in flows]
        self._last = 0  # the stream of the last run

    @property
    def fd(self) -> int:
        """The descriptor that the events are read from."""
        return self._written.fd

    def run(self) -> None:
        """Read some pieces of each, show them to the watcher, pass them on."""
        for _ in range(_TURN):
            pieces = [self._take(number) for number in range(len(self.flows))]
            runs = self._written.since()
            # More events than lines: the data came between our reading and our asking, or was passed on already.
            pieces = [
                piece + self._take(n) if runs.count(n) > piece.count(b"\n") else piece for n, piece in enumerate(pieces)
            ]
            pieces = [flow.pass_echo(piece) for flow, piece in zip(self.flows, pieces, strict=True)]
            runs = self._unspent(pieces, runs)
            runs[:0] = [n for n, flow in enumerate(self.flows) if pieces[n] and n not in runs and flow.may_echo]
            pieces = [self._line_end(number, piece) for number, piece in enumerate(pieces)]
            for number, part in interleave(pieces, runs):
                self._pass_on(number, part)
            for flow in self.flows:
                flow.settle()
            if not any(flow.ready for flow in self.flows):
                return

    def _unspent(self, pieces: Sequence[bytes], runs: list[int]) -> list[int]:
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
        # The events are of all streams: ask all, whichever was reported as readable.
        flow = self.flows[number]
        flow.ready = flow.open
        return flow.take()

    def _pass_on(self, number: int, part: bytes) -> None:
        self._amid_line[number] = not part.endswith(b"\n")
        self.flows[number].pass_written(part)

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


def weave(flows: Sequence[Outflow], ends: Sequence[int], *, terminal: int) -> Weave | None:
    """Weave `flows`, into which the program writes by the descriptors `ends`; None where the system does not tell.

    `terminal` is the place of the one that is its controlling terminal and has the name /dev/tty too, -1 for none.
    """
    paths = [[f"/proc/self/fd/{fd}", *(["/dev/tty"] if place == terminal else [])] for place, fd in enumerate(ends)]
    try:
        return Weave(flows, Modifications(paths))
    except OSError:
        return None


def same_place(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same device, pipe or file."""
    found, sought = os.fstat(one), os.fstat(other)
    return (found.st_dev, found.st_ino) == (sought.st_dev, sought.st_ino)

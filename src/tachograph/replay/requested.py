"""One decision taken out of its run together with the inbound request that led to it, to be replayed alone.

The run's program is started again and the request is sent to it (`replay.driving`). What goes on the tape, beside what
`replay.alone` takes (the decision's frames, facts of run and processes):

- start-up: what the program did before its first connection came in, decisions, files and draws included;
- what it did outside every decision for this request, from its first byte to the decision's end or its answer's;
- what threads and tasks that stood before the first connection went on doing outside every decision.

Nothing of another request. Times begin with the request, so that nothing waits as long as the server had lived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.wire_request import Begun, read_request_head
from tachograph.replay.alone import Selection
from tachograph.seams.context import process_of

FIRST = "0"  # the path of the process that the run started with


@dataclass(frozen=True)
class Inbound:
    """The request in which a decision opened, as it was kept; `why` says why it cannot be sent again, or is empty."""

    number: int
    said: dict[str, Any]
    data: bytes
    begun: Begun | None
    why: str
    ended_by_itself: bool

    @property
    def name(self) -> str:
        """Method and target, for a person."""
        return f"{self.begun.method} {self.begun.target}" if self.begun is not None else "a request"

    @property
    def port(self) -> int:
        """The port that the run listened on; 0 where it was none."""
        where = self.said.get("listener")
        return int(where[1]) if isinstance(where, list) else 0


def inbound_in(logs: Sequence[bytes], number: int) -> Inbound | None:
    """Return the request in whose handling a decision of this run opened, if one is known."""
    said: dict[str, Any] = {}
    parts, paths, place, why, ended = [], {}, 0, "", None
    for frame in sorted((frame for log in logs for frame in fr.read_log(log)), key=lambda frame: frame.at_ns):
        if frame.kind == fr.PATH:
            paths[frame.path] = frame.payload.decode()
        elif frame.kind == fr.ENDED and frame.flags == 1:
            ended = values.decode(frame.payload)
        elif frame.kind == fr.INBOUND and frame.decision == number:
            if not frame.flags:
                parts.append(frame.payload)
                continue
            told = values.decode(frame.payload)
            why, place = told.get("why", why), frame.path
            said = said or told
    if not said:
        return None
    data = b"".join(parts)
    end = data.find(b"\r\n\r\n")
    begun = read_request_head(data[:end]) if end >= 0 else None
    if not why and begun is None:
        why = "its request did not come whole"
    if not why and process_of(paths.get(place, FIRST)) != FIRST:
        why = "its request was handled by another process than the one that was started"
    return Inbound(number, said, data, begun, why, ended is not None and ended["signal"] is None)


def requested(logs: Sequence[bytes], number: int) -> bytes:
    """Return the log of one decision, its request and its start-up, as a run of its own."""
    frames = sorted((frame for log in logs for frame in fr.read_log(log)), key=lambda frame: frame.at_ns)
    return fr.write_log(_Requested(frames, number).frames())[0]


class _Requested(Selection):
    def __init__(self, frames: list[fr.Frame], number: int) -> None:
        super().__init__(frames, number)
        told = next(f for f in frames if f.kind == fr.INBOUND and f.decision == number and f.flags)
        said = values.decode(told.payload)
        self._serving, self._from = told.at_ns - said["serving"], told.at_ns - said["since"]
        last = max(f.at_ns for f in frames if f.kind in (fr.CLOSE, fr.REPLY, fr.OPEN) and f.decision == number)
        self._until = max(self._until, last)
        self._below = (said["path"], self._place)
        self._standing = self._paths_before()
        self._warm = {f.decision for f in frames if f.kind == fr.OPEN and f.at_ns <= self._serving}
        self._inside |= self._warm

    def _paths_before(self) -> set[str]:
        """The task paths on which something was done before the first connection, and that lead to no request's."""
        found = set()
        for frame in self._all:
            if frame.at_ns > self._serving:
                break
            if frame.kind == fr.PATH:  # it only names what comes behind it
                continue
            found.add(self._paths.get(frame.path, ""))
            if frame.draws:
                found |= {self._paths.get(path, "") for _, path, _ in fr.unpack_draws(frame.draws)}
        return {path for path in found if path and not f"{self._place}/".startswith(f"{path}/")}

    def _takes(self, frame: fr.Frame) -> bool:
        if frame.decision in self._inside or frame.kind in self.FACTS:
            return True
        early = frame.at_ns <= self._serving
        if not frame.effect:
            if frame.kind == fr.STREAM:
                return frame.flags == 0
            return frame.kind == fr.FILES_READ or (early and frame.kind in (fr.FILE_BEFORE, fr.FILE_PART, fr.NOTE))
        if frame.decision:
            return False
        if frame.kind in fr.STARTS and self._is_own(self._paths.get(frame.path, ""), frame.at_ns):
            self._before.add(frame.effect)
        return frame.effect in self._before

    def _is_own(self, where: str, at_ns: int) -> bool:
        if at_ns <= self._serving or where in self._standing:
            return True
        return self._from < at_ns <= self._until and f"{where}/".startswith(tuple(f"{one}/" for one in self._below))

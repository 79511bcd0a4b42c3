"""One decision taken out of its run, to be replayed alone: its own frames, and what a call of its function needs.

A server is not run again to replay one of its decisions: the agent function that opened it is called with its recorded
arguments (`replay.entry`). What goes on the tape:

- the decision's frames, and those of decisions opened inside it; the facts of run and processes;
- the draws made at its task path while it was open, and at all paths below, whichever frame they rode in;
- what the program did at the top of its modules before (they are imported again): effects and draws outside any
  decision. Nobody waits for these.

Standard streams and the end of the process are the server's and not the decision's: they are not compared. Times begin
with the decision, so that nothing waits as long as the server had lived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.seams.context import process_of


@dataclass(frozen=True)
class Alone:
    """What a decision recorded of its entry, and whether its run ended by itself."""

    number: int
    entry: dict[str, Any]
    ended_by_itself: bool

    @property
    def name(self) -> str:
        """The function's name, for a person."""
        return f"{self.entry['module']}:{self.entry['qualname']}"


def entry_in(logs: Sequence[bytes], number: int) -> Alone | None:
    """Return the entry of a decision of this run, if an agent function opened it."""
    entry = ended = None
    for log in logs:
        for frame in fr.read_log(log):
            if frame.kind == fr.OPEN and frame.decision == number:
                entry = values.decode(frame.payload).get("entry")
            elif frame.kind == fr.ENDED and frame.flags == 1:
                ended = values.decode(frame.payload)
    if not entry:
        return None
    return Alone(number, entry, ended is not None and ended["signal"] is None)


def alone(logs: Sequence[bytes], number: int) -> bytes:
    """Return the log of one decision as a run of its own. `number` must be that of a decision that was opened."""
    frames = sorted((frame for log in logs for frame in fr.read_log(log)), key=lambda frame: frame.at_ns)
    return fr.write_log(Selection(frames, number).frames())[0]


class Selection:
    """The frames of a run that belong to one decision, or to what comes before it."""

    FACTS = (fr.ABOUT, fr.RUN, fr.PROCESS, fr.LENT)

    def __init__(self, frames: list[fr.Frame], number: int) -> None:
        self._all = frames
        self._inside = {number}
        for frame in frames:
            if frame.kind == fr.OPEN and frame.parent in self._inside:
                self._inside.add(frame.decision)
        opened = next(frame for frame in frames if frame.kind == fr.OPEN and frame.decision == number)
        closed = [frame.at_ns for frame in frames if frame.kind == fr.CLOSE and frame.decision == number]
        self._from, self._until = opened.at_ns, closed[0] if closed else frames[-1].at_ns
        after = (frame.at_ns for frame in frames if frame.kind == fr.OPEN and frame.path == opened.path)
        self._until_below = next((at for at in after if at > self._until), frames[-1].at_ns)
        self._paths = {frame.path: frame.payload.decode() for frame in frames if frame.kind == fr.PATH}
        self._modules = {
            frame.effect for frame in frames
            if frame.kind == fr.SITE and fr.unpack_fields(frame.payload)[0][2] == b"<module>"
        }  # fmt: skip
        self._place = self._paths.get(opened.path, "")
        self._root = process_of(self._place)
        self._before: set[int] = set()  # effects that the program's modules made

    def frames(self) -> list[fr.Frame]:
        """The selected frames, their times counted from the decision's beginning."""
        names: dict[tuple[int, int], fr.Frame] = {}
        chosen = []
        for frame in self._all:
            if frame.kind in (fr.PATH, fr.SITE):
                names[frame.kind, frame.path or frame.effect] = frame  # each log names its own again
                continue
            draws = self._draws(frame)
            if self._takes(frame):
                chosen.append(self._made(frame, frame.kind, draws))
            elif draws:
                chosen.append(self._made(frame, fr.DRAWS, draws))
        head = [self._made(frame, frame.kind, b"") for frame in names.values()]
        began = len(head) + len(chosen)
        for place, frame in enumerate([*head, *chosen], 1):
            frame.at_ns = place if frame.at_ns <= self._from else began + frame.at_ns - self._from
        return [*head, *chosen]

    def _takes(self, frame: fr.Frame) -> bool:
        if frame.decision in self._inside or frame.kind in self.FACTS:
            return True
        if frame.decision or not frame.effect:
            return False
        if frame.kind in fr.STARTS and frame.at_ns < self._from and self._paths.get(frame.path) == self._root:
            self._before.add(frame.effect)
        return frame.effect in self._before

    def _draws(self, frame: fr.Frame) -> bytes:
        if not frame.draws:
            return b""
        kept = []
        for site, path, value in fr.unpack_draws(frame.draws):
            where = self._paths.get(path, "")
            if self._is_own(where, frame.at_ns) or (site in self._modules and where == self._root):
                kept.append(fr.pack_draw(site, path, value))
        return b"".join(kept)

    def _is_own(self, where: str, at_ns: int) -> bool:
        if where == self._place:
            return self._from < at_ns <= self._until
        # Work that it left behind goes on after its end, until the next one opens here.
        return self._from < at_ns <= self._until_below and where.startswith(self._place + "/")

    @staticmethod
    def _made(frame: fr.Frame, kind: int, draws: bytes) -> fr.Frame:
        if kind == frame.kind:
            return fr.Frame(
                kind, frame.flags, frame.decision, frame.effect, frame.path, frame.parent, frame.at_ns, draws,
                frame.payload,
            )  # fmt: skip
        return fr.Frame(kind, 0, 0, 0, 0, 0, frame.at_ns, draws, b"")

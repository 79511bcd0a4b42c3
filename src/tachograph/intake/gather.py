"""From the spool files of one run to its frames: one order, one numbering.

Each process numbers its own effects, paths, sites and decisions. Here they get the run's numbers: effects and decisions
by start order, paths and sites by what they say. Times become nanoseconds since the run began and strictly increasing
(two frames of one nanosecond keep the order of their files), so that a frame's time is its place in the run.

Decisions of a run that still goes on are sealed before it ends, with numbers that must hold for ever. So what had been
read at such a moment (an *epoch*: so many records of each file) comes before everything that was read later, whatever
its time: a prefix of the run is numbered the same however much is added behind it.

Memory grows with the number of frames and not with what they hold: see `intake.numbered`.

Nothing is invented, and a lost record takes no other with it that can stand alone: a frame whose effect never started
is left out, one whose path, call site or outer effect was lost stands without; each is counted in `damage`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate
from typing import TYPE_CHECKING

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.numbered import Numbered, Origin
from tachograph.intake.sifting import sift

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tachograph.store.spool_reading import Reading

NOTHING_KEPT = "a process began to record, and nothing of it is there: it was killed at once, or all of it was lost"


@dataclass
class Gathered:
    """The frames of a run, in order, numbered for the run; and what was damaged, in words."""

    frames: Numbered
    began_ns: int  # wall clock, nanoseconds since 1970
    decisions: dict[int, str] = field(default_factory=dict)  # number -> decision id, as opened
    damage: list[str] = field(default_factory=list)
    tails: list[str] = field(
        default_factory=list
    )  # processes whose last frame is missing, and when they were last heard
    bounds: list[int] = field(default_factory=list)  # per epoch: the time of the last frame read by then, or -1


_HEAD = fr.HEADER.size
_WITH_PAYLOAD = (fr.OPEN, fr.ADOPTED)  # what they hold decides about the numbers of others


class _Process:
    """One spool file: of each frame its head and its draws, and what only some of them say."""

    def __init__(self, order: int, reading: Reading, damage: list[str]) -> None:
        self.order = order
        self.origin = Origin(reading.frames)
        self.began_ns = self.monotonic_ns = self.pid = 0
        self.name = "?"
        self.paths: dict[int, str] = {}
        self.sites: dict[int, bytes] = {}
        self.says_its_end = False
        self._numbers = reading.numbers
        self._places = array("L")  # of the frames that parse, among those of the reading
        self._at = array("Q")
        self._starts = array("Q")  # where head and draws of each begin
        self._heads = bytearray()
        self._payloads: dict[int, bytes] = {}
        for place, data in enumerate(reading.frames):
            try:
                self._take(place, sift(data), data)
            except FormatError as fault:
                damage.append(f"frame {reading.numbers[place]} of a spool file does not parse: {fault}")

    def __len__(self) -> int:
        return len(self._places)

    @property
    def last_ns(self) -> int:
        return self._at[-1]

    def _take(self, place: int, frame: fr.Frame, data: bytes) -> None:
        if frame.kind in _WITH_PAYLOAD:
            self._payloads[len(self._places)] = frame.payload
        elif frame.kind == fr.PATH:
            self.paths[frame.path] = frame.payload.decode()
        elif frame.kind == fr.SITE:
            self.sites[frame.effect] = frame.payload
        elif frame.kind == fr.ENDED:
            self.says_its_end = True
        elif frame.kind in (fr.RUN, fr.PROCESS) and self.name == "?":
            facts = values.decode(frame.payload)
            self.began_ns, self.monotonic_ns = facts["startedAt"], facts["monotonicNs"]
            self.name = f"{facts.get('path', 'tacho run')} (pid {facts.get('pid', '-')})"
            self.pid = facts["pid"] if isinstance(facts.get("pid"), int) else 0
        self._places.append(place)
        self._at.append(frame.at_ns)
        self._starts.append(len(self._heads))
        self._heads += data[: _HEAD + len(frame.draws)]

    def place(self, index: int) -> int:
        """Where a frame stands among those of the reading."""
        return self._places[index]

    def frame(self, index: int) -> fr.Frame:
        """A frame with its draws, and with its payload where that is needed here."""
        end = self._starts[index + 1] if index + 1 < len(self) else len(self._heads)
        frame = fr.read_frame(bytes(self._heads[self._starts[index] : end]))
        frame.payload = self._payloads.get(index, b"")
        return frame

    def sequence(self, epochs: Sequence[Mapping[int, int]]) -> Iterator[tuple[int, int, int, int]]:
        """Yield (epoch, time, order, index) of each frame, sorted."""
        reads = list(accumulate((epoch.get(self.order, 0) for epoch in epochs), max))

        def epoch_of(index: int) -> int:
            return bisect_right(reads, self._numbers[self._places[index]]) if reads else 0

        def key(index: int) -> tuple[int, int]:
            return epoch_of(index), self._at[index]

        at = self._at
        in_order = all(at[index - 1] <= at[index] for index in range(1, len(at)))  # threads may overtake each other
        for index in range(len(at)) if in_order else sorted(range(len(at)), key=key):
            yield epoch_of(index), at[index], self.order, index


def gather(
    readings: Sequence[Reading], *, unreadable: Sequence[str] = (), epochs: Sequence[Mapping[int, int]] = ()
) -> Gathered:  # fmt: skip
    """Merge what could be read of a run's spool files. `unreadable` names the files that could not be read at all.

    `epochs` says, for each earlier sealing, how many records of each reading (by its place) had been read by then.
    """
    damage = [word for reading in readings for word in reading.damage] + list(unreadable)
    damage += ["recording stopped before the program did: a write failed" for reading in readings if reading.gap]
    processes = [_Process(order, reading, damage) for order, reading in enumerate(readings)]
    # The clock of the first process to begin says when the run began: a later one may have been set back meanwhile.
    known = sorted((process.monotonic_ns, process.began_ns) for process in processes if process.began_ns)
    zero, began = known[0] if known else (0, 0)
    by_pid = {process.pid: process.order for process in processes if process.pid}
    ordered = merge(*(process.sequence(epochs) for process in processes))
    result = _Numbering(zero, by_pid, processes).renumber(ordered, damage)
    tails = [tail for process in processes if (tail := _tail(process, zero)) is not None]
    bounds = list(accumulate((result.bounds.get(epoch, -1) for epoch in range(len(epochs))), max))
    return Gathered(result.frames, began, result.decisions, damage, tails, bounds)


def _tail(process: _Process, zero_ns: int) -> str | None:
    """Say where the record of a process ends if its own last frame is missing: it was killed, or left by `os._exit`."""
    if not len(process):
        return NOTHING_KEPT
    if process.says_its_end:
        return None
    last = (process.last_ns - zero_ns) / 1e9
    return f"process {process.name}: no last frame; it was last heard {last:.3f} s after the run began"


class _Numbering:
    """The run's numbers, given in the order in which things first appear."""

    def __init__(self, zero_ns: int, by_pid: dict[int, int], processes: Sequence[_Process]) -> None:
        self._zero = zero_ns
        self._by_pid = by_pid
        self._processes = processes
        self._last = -1
        self._effects: dict[tuple[int, int], int] = {}
        self._decisions: dict[tuple[int, int], int] = {}
        self._paths: dict[str, int] = {}
        self._sites: dict[bytes, int] = {}
        self._minted: set[str] = set()
        self._lost: list[str] = []
        self.frames = Numbered()
        self._origins = [self.frames.origin(process.origin) for process in processes]
        self.bounds: dict[int, int] = {}
        self.decisions: dict[int, str] = {}

    def renumber(self, ordered: Iterable[tuple[int, int, int, int]], damage: list[str]) -> _Numbering:
        for epoch, _, order, index in ordered:
            process = self._processes[order]
            frame = process.frame(index)
            if frame.kind not in (fr.PATH, fr.SITE):
                self._one(frame, process, index)
                self.bounds[epoch] = self._last
        damage += self._lost
        return self

    def _one(self, frame: fr.Frame, process: _Process, index: int) -> None:
        order = process.order
        if frame.kind == fr.ADOPTED:
            self._adopt(frame, order)
            return
        if frame.kind == fr.OPEN:
            minted = values.decode(frame.payload)["id"]
            if minted in self._minted:
                self._lose(f"decision {minted} was opened twice: what the second one held belongs to the run")
                return
            self._minted.add(minted)
            number = self._decisions[order, frame.decision] = len(self._decisions) + 1
            self.decisions[number] = minted
            parent = self._decisions.get((order, frame.parent), 0)
        else:
            parent = self._effects.get((order, frame.parent), 0)
            if frame.parent and not parent:
                self._lose(f"effect {frame.effect} stands without the one that it was inside of")
        if frame.kind in fr.STARTS:
            self._effects[order, frame.effect] = len(self._effects) + 1
        decision = self._decisions.get((order, frame.decision), 0) if frame.decision else 0
        for site, path, _ in fr.unpack_draws(frame.draws) if frame.draws else ():
            self._site(process, site)
            self._path(process, path)
        if frame.effect and (order, frame.effect) not in self._effects:
            what = fr.NAMES.get(frame.kind, str(frame.kind))
            self._lost.append(f"a {what} frame of effect {frame.effect} was left out: its beginning is damaged")
            if frame.draws:
                self._add(fr.Frame(fr.DRAWS, 0, 0, 0, 0, 0, frame.at_ns, b"", b""), process, index)
            return
        effect = self._effects[order, frame.effect] if frame.effect else 0
        path = self._path(process, frame.path) if frame.path else 0
        head = fr.Frame(frame.kind, frame.flags, decision, effect, path, parent, frame.at_ns, b"", b"")
        self._add(head, process, index)

    def _adopt(self, frame: fr.Frame, order: int) -> None:
        """A decision and an effect that another process began go on in this one, under numbers of its own."""
        said = values.decode(frame.payload)
        origin = self._by_pid.get(said["pid"], -1)
        decision = self._decisions.get((origin, said["decision"]), 0)
        effect = self._effects.get((origin, said["effect"]), 0)
        if decision:
            self._decisions[order, frame.decision] = decision
        if effect:
            self._effects[order, frame.effect] = effect
        if (said["decision"] and not decision) or (said["effect"] and not effect):
            self._lose("the decision or effect that another process worked in is lost: what it did belongs to the run")

    def _lose(self, what: str) -> None:
        if what not in self._lost:
            self._lost.append(what)

    def _path(self, process: _Process, given: int) -> int:
        known = process.origin.paths.get(given)
        if known is not None:
            return known
        path = process.paths.get(given)
        if path is None:
            self._lose(f"the name of task path {given} of process {process.name} is lost: what happened there has none")
            number = 0
        else:
            number = self._paths.get(path, 0)
            if not number:
                number = self._paths[path] = len(self._paths) + 1
                self._add(fr.Frame(fr.PATH, 0, 0, 0, number, 0, 0, b"", path.encode()))
        process.origin.paths[given] = number
        return number

    def _site(self, process: _Process, given: int) -> int:
        known = process.origin.sites.get(given)
        if known is not None:
            return known
        site = process.sites.get(given)
        if site is None:
            self._lose(
                f"the name of call site {given} of process {process.name} is lost: what was drawn there has none"
            )
            number = 0
        else:
            number = self._sites.get(site, 0)
            if not number:
                number = self._sites[site] = len(self._sites) + 1
                self._add(fr.Frame(fr.SITE, 0, 0, number, 0, 0, 0, b"", site))
        process.origin.sites[given] = number
        return number

    def _add(self, frame: fr.Frame, process: _Process | None = None, index: int = 0) -> None:
        at = frame.at_ns - self._zero if frame.at_ns else self._last + 1
        self._last = frame.at_ns = max(at, self._last + 1)
        if process is None:
            self.frames.append(frame)
        else:
            self.frames.add(frame, self._origins[process.order], process.place(index))

"""From the spool files of one run to its frames: one order, one numbering.

Each process numbers its own effects, paths, sites and decisions. Here they get the run's numbers: effects and decisions
by start order, paths and sites by what they say. Times become nanoseconds since the run began and strictly increasing
(two frames of one nanosecond keep the order of their files), so that a frame's time is its place in the run.

Decisions of a run that still goes on are sealed before it ends, with numbers that must hold for ever. So what had been
read at such a moment (an *epoch*: so many records of each file) comes before everything that was read later, whatever
its time: a prefix of the run is numbered the same however much is added behind it.

Nothing is invented, and a lost record takes no other with it that can stand alone: a frame whose effect never started
is left out, one whose path, call site or outer effect was lost stands without; each is counted in `damage`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.sifting import sift

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tachograph.store.spool import Reading

NOTHING_KEPT = "a process began to record, and nothing of it is there: it was killed at once, or all of it was lost"


@dataclass
class Gathered:
    """The frames of a run, in order, numbered for the run; and what was damaged, in words."""

    frames: list[fr.Frame]
    began_ns: int  # wall clock, nanoseconds since 1970
    decisions: dict[int, str] = field(default_factory=dict)  # number -> decision id, as opened
    damage: list[str] = field(default_factory=list)
    tails: list[str] = field(
        default_factory=list
    )  # processes whose last frame is missing, and when they were last heard
    bounds: list[int] = field(default_factory=list)  # per epoch: the time of its last frame, -1 where it has none


@dataclass
class _Process:
    order: int
    frames: list[fr.Frame]
    began_ns: int
    monotonic_ns: int
    paths: dict[int, str]
    sites: dict[int, bytes]
    numbers: list[int] = field(default_factory=list)
    name: str = "?"
    pid: int = 0


def gather(
    readings: Sequence[Reading], *, unreadable: Sequence[str] = (), epochs: Sequence[Mapping[int, int]] = ()
) -> Gathered:  # fmt: skip
    """Merge what could be read of a run's spool files. `unreadable` names the files that could not be read at all.

    `epochs` says, for each earlier sealing, how many records of each reading (by its place) had been read by then.
    """
    damage = [word for reading in readings for word in reading.damage] + list(unreadable)
    damage += ["recording stopped before the program did: a write failed" for reading in readings if reading.gap]
    processes = [_process(order, reading, damage) for order, reading in enumerate(readings)]
    # The clock of the first process to begin says when the run began: a later one may have been set back meanwhile.
    known = sorted((process.monotonic_ns, process.began_ns) for process in processes if process.began_ns)
    zero, began = known[0] if known else (0, 0)
    ordered = sorted(
        (
            (_epoch(epochs, process.order, number), frame.at_ns, process.order, number, frame, process)
            for process in processes
            for number, frame in zip(process.numbers, process.frames, strict=True)
        ),
        key=lambda one: one[:4],
    )
    by_pid = {process.pid: process.order for process in processes if process.pid}
    result = _Numbering(zero, by_pid).renumber([(one[0], one[4], one[5]) for one in ordered], damage)
    tails = [tail for process in processes if (tail := _tail(process, zero)) is not None]
    bounds = [result.bounds.get(epoch, -1) for epoch in range(len(epochs))]
    return Gathered(result.frames, began, result.decisions, damage, tails, bounds)


def _epoch(epochs: Sequence[Mapping[int, int]], order: int, number: int) -> int:
    for place, read in enumerate(epochs):
        if number < read.get(order, 0):
            return place
    return len(epochs)


def _process(order: int, reading: Reading, damage: list[str]) -> _Process:
    frames: list[fr.Frame] = []
    numbers: list[int] = []
    for number, data in zip(reading.numbers, reading.frames, strict=True):
        try:
            frames.append(sift(data))
            numbers.append(number)
        except FormatError as fault:
            damage.append(f"frame {number} of a spool file does not parse: {fault}")
    began = monotonic = pid = 0
    name = "?"
    for frame in frames:
        if frame.kind in (fr.RUN, fr.PROCESS):
            facts = values.decode(frame.payload)
            began, monotonic = facts["startedAt"], facts["monotonicNs"]
            name = f"{facts.get('path', 'tacho run')} (pid {facts.get('pid', '-')})"
            pid = facts["pid"] if isinstance(facts.get("pid"), int) else 0
            break
    paths = {f.path: f.payload.decode() for f in frames if f.kind == fr.PATH}
    sites = {f.effect: f.payload for f in frames if f.kind == fr.SITE}
    return _Process(order, frames, began, monotonic, paths, sites, numbers, name, pid)


def _tail(process: _Process, zero_ns: int) -> str | None:
    """Say where the record of a process ends if its own last frame is missing: it was killed, or left by `os._exit`."""
    if not process.frames:
        return NOTHING_KEPT
    if any(frame.kind == fr.ENDED for frame in process.frames):
        return None
    last = (process.frames[-1].at_ns - zero_ns) / 1e9
    return f"process {process.name}: no last frame; it was last heard {last:.3f} s after the run began"


class _Numbering:
    """The run's numbers, given in the order in which things first appear."""

    def __init__(self, zero_ns: int, by_pid: dict[int, int]) -> None:
        self._zero = zero_ns
        self._by_pid = by_pid
        self._last = -1
        self._effects: dict[tuple[int, int], int] = {}
        self._decisions: dict[tuple[int, int], int] = {}
        self._paths: dict[str, int] = {}
        self._sites: dict[bytes, int] = {}
        self._minted: set[str] = set()
        self._lost: list[str] = []
        self.frames: list[fr.Frame] = []
        self.bounds: dict[int, int] = {}
        self.decisions: dict[int, str] = {}

    def renumber(self, ordered: list[tuple[int, fr.Frame, _Process]], damage: list[str]) -> _Numbering:
        for epoch, frame, process in ordered:
            if frame.kind not in (fr.PATH, fr.SITE):
                self._one(frame, process)
                self.bounds[epoch] = self._last
        damage += self._lost
        return self

    def _one(self, frame: fr.Frame, process: _Process) -> None:
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
        draws = self._draws(frame.draws, process) if frame.draws else b""
        if frame.effect and (order, frame.effect) not in self._effects:
            what = fr.NAMES.get(frame.kind, str(frame.kind))
            self._lost.append(f"a {what} frame of effect {frame.effect} was left out: its beginning is damaged")
            if draws:
                self._add(fr.Frame(fr.DRAWS, 0, 0, 0, 0, 0, frame.at_ns, draws, b""))
            return
        effect = self._effects[order, frame.effect] if frame.effect else 0
        path = self._path(process, frame.path) if frame.path else 0
        self._add(fr.Frame(frame.kind, frame.flags, decision, effect, path, parent, frame.at_ns, draws, frame.payload))

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

    def _draws(self, draws: bytes, process: _Process) -> bytes:
        return b"".join(
            fr.pack_draw(self._site(process, site), self._path(process, path), value)
            for site, path, value in fr.unpack_draws(draws)
        )

    def _path(self, process: _Process, given: int) -> int:
        path = process.paths.get(given)
        if path is None:
            self._lose(f"the name of task path {given} of process {process.name} is lost: what happened there has none")
            return 0
        number = self._paths.get(path)
        if number is None:
            number = self._paths[path] = len(self._paths) + 1
            self._add(fr.Frame(fr.PATH, 0, 0, 0, number, 0, 0, b"", path.encode()))
        return number

    def _site(self, process: _Process, given: int) -> int:
        site = process.sites.get(given)
        if site is None:
            self._lose(
                f"the name of call site {given} of process {process.name} is lost: what was drawn there has none"
            )
            return 0
        number = self._sites.get(site)
        if number is None:
            number = self._sites[site] = len(self._sites) + 1
            self._add(fr.Frame(fr.SITE, 0, 0, number, 0, 0, 0, b"", site))
        return number

    def _add(self, frame: fr.Frame) -> None:
        at = frame.at_ns - self._zero if frame.at_ns else self._last + 1
        self._last = frame.at_ns = max(at, self._last + 1)
        self.frames.append(frame)

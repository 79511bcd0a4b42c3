"""From a run's frames to its logs: one per decision, and one for what belongs to the run alone.

A program that opens no decision is its own one decision, and then everything stands in one log. Otherwise the log of
each decision holds its own frames and the run's log the rest (argv, environment, stdin, outputs, effects outside),
because they lie in different erasure domains. A log is written in parts of a few megabytes, so that no more of it is in
memory at once, and logs of a run merge by time, so its parts do. Every part stands alone: it names the paths and call
sites that its frames use, and opens with an `about` frame.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.sketch import Sketch
from tachograph.model.identity import is_id, with_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tachograph.intake.gather import Gathered
    from tachograph.intake.numbered import Numbered

FORMAT = 1
# Of 50 turns that grow to 100 KB a log has 2.6 MB and one part; a decision of any length is never held whole.
PART_BYTES = 4 << 20


Names = dict[tuple[int, int], fr.Frame]
"""The frames that name paths and call sites, by kind and number."""


class Part(NamedTuple):
    """A stretch of a log that stands alone, and where its frames and their payloads begin."""

    data: bytes
    cuts: list[int]


@dataclass(frozen=True)
class Log:
    """One log to be sealed. `decision_id` is None for the run's own; `opened` is what the program said of it."""

    run_id: str
    decision_id: str | None
    number: int
    about: dict[str, Any]
    places: Sequence[int]
    all_frames: Numbered = field(repr=False)
    names: Names = field(default_factory=dict, repr=False)
    opened: dict[str, Any] = field(default_factory=dict)
    is_run: bool = False

    def frames(self) -> Iterator[fr.Frame]:
        """Yield its frames, read one by one; the frames that name paths and call sites are not among them."""
        for place in self.places:
            yield self.all_frames[place]

    def parts(self, *, size: int = PART_BYTES) -> Iterator[Part]:
        """Yield the log in parts of about `size` bytes, at least one.

        That the run was damaged, and how it ends, is said in the first part.
        """
        about, frames, held = self.about, list[fr.Frame](), 0
        for frame in self.frames():
            frames.append(frame)
            held += len(frame.payload) + len(frame.draws) + fr.HEADER.size
            if held >= size:
                yield self._part(about, frames)
                about, frames, held = {**about, "damage": [], "tails": []}, [], 0
        if frames or about is self.about:
            yield self._part(about, frames)

    def check(self) -> None:
        """Read every frame once. Raises FormatError where one cannot be read as what its kind says."""
        Sketch.of(self.frames())

    def first(self, *kinds: int) -> dict[str, Any]:
        """Return what the first frame of these kinds says, an earlier kind before a later one; or nothing."""
        found: dict[int, dict[str, Any]] = {}
        for place in self.places:
            kind = self.all_frames.kind(place)
            if kind in kinds and kind not in found:
                found[kind] = values.decode(self.all_frames[place].payload)
                if kind == kinds[0]:
                    break
        return next((found[kind] for kind in kinds if found.get(kind)), {})

    @property
    def run_facts(self) -> dict[str, Any]:
        """What the run, or a process that recorded itself, said at its start; `around` as `tacho run` said it later."""
        said, around = self.first(fr.RUN, fr.PROCESS), self.first(fr.AROUND)
        return {**said, "around": around} if around else said

    def _part(self, about: dict[str, Any], frames: list[fr.Frame]) -> Part:
        return Part(*fr.write_log([_about(about), *_used(self.names, frames), *frames]))

    @property
    def data(self) -> bytes:
        """The whole log in one piece."""
        return b"".join(part.data for part in self.parts())

    def later_than(self, at_ns: int) -> Log | None:
        """Return a log of only those of its frames that stand later in the run, None where there are none."""
        places = self.places[bisect_right(self.places, at_ns, key=self.all_frames.at_ns) :]
        if not places:
            return None
        about = {**self.about, "damage": [], "tails": []}
        return Log(
            self.run_id, self.decision_id, self.number, about, places, self.all_frames, self.names, self.opened
        )  # fmt: skip


def split(run_id: str, gathered: Gathered) -> list[Log]:
    """Return the logs of a run, the run's own first; a run that opened no decision has exactly one, a decision's."""
    opened: dict[int, dict[str, Any]] = {}
    names: Names = {}
    places: dict[int, array[int]] = {0: array("L")}
    for place, head in enumerate(gathered.frames.heads()):
        if head.kind in (fr.PATH, fr.SITE):
            names[head.kind, head.path or head.effect] = gathered.frames[place]
            continue
        if head.kind == fr.OPEN:
            opened[head.decision] = values.decode(gathered.frames[place].payload)
        places.setdefault(head.decision, array("L")).append(place)
    whole = not opened
    logs = []
    for number in sorted(places):
        facts = opened.get(number, {})
        decision_id = _decision_id(run_id, number, facts, whole=whole)
        if decision_id is None and number:
            raise FormatError(f"decision {number} of {run_id} has no id of its own")
        about = {
            "format": FORMAT, "runId": run_id, "decisionId": decision_id, "number": number,
            "beganNs": gathered.began_ns, "damage": gathered.damage if number == 0 else [],
            "tails": gathered.tails if number == 0 else [],
        }  # fmt: skip
        logs.append(
            Log(run_id, decision_id, number, about, places[number], gathered.frames, names, facts, is_run=number == 0)
        )  # fmt: skip
    return logs


def _decision_id(run_id: str, number: int, facts: dict[str, Any], *, whole: bool) -> str | None:
    if number == 0:
        return with_prefix(run_id, "dec") if whole else None
    given = facts.get("id", "")
    return given if is_id(given, "dec") else None


def _about(said: dict[str, Any]) -> fr.Frame:
    return fr.Frame(fr.ABOUT, 0, 0, 0, 0, 0, 0, b"", values.encode(said))


def _used(names: Names, frames: list[fr.Frame]) -> list[fr.Frame]:
    wanted = {(fr.PATH, frame.path) for frame in frames}
    for frame in frames:
        for site, path in fr.draw_places(frame.draws) if frame.draws else ():
            wanted.add((fr.SITE, site))
            wanted.add((fr.PATH, path))
    return sorted((names[one] for one in wanted if one in names), key=lambda frame: frame.at_ns)

"""From a run's frames to its logs: one per decision, and one for what belongs to the run alone.

A program that opens no decision is its own one decision, and then everything stands in one log. Otherwise the log of
each decision holds its own frames and the run's log the rest (argv, environment, stdin, outputs, effects outside),
because they lie in different erasure domains. Every log stands alone: it names the paths and call sites that its frames
use, and opens with an `about` frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.identity import is_id, with_prefix

if TYPE_CHECKING:
    from tachograph.intake.gather import Gathered

FORMAT = 1


@dataclass(frozen=True)
class Log:
    """One log to be sealed. `decision_id` is None for the run's own; `person` and `session` are as the program said."""

    run_id: str
    decision_id: str | None
    data: bytes
    cuts: list[int]
    number: int
    opened: dict[str, Any] = field(default_factory=dict)
    is_run: bool = False


def split(run_id: str, gathered: Gathered) -> list[Log]:
    """Return the logs of a run, the run's own first; a run that opened no decision has exactly one, a decision's."""
    opened = {
        frame.decision: values.decode(frame.payload) for frame in gathered.frames if frame.kind == fr.OPEN
    }  # fmt: skip
    tables = [frame for frame in gathered.frames if frame.kind in (fr.PATH, fr.SITE)]
    groups: dict[int, list[fr.Frame]] = {0: []}
    for frame in gathered.frames:
        if frame.kind not in (fr.PATH, fr.SITE):
            groups.setdefault(frame.decision, []).append(frame)
    whole = not opened
    logs = []
    for number in sorted(groups):
        facts = opened.get(number, {})
        decision_id = _decision_id(run_id, number, facts, whole=whole)
        if decision_id is None and number:
            raise FormatError(f"decision {number} of {run_id} has no id of its own")
        about = {
            "format": FORMAT, "runId": run_id, "decisionId": decision_id, "number": number,
            "beganNs": gathered.began_ns, "damage": gathered.damage if number == 0 else [],
            "tails": gathered.tails if number == 0 else [],
        }  # fmt: skip
        frames = [_about(about), *_used(tables, groups[number]), *groups[number]]
        data, cuts = fr.write_log(frames)
        logs.append(Log(run_id, decision_id, data, cuts, number, facts, is_run=number == 0))
    return logs


def later_than(log: Log, at_ns: int) -> Log | None:
    """Return a log of only those of its frames that stand later in the run, None where there are none."""
    frames = fr.read_log(log.data)
    named = [frame for frame in frames if frame.kind in (fr.PATH, fr.SITE)]
    rest = [f for f in frames if f.at_ns > at_ns and f.kind not in (fr.PATH, fr.SITE, fr.ABOUT)]
    if not rest:
        return None
    about = next(frame for frame in frames if frame.kind == fr.ABOUT)
    data, cuts = fr.write_log([about, *_used(named, rest), *rest])
    return Log(log.run_id, log.decision_id, data, cuts, log.number, log.opened)


def _decision_id(run_id: str, number: int, facts: dict[str, Any], *, whole: bool) -> str | None:
    if number == 0:
        return with_prefix(run_id, "dec") if whole else None
    given = facts.get("id", "")
    return given if is_id(given, "dec") else None


def _about(said: dict[str, Any]) -> fr.Frame:
    return fr.Frame(fr.ABOUT, 0, 0, 0, 0, 0, 0, b"", values.encode(said))


def _used(tables: list[fr.Frame], frames: list[fr.Frame]) -> list[fr.Frame]:
    paths = {frame.path for frame in frames}
    sites: set[int] = set()
    for frame in frames:
        for site, path, _ in fr.unpack_draws(frame.draws) if frame.draws else ():
            sites.add(site)
            paths.add(path)
    return [t for t in tables if (t.kind == fr.PATH and t.path in paths) or (t.kind == fr.SITE and t.effect in sites)]

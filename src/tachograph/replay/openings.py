"""Decisions that open again in a replay: which recorded one each of them is, and the inbound request that leads there.

The nth that opens on a task path is the nth that was recorded on it. Where a decision is replayed with the request that
led to it, the one that opens while that request is handled is the recorded one, whichever worker got the request.
"""

from __future__ import annotations

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.seams import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tachograph.formats.effect_log import EffectLog, Fact
    from tachograph.replay.driving import Drive


class Openings:
    """The decisions of a log as they open again. `drive` is the inbound request of one of them, where it is sent."""

    def __init__(self, log: EffectLog, report: Callable[[int, int, bytes], None]) -> None:
        self._recorded: dict[str, list[Fact]] = {}
        for fact in log.of(fr.OPEN):
            self._recorded.setdefault(fact.path, []).append(fact)
        self._report = report
        self._opened: dict[str, int] = {}
        self.drive: Drive | None = None

    def open(self, facts: dict[str, Any]) -> tuple[int, str | None]:
        """A decision opens: its recorded number and id, 0 and None where it is none that was recorded."""
        drive, path = self.drive, context.here().path
        if drive is not None and path not in self._recorded and drive.takes():
            path = context.here().path
        nth = self._opened[path] = self._opened.get(path, 0) + 1
        recorded = self._recorded.get(path, [])
        again = recorded[nth - 1] if nth <= len(recorded) else None
        number = again.decision if again is not None else 0
        if drive is not None and number == drive.number:
            drive.opens()
        self._report(fr.OPEN, number, values.encode({**facts, "path": path, "nth": nth}))
        return number, again.said["id"] if again is not None else None

    def tell(self, kind: int, decision: int, facts: dict[str, Any]) -> None:
        """The program says something of a decision."""
        self._report(kind, decision, values.encode(facts))
        if kind == fr.CLOSE and self.drive is not None:
            self.drive.closes(decision)

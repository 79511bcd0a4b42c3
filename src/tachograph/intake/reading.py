"""Captures read back: the logs of a run as a value, with what views need of them.

Logs come verified from the store (a changed byte is refused there). Values are read without importing anything: a
class that the program had stays a marker here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tachograph.comparison.leaves import as_json
from tachograph.formats import frame as fr
from tachograph.formats.effect_log import EffectLog, read_effect_log, read_without_content
from tachograph.formats.value_view import view
from tachograph.formats.wire_request import read_request_head
from tachograph.intake.readings import answer_of, request_of
from tachograph.intake.skeleton import coverage, gone_past, is_watched
from tachograph.model.effect import Effect


@dataclass
class Captured:
    """One decision, with everything that its run recorded. `number` is its place in the run, 0 where it is the run."""

    decision_id: str
    run_id: str
    number: int
    logs: Sequence[bytes]
    state: str = "sealed"
    notes: list[str] = field(default_factory=list)

    @cached_property
    def log(self) -> EffectLog:
        """The run's effects, draws and facts."""
        return read_effect_log(self.logs)

    @cached_property
    def without_content(self) -> EffectLog:
        """The same without what was sent, answered, given and returned: no log is held for it."""
        return read_without_content(self.logs)

    @property
    def effects(self) -> list[Effect]:
        """The decision's own effects."""
        return [effect for effect in self.log.effects if self.number in (0, effect.decision)]

    @property
    def damage(self) -> list[str]:
        """What was lost or changed before sealing, in words."""
        about_of = self.__dict__.get("without_content") or self.log
        return [word for about in about_of.about for word in about["damage"]]

    @property
    def coverage(self) -> dict[str, Any]:
        """What was seen, what bypassed the recorder, and which processes' records end early, and when (`tails`)."""
        bypassed = gone_past(self.log)
        if not is_watched(self.log):
            said = "it did not load the recorder: nothing that happened inside was seen"
            bypassed.append({"what": "the program itself", "detail": said})
        tails = [word for about in self.log.about for word in about["tails"]]
        return {**coverage(self.log), "bypassed": bypassed, "tails": tails}

    @property
    def ended(self) -> dict[str, Any] | None:
        """How the run ended, where `tacho run` saw it."""
        return next((fact.said for fact in self.log.of(fr.ENDED) if fact.flags == 1), None)

    @property
    def output(self) -> str | None:
        """The final output: as declared, else the last model answer's text, else stdout where no model was called."""
        said = [fact.said for fact in self.log.of(fr.OUTPUT) if fact.decision == self.number]
        if said:
            return str(said[-1]["text"])
        answers = [answer for effect in self.effects if (answer := answer_of(effect)) is not None]
        if answers:
            return answers[-1].final_text
        seen = self.ended is not None or self.log.streams[1]
        if self.number == 0 and seen and not any(request_of(effect) for effect in self.effects):
            return self.log.streams[1].decode("utf-8", "backslashreplace")
        return None


def inbound_of(log: EffectLog, number: int) -> dict[str, str] | None:
    """Return method and target of the request in whose handling a decision opened; `why` it is not to be sent again.

    None where no request is known.
    """
    facts = [fact for fact in log.of(fr.INBOUND) if fact.decision == number]
    if not facts:
        return None
    why = next((str(fact.said["why"]) for fact in facts if fact.flags and "why" in fact.said), None)
    head = b"".join(fact.payload for fact in facts if not fact.flags).partition(b"\r\n\r\n")[0]
    begun = read_request_head(head)
    said = {} if begun is None else {"method": begun.method, "target": begun.target}
    return said if why is None else {**said, "why": why}


def plainly(data: bytes) -> Any:
    """Read an encoded value as JSON can show it; nothing is imported to do so."""
    return as_json(view(data)) if data else None

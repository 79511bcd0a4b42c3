"""`tacho replay --json`: what happened when a decision was run again (DESIGN section 10)."""

from __future__ import annotations

from typing import Any

from tachograph.formats.answers.parts import Answer, DivergenceItem, Unavailable


class CallItem(Answer):
    """A call that the replayed program made."""

    kind: str
    method: str | None = None
    endpoint: str


class FirstDifference(Answer):
    """The first leaf in which the call differs from the nearest recording."""

    path: str
    recorded: Any
    replayed: Any


class MissItem(Answer):
    """A call that no recording fits, and the recording that comes nearest."""

    effect: int | None
    call: CallItem
    nearest: int | None = None
    firstDifference: FirstDifference | None = None


class UnconsumedItem(Answer):
    """A recorded effect that the replayed program never asked for."""

    effect: int
    kind: str
    summary: str


class AttemptItem(Answer):
    """An attempt to leave the closed world, and what stopped it."""

    what: str
    where: str
    stoppedBy: str


class Confinement(Answer):
    """The closed world as probed from inside the child: what held, how, and what could not be closed."""

    network: str
    filesystem: str
    how: str
    open: list[str]


class ReplayOutcome(Answer):
    """How the replayed program ended and what it wrote (bytes that are no UTF-8 are escaped)."""

    exitCode: int
    stdout: str
    stderr: str
    endedBy: str | None = None


class ReplayAnswer(Answer):
    """One replay of one decision."""

    replayId: str
    decisionId: str
    comparison_basis: str
    origin_state: str
    plan: dict[str, str]
    equivalent: bool
    divergences: list[DivergenceItem]
    misses: list[MissItem]
    unconsumed: list[UnconsumedItem]
    attempts: list[AttemptItem]
    drift: list[dict[str, Any]]
    inputsChanged: list[dict[str, Any]]
    liveEffects: int
    modelCallsSent: int
    confinement: Confinement
    fidelity: Unavailable
    outcome: ReplayOutcome
    served: int
    notes: list[str]
    timings: dict[str, float]

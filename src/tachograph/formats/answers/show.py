"""`tacho show --json`: one decision, its timeline, and the context with the origin of each part."""

from __future__ import annotations

from typing import Any

from tachograph.formats.answers.ls import DecisionRow
from tachograph.formats.answers.parts import Answer, Unavailable


class EffectItem(Answer):
    """One effect on the timeline. Times are milliseconds since the run began."""

    effect: int
    kind: str
    path: str
    parent: int | None
    summary: str
    startedMs: float
    durationMs: float | None
    status: int | None
    ended: str
    requestBytes: int
    answerBytes: int
    chunks: int
    provider: str | None = None
    model: str | None = None
    stopReason: str | None = None
    error: str | None = None


class ContextPart(Answer):
    """A part of what the model saw in its last call: where it stood, its exact text, and where it came from."""

    role: str
    pointer: str
    text: str
    origin: str
    effect: int | None = None


class GrepHit(Answer):
    """A place where a text was found: in the context, in an answer, or first in the output."""

    where: str
    pointer: str
    effect: int | None
    line: str


class ShowAnswer(Answer):
    """One decision."""

    decision: DecisionRow
    timeline: list[EffectItem]
    context: list[ContextPart] | Unavailable
    output: str | Unavailable
    stdout: str | Unavailable
    stderr: str | Unavailable
    draws: int
    damage: list[str]
    coverage: dict[str, Any]
    facts: dict[str, Any]
    grep: list[GrepHit] | None = None

"""`tacho show --json`: one decision, its timeline, and the context with the origin of each part."""

from __future__ import annotations

from typing import Any

from tachograph.formats.answers.ls import DecisionRow
from tachograph.formats.answers.parts import Answer, Unavailable


class EffectItem(Answer):
    """One effect on the timeline. Times are milliseconds since the run began."""

    effect: int
    """Its number in the run, from 1, in the order in which effects started."""
    kind: str
    """`model`, `http`, `subprocess`, `tool`, `retrieval` or `external`."""
    path: str
    """The task path on which it started."""
    parent: int | None
    """The effect inside which it happened; null where there is none."""
    summary: str
    """One line: method and address, command, or name."""
    startedMs: float
    """When it started."""
    durationMs: float | None
    """From its start to its last arrival; null where nothing arrived."""
    status: int | None
    """HTTP status, or exit status of a program; null where there is none."""
    ended: str
    """`eof`, `error`, `cut_off`, `closed_early`, `open_at_end`, `returned` or `exited`."""
    requestBytes: int
    """Bytes sent, or of the encoded inputs."""
    answerBytes: int
    """Bytes received, or of the encoded value."""
    chunks: int
    """How many pieces the answer came in."""
    provider: str | None = None
    """The dialect in which request and answer were read; null where none is known."""
    model: str | None = None
    """The model that was asked for."""
    stopReason: str | None = None
    """Why the model stopped."""
    answered: str | None = None
    """What a model answered, in one line: its text, and the tools that it asked for."""
    error: str | None = None
    """The exception with which it ended: class and what it was made with."""


class ContextPart(Answer):
    """A part of what the model saw in its last call: where it stood, its exact text, and where it came from."""

    role: str
    """Of the message it is part of: `system`, `user`, `assistant`, `tool`, ..."""
    pointer: str
    """Where in the request's body, as a JSON pointer."""
    text: str
    """The exact text; credentials known from headers are masked."""
    origin: str
    """Where the program had it from, looked up among what was recorded before."""
    effect: int | None = None
    """The effect that brought it; null where none did."""


class GrepHit(Answer):
    """A place where a text was found: in the context, in an answer, or first in the output."""

    where: str
    """Context with role and origin, an answer, or `stdout`; `first appears in ...` where it is new there."""
    pointer: str
    """Where in the request's body; empty outside the context."""
    effect: int | None
    """The effect it belongs to; null where there is none."""
    line: str
    """The line in which it stands."""


class ShowAnswer(Answer):
    """One decision."""

    decision: DecisionRow
    """The decision as a list shows it."""
    timeline: list[EffectItem]
    """Its effects, in the order in which they started."""
    context: list[ContextPart] | Unavailable
    """What the model saw in the last call."""
    output: str | Unavailable
    """As declared, else the last model answer's text, else stdout where no model was called."""
    stdout: str | Unavailable
    """Of the whole run."""
    stderr: str | Unavailable
    """Of the whole run."""
    draws: int
    """How many values the run took from clock and chance."""
    damage: list[str]
    """What was lost or changed before sealing, in words."""
    coverage: dict[str, Any]
    """`seen`: effects recorded. `bypassed`: what went past the seams. `damage`: how many entries that has."""
    facts: dict[str, Any]
    """How the run was started (argv, cwd, hash seed, files) and what the decision was opened with.

    `inbound` is the request in whose handling it opened: `method` and `target`, or `why` it cannot be sent again."""
    grep: list[GrepHit] | None = None
    """With `--grep`, where the text stood; null without."""

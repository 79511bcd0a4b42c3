"""`tacho ls --json`: a list of these, newest first."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer


class DecisionRow(Answer):
    """One decision as a list shows it. Counts are of what was recorded; times are RFC 3339 UTC with milliseconds."""

    decisionId: str
    runId: str
    agentId: str
    capturedAt: str
    captureLevel: str
    effects: int
    modelCalls: int
    toolCalls: int
    stopReason: str | None
    exitCode: int | None
    failed: bool
    failure: str | None
    title: str

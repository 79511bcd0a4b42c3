"""`tacho ls --json`: a list of these, newest first."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer


class DecisionRow(Answer):
    """One decision as a list shows it. Counts are of what was recorded; times are RFC 3339 UTC with milliseconds."""

    decisionId: str
    """`dec_` and a ULID; a unique prefix of it names the decision on the command line."""
    runId: str
    """The run in which it was made: `run_` and a ULID."""
    agentId: str
    """As given; else `agt_` and 16 hex digits of the entry point's digest."""
    capturedAt: str
    """When it began."""
    captureLevel: str
    """`full`, `structured` or `damaged`, as sealed."""
    effects: int
    """How many effects."""
    modelCalls: int
    """How many of them are model calls in a dialect that is known."""
    toolCalls: int
    """Declared tools that ran; where there are none, the calls that models asked for."""
    stopReason: str | None
    """`end_turn`, `max_tokens`, `tool_call`, `error` or `incomplete`; null where nothing says it."""
    exitCode: int | None
    """Of a run that is its own decision; null otherwise."""
    failed: bool
    """Whether it counts as failed."""
    failure: str | None
    """Which way: `declared`, `exception`, `stop_reason` or `exit_code`; null where it did not fail."""
    title: str
    """The request in one line: as declared, else the last user message, else the command."""

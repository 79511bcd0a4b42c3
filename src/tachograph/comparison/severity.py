"""Severity: how much a difference at a path weighs.

Four words, from what breaks a replay to what only informs:

- `critical`: what the program asked, printed, returned, wrote, or how it ended: these decide `equivalent`;
- `major`: what the world answered. A sealed replay cannot differ here, a live one and two runs can;
- `minor`: other bytes of the same meaning, headers of an answer, inputs that changed without a visible effect;
- `informational`: stderr, durations, order between task paths, drift, and the journal's own clock fields.

A path that no rule names is critical: a field that nobody thought of may not slip through (turn-replay.md, Leaves).
The longest matching rule decides; `*` stands for one step. A caller may put rules of its own before these.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    Severity = Literal["critical", "major", "minor", "informational"]

SEVERITIES: tuple[Severity, ...] = ("critical", "major", "minor", "informational")
BREAKING: frozenset[Severity] = frozenset(("critical", "major"))  # with one of these, a replay is not equivalent

RULES: Mapping[str, Severity] = {
    "/effects/*/answer": "major",
    "/effects/*/answer/headers": "minor",
    "/effects/*/answer/latencyMs": "informational",
    "/effects/*/notes": "minor",
    "/effects/*/latencyMs": "informational",
    "/effects/order": "informational",
    "/outcome/stderr": "informational",
    "/outcome/totalLatencyMs": "informational",
    "/inputs": "minor",
    "/drift": "informational",
    "/timestamp": "informational",
    "/turn_cost_ms": "informational",
    "/journal_digest": "informational",
}


def severity_of(path: str, *, rules: Mapping[str, Severity] = RULES) -> Severity:
    """Return the severity of a difference at this RFC 6901 pointer."""
    steps = path.split("/")[1:]
    best, length = SEVERITIES[0], 0
    for pattern, severity in rules.items():
        wanted = pattern.split("/")[1:]
        if len(wanted) > length and _begins(steps, wanted):
            best, length = severity, len(wanted)
    return best


def weight(severity: Severity) -> int:
    """Return a number by which to sort, the most severe first."""
    return SEVERITIES.index(severity)


def _begins(steps: list[str], wanted: list[str]) -> bool:
    if len(steps) < len(wanted):
        return False
    return all(pattern in ("*", step) for step, pattern in zip(steps, wanted, strict=False))

"""Severity: what decides a replay is critical, and so is everything that nobody listed."""

from __future__ import annotations

import pytest

from tachograph.comparison.severity import BREAKING, RULES, SEVERITIES, severity_of, weight


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("/outcome/stdout", "critical"), ("/outcome/exitCode", "critical"), ("/outcome/filesWritten/a.txt", "critical"),
        ("/effects/3", "critical"), ("/effects/3/body/messages/0/content", "critical"), ("/effects/+2", "critical"),
        ("/effects/3/answer/status", "major"), ("/effects/3/answer/headers/date", "minor"),
        ("/effects/3/notes", "minor"), ("/inputs/codeVersion", "minor"), ("/outcome/stderr", "informational"),
        ("/effects/order", "informational"), ("/drift/0", "informational"), ("/timestamp", "informational"),
        ("/turn_cost_ms/inner", "informational"), ("/journal_digest", "informational"),
        ("/timestamps", "critical"), ("/a/timestamp", "critical"), ("", "critical"), ("/never/heard/of", "critical"),
    ],
)  # fmt: skip
def test_a_path_has_the_severity_of_its_longest_rule(path: str, severity: str) -> None:
    assert severity_of(path) == severity


def test_only_critical_and_major_break_a_replay() -> None:
    assert [severity for severity in SEVERITIES if severity in BREAKING] == ["critical", "major"]
    assert [weight(severity) for severity in SEVERITIES] == [0, 1, 2, 3]


def test_a_caller_may_add_rules_of_its_own() -> None:
    assert severity_of("/mood", rules={**RULES, "/mood": "minor"}) == "minor"
    assert severity_of("/a/b", rules={"/a/b": "minor", "/a": "major"}) == "minor"

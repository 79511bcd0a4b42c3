"""Sleeps and time-outs through the command line: the same result, and none is waited for."""

from __future__ import annotations

from pathlib import Path

from tests.gauntlet.harness import different, record, replay, same, tacho


def test_a_program_that_sleeps_replays_without_waiting(tmp_path: Path) -> None:
    recorded = record(tmp_path, "naps.py", seconds=1.0)
    replayed = replay(recorded)
    same(recorded, replayed)
    timeline = recorded.shown()["timeline"]
    slept = max(one["startedMs"] + one["durationMs"] for one in timeline if one["durationMs"] is not None)
    assert slept > 4000
    assert replayed["timings"]["totalMs"] < slept / 2
    assert "slept 1 s at programs/naps.py:nap" in [one["summary"] for one in timeline]
    assert b"gave up" in recorded.stdout


def test_another_duration_is_the_first_difference(tmp_path: Path) -> None:
    recorded = record(tmp_path, "naps.py", seconds=0.1)
    words = list(recorded.command)
    words[-1] = words[-1].replace("0.1", "0.2")
    first = different(replay(recorded, "--", *words))
    assert first["path"].endswith("/seconds")
    assert tacho(recorded.world, "show", "last", "--effect", "1").exit_code == 0

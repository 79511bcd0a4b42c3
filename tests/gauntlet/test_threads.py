"""Work handed to threads, executors and loops: each call gets its own answer again, in the recorded order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.testing.scripted import Request, ScriptedServer, plain
from tests.gauntlet.harness import record, replay


def _back(request: Request) -> object:
    return plain(b"answer to " + request.body)


def _twice(folder: Path, way: str) -> None:
    with ScriptedServer(_back) as server:
        recorded = record(folder, "crowds.py", url=server.url, way=way)
        assert recorded.exit_code == 0, recorded
        again = replay(recorded, server=server)
    assert again["equivalent"] is True, again.answer
    assert again.stdout == recorded.stdout.decode()
    assert (again["liveEffects"], again["misses"], again["unconsumed"]) == (0, [], [])


@pytest.mark.parametrize("way", ["pool", "threads", "nested", "tasks", "daemon"])
def test_work_that_is_handed_on_is_recorded_and_replays(tmp_path: Path, way: str) -> None:
    _twice(tmp_path, way)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", ["pool", "threads", "nested", "tasks"])
def test_twenty_times_over(tmp_path: Path, way: str) -> None:
    for turn in range(20):
        (tmp_path / str(turn)).mkdir()
        _twice(tmp_path / str(turn), way)

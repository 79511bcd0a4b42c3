"""Several decisions in one run: each is sealed by itself, holds what is its own, is replayed and judged by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, record, tacho, world_in

NAMES = ["anna", "bob", "cleo"]
MODES = pytest.mark.parametrize("mode", ["sequence", "nested", "threads", "tasks", "outliving"])


def listed(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """The run's decisions by their agent's name."""
    rows = tacho(recorded.world, "ls", "--json").json()
    assert {row["runId"] for row in rows} == {rows[0]["runId"]}
    return {row["agentId"]: row for row in rows}


def replayed(recorded: Recorded, decision: str, server: ScriptedServer) -> dict[str, Any]:
    """Replay one decision by its id; nothing may go live."""
    before = server.hits, server.connections
    ran = tacho(recorded.world, "replay", decision, "--json")
    assert (server.hits, server.connections) == before, "a replay went live"
    answer = ran.json()
    assert ran.exit_code == (0 if answer["equivalent"] else 1), ran
    assert answer["decisionId"] == decision
    return dict(answer)


def own(recorded: Recorded, decision: str) -> list[str]:
    """What a decision's own HTTP calls asked, by the library."""
    shown = tacho(recorded.world, "show", decision, "--json").json()
    calls = [one for one in shown["timeline"] if one["kind"] in ("http", "model")]
    asked = []
    for one in calls:
        words = ("show", decision, "--bytes", str(one["effect"]), "--request")
        asked.append(tacho(recorded.world, *words).stdout.decode())
    return asked


@MODES
def test_each_decision_holds_its_own_effects_and_replays(tmp_path: Path, mode: str) -> None:
    with ScriptedServer(echo) as model:
        recorded = record(tmp_path, "decides.py", mode=mode, library="httpx", url=model.url, names=NAMES)
        assert recorded.exit_code == 0, recorded
        rows = listed(recorded)
        assert sorted(rows) == NAMES
        each = {"sequence": 3, "nested": 3, "threads": 3, "tasks": 4, "outliving": 3}[mode]
        for name, row in rows.items():
            asked = own(recorded, row["decisionId"])
            assert len(asked) == each, (name, asked)
            assert [other for other in NAMES if other != name and any(other in text for text in asked)] == []
            answer = replayed(recorded, row["decisionId"], model)
            drift = [one for one in answer["drift"] if one["kind"] != "order"]  # a loaded machine may give an order up
            assert (answer["equivalent"], answer["divergences"], drift) == (True, [], []), answer


@MODES
def test_only_the_decision_that_asks_otherwise_differs(tmp_path: Path, mode: str) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = record(tmp_path, "decides.py", mode=mode, library="httpx2", url=model.url, names=NAMES)
        rows = listed(recorded)
        world.edit("cleo.txt", "good evening")
        verdicts = {name: replayed(recorded, row["decisionId"], model) for name, row in rows.items()}
    assert verdicts["cleo"]["equivalent"] is False
    first = verdicts["cleo"]["divergences"][0]
    assert "good evening" in str(first["replay"])
    assert verdicts["bob"]["equivalent"] is True or mode in ("threads", "tasks", "outliving"), verdicts["bob"]
    if verdicts["anna"]["equivalent"]:
        assert any("outside this decision" in note for note in verdicts["anna"]["notes"])

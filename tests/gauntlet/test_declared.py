"""The API in code: what a program declares comes from the record, its inputs matched, its functions not called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, different, record, replay, same, tacho, world_in
from tests.gauntlet.test_calls import own_and_sdk

BOTH = pytest.mark.parametrize("mode", ["sync", "async"])


def executed(recorded: Recorded) -> list[str]:
    """Which functions really ran so far."""
    return (recorded.world.work / "executed.txt").read_text().split()


@own_and_sdk
def test_declared_effects_are_served_and_their_functions_not_called(tmp_path: Path, library: str, mode: str) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "declared.py", library=library, mode=mode, url=server.url)
        assert recorded.exit_code == 0, recorded
        ran = executed(recorded)
        assert {"policies", "load_order", "refuses", "rate"} <= set(ran)
        same(recorded, replay(recorded, server=server))
    assert executed(recorded) == ran
    shown = recorded.shown()
    kinds = [one["kind"] for one in shown["timeline"] if one["kind"] != "subprocess"]
    assert kinds == ["retrieval", "tool", *(["tool"] if mode == "async" else []), "external", "tool", "model"]
    row = shown["decision"]
    assert (row["agentId"], row["stopReason"], row["failed"]) == ("refunds", "end_turn", False)
    assert shown["output"].startswith("re: May I return the kettle?")


@BOTH
def test_an_edited_input_is_a_miss_at_that_leaf(tmp_path: Path, mode: str) -> None:
    world = world_in(tmp_path)
    world.edit("question.txt", "May I return the kettle?")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "declared.py", library="httpx", mode=mode, url=server.url)
        ran = executed(recorded)
        world.edit("question.txt", "May I return the toaster?")
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/1/inputs/question")
    assert (first["original"], first["replay"]) == ("May I return the kettle?", "May I return the toaster?")
    assert executed(recorded) == ran
    assert "14 days" not in replayed.stdout


@BOTH
def test_r11_a_renamed_tool_never_gets_the_result_of_the_old_one(tmp_path: Path, mode: str) -> None:
    world = world_in(tmp_path)
    world.edit("tool.txt", "load_order")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "declared.py", library="httpx", mode=mode, url=server.url)
        ran = executed(recorded)
        world.edit("tool.txt", "queue_charge")
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/2/name")
    suffix = "_async" if mode == "async" else ""
    assert (first["original"], first["replay"]) == ("load_order" + suffix, "queue_charge" + suffix)
    assert replayed["misses"][0]["call"]["endpoint"] == "queue_charge" + suffix
    assert "12.50" not in replayed.stdout
    assert executed(recorded) == ran


def test_r13_a_step_that_the_program_no_longer_takes_is_named_as_never_asked_for(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("again.txt", "2")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "declared.py", library="httpx", mode="async", url=server.url)
        same(recorded, replay(recorded, server=server))
        world.edit("again.txt", "1")
        replayed = replay(recorded, server=server)
    different(replayed)
    assert {one["kind"] for one in replayed["unconsumed"]} == {"tool"}
    assert len(replayed["unconsumed"]) == 2


def test_a_failed_decision_is_listed_as_failed_and_replays_as_failed(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit(
        "fails.py",
        "import tachograph\n"
        "with tachograph.decision(agent='refunds') as decided:\n"
        "    decided.output('paid', stop_reason='end_turn')\n"
        "    decided.fail('paid twice')\n",
    )
    recorded = record(tmp_path, "fails.py")
    same(recorded, replay(recorded))
    (row,) = tacho(world, "ls", "--json", "--failed").json()
    assert (row["failed"], row["agentId"], row["failure"]) == (True, "refunds", "declared")


@BOTH
def test_an_agent_function_is_a_decision_whose_result_is_compared(tmp_path: Path, mode: str) -> None:
    world = world_in(tmp_path)
    source = (
        "import asyncio, tachograph\nfrom pathlib import Path\n"
        "@tachograph.agent(name='weather')\n"
        f"{'async ' if mode == 'async' else ''}def tell(place):\n"
        "    return Path(__file__).with_name('word.txt').read_text() + place\n"
        f"{'asyncio.run(tell(chr(68)))' if mode == 'async' else 'tell(chr(68))'}\n"
    )
    world.edit("weather.py", source)
    world.edit("word.txt", "calm at ")
    recorded = record(tmp_path, "weather.py")
    assert recorded.exit_code == 0, recorded
    same(recorded, replay(recorded))
    assert recorded.shown()["output"] == "calm at D"
    world.edit("word.txt", "gale at ")
    replayed = replay(recorded)
    first = different(replayed)
    assert first["path"].startswith("/decisions/1/output")
    assert ("calm" in str(first["original"]), "gale" in str(first["replay"])) == (True, True)


def test_declared_functions_are_plain_functions_where_nothing_records(tmp_path: Path) -> None:
    """Without `tacho run` the same program gives the same line."""
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "declared.py", library="httpx", mode="sync", url=server.url)
        bare = subprocess.run(recorded.command, cwd=recorded.world.work, capture_output=True, check=True, timeout=30)
    assert bare.stdout.replace(b" False\n", b" True\n") == recorded.stdout  # a decision has an id where it is recorded

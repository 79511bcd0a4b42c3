"""A program that serves HTTP itself: calls to its own server stay inside, and what a handler does is answered."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import different, record, replay, same, world_in

SERVERS = pytest.mark.parametrize("server", ["threads", "asyncio", "uvloop"])
QUESTIONS = ["What is owed?", "By whom?", "Since when?"]


@SERVERS
def test_a_program_that_calls_its_own_server_replays_with_its_handlers_running_again(
    tmp_path: Path, server: str
) -> None:
    with ScriptedServer(echo) as model:
        recorded = record(tmp_path, "serves.py", server=server, library="httpx", url=model.url, questions=QUESTIONS)
        assert recorded.exit_code == 0, recorded
        asked = model.hits
        replayed = replay(recorded, server=model)
    same(recorded, replayed)
    polled = [one for one in replayed["drift"] if one["kind"] == "timer"]  # how often it looks whether it serves
    assert replayed["drift"] == polled, repr(replayed["drift"])
    calls = [one["summary"] for one in recorded.shown()["timeline"] if one["kind"] != "sleep"]
    own = 1 if server == "threads" else 0  # after it was closed, its port is nobody's
    assert (asked, len(calls)) == (4, 4 + own)
    assert recorded.shown()["coverage"]["bypassed"] == []


def test_a_handler_that_asks_otherwise_differs_at_the_model_call(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = record(
            tmp_path, "serves.py", server="threads", library="httpx2", url=model.url, questions=QUESTIONS[:1]
        )
        world.edit("system.txt", "You are wordy.")
        replayed = replay(recorded, server=model)
    different(replayed, at="/effects/1/request/body/messages/0/content")


def test_a_port_that_is_taken_here_is_told_and_what_the_program_prints_of_it_differs(tmp_path: Path) -> None:
    with ScriptedServer(echo) as model:
        recorded = record(
            tmp_path, "serves.py", server="threads", library="httpx", url=model.url, questions=QUESTIONS[:1]
        )
        port = int(recorded.stdout.split()[1])
        with socket.create_server(("127.0.0.1", port)):
            replayed = replay(recorded, server=model)
    if replayed["confinement"]["network"] == "python":  # a network of its own has all ports free
        different(replayed)
        assert "/outcome/stdout/lines/0" in [one["path"] for one in replayed["divergences"]]
        (drift,) = replayed["drift"]
        assert (drift["kind"], f"the recorded {port} is taken here" in drift["what"]) == ("socket.bind", True)


@pytest.mark.parametrize(
    ("way", "start", "asking"),
    [("manager", "fork", "p5"), ("manager", "spawn", "p5"), ("child", "", "p1"), ("parent", "", "t1")],
)
def test_what_one_process_of_the_run_serves_another_stays_inside_and_is_served_again(
    tmp_path: Path, way: str, start: str, asking: str
) -> None:
    with ScriptedServer(echo) as model:
        recorded = record(
            tmp_path, "apart.py", way=way, start=start, library="httpx", url=model.url, questions=QUESTIONS
        )
        assert recorded.exit_code == 0, recorded
        asked, shown = model.hits, recorded.shown()
        replayed = replay(recorded, server=model)
    same(recorded, replayed)
    assert shown["coverage"]["bypassed"] == []
    assert list((recorded.world.store / "spool").iterdir()) == [], "what processes told each other stays behind"
    calls = [one["path"] for one in recorded.calls()]
    assert (asked, len(calls)) == (3, 4 if way == "child" else 3)  # what has closed is nobody's
    assert {path.split("/")[1][:2] for path in calls[:3]} == {asking}

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

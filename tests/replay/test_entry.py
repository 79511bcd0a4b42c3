"""A decision of a long-lived server is replayed alone: its agent function is called again, and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, World, record, tacho, wait_for, world_in

ASKED = ["What is owed?", "By whom?", "Since when, and why?"]
KINDS = pytest.mark.parametrize("server", ["threads", "asyncio"])


def over_http(port: int, path: str = "/ask") -> list[str]:
    """Ask on one connection that is kept alive, as a stranger would."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    answers = []
    for asked in ASKED if path == "/ask" else ["raw bytes"]:
        connection.request("POST", path, asked)
        answers.append(connection.getresponse().read().decode())
    connection.close()
    return answers


def over_lines(port: int) -> list[str]:
    """Ask on three connections that are open at once, each twice over."""
    each = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in ASKED]
    files = [one.makefile("rwb") for one in each]
    for file, asked in zip(files, ASKED, strict=True):
        file.write(asked.encode() + b"\n" + asked[::-1].encode() + b"\n")
        file.flush()
    answers = [file.readline().decode() + file.readline().decode() for file in files]
    for file, one in zip(files, each, strict=True):
        file.close()
        one.close()
    return answers


def served(
    folder: Path, model: ScriptedServer, server: str, *, stop: int = signal.SIGTERM,
    ask: Callable[[int], list[str]] | None = None,
) -> Recorded:  # fmt: skip
    """Record a server that is asked by strangers and then stopped with a signal."""
    asking = ask or {"threads": over_http, "asyncio": over_lines}[server]

    def during(world: World) -> None:
        assert wait_for(world.work / "serving.json")
        said = json.loads((world.work / "serving.json").read_text())
        assert all(asking(said["port"]))
        os.kill(said["pid"], stop)

    return record(folder, "counsels.py", during=during, server=server, library="httpx", url=model.url)


def rows(recorded: Recorded) -> list[dict[str, Any]]:
    """The decisions, oldest first."""
    return list(reversed(tacho(recorded.world, "ls", "--json").json()))


def replayed(recorded: Recorded, decision: str, *options: str) -> dict[str, Any]:
    ran = tacho(recorded.world, "replay", decision, "--json", *options)
    assert ran.exit_code in (0, 1), ran
    return dict(ran.json())


def drift_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """What drifted, but for an order given up under load, and for imports: another comes first alone."""
    return [one for one in answer["drift"] if one["kind"] != "order" and not one["site"].endswith(":<module>")]


@KINDS
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_each_decision_of_a_stopped_server_replays_alone(tmp_path: Path, server: str, stop: int) -> None:
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, server, stop=stop)
        hits, executed = model.hits, (recorded.world.work / "executed.txt").read_text()
        found = rows(recorded)
        assert len(found) == {"threads": 3, "asyncio": 6}[server]
        for row in found[:2] + found[-1:]:
            answer = replayed(recorded, row["decisionId"])
            assert (answer["equivalent"], answer["divergences"], answer["misses"]) == (True, [], []), answer
            assert (drift_of(answer), answer["unconsumed"], answer["attempts"]) == ([], [], []), answer
            assert answer["served"] == row["effects"] == {"threads": 3, "asyncio": 4}[server]
            function = "counsel_async" if server == "asyncio" else "counsel"
            assert f"replayed alone: __main__:{function} was called again" in " ".join(answer["notes"])
            assert answer["outcome"]["exitCode"] == 0
        assert model.hits == hits
        assert (recorded.world.work / "executed.txt").read_text() == executed


@KINDS
def test_a_function_that_asks_otherwise_differs_there(tmp_path: Path, server: str) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, server)
        world.edit("ask.txt", "kindly")
        answer = replayed(recorded, rows(recorded)[1]["decisionId"])
    assert answer["equivalent"] is False
    first = answer["divergences"][0]
    assert (str(first["original"])[:6], str(first["replay"])[:6]) == ("please", "kindly")


def test_a_function_that_is_not_there_any_more_is_no_replay_of_it(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads")
        source = (world.programs / "counsels.py").read_text()
        world.edit("counsels.py", source.replace("def counsel(", "def advise("))
        answer = replayed(recorded, rows(recorded)[0]["decisionId"])
    assert answer["equivalent"] is False
    assert answer["outcome"]["exitCode"] == 2
    assert "counsel" in answer["outcome"]["stderr"]
    assert len(answer["unconsumed"]) == 3


def ahead(port: int) -> list[str]:
    """Ask twice in one breath, so that neither request can be told from the other's handling."""
    asking = b"POST /raw HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbyte"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(2 * asking)
        got = ""
        while got.count("\r\n\r\n4") < 2:
            got += client.recv(4096).decode()
    return [got]


def test_a_decision_that_cannot_be_called_again_says_why(tmp_path: Path) -> None:
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads", ask=ahead)
    for row in rows(recorded):
        ran = tacho(recorded.world, "replay", row["decisionId"], "--alone", "--json")
        assert ran.exit_code == 3
        said = ran.json()["error"]
        assert said["reason"] == "no_entry_point"
        assert "its argument 0 (bytes) is no JSON value; nor can its inbound request be sent again" in said["message"]


def test_a_decision_that_cannot_be_called_again_is_entered_by_its_inbound_request(tmp_path: Path) -> None:
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads", ask=lambda port: over_http(port, "/raw"))
    (row,) = rows(recorded)
    answer = replayed(recorded, row["decisionId"])
    assert (answer["equivalent"], answer["divergences"]) == (True, []), answer
    assert "sent the recorded request POST /raw" in " ".join(answer["notes"])


def test_of_a_program_that_ended_by_itself_one_decision_replays_alone_where_that_is_asked_for(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit(
        "helps.py", "import uuid, tachograph\n@tachograph.agent\ndef help(who):\n    return f'{who} {uuid.uuid4()}'\n"
    )
    world.edit("asks.py", "import helps, uuid\nuuid.uuid4()\nprint(helps.help('anna'), helps.help(who='bob'))\n")
    recorded = record(tmp_path, "asks.py")
    first, second = rows(recorded)
    assert not any("alone" in note for note in replayed(recorded, second["decisionId"])["notes"])
    world.edit("asks.py", "raise SystemExit('not run')\n")
    for row in (first, second):
        answer = replayed(recorded, row["decisionId"], "--alone")
        assert (answer["equivalent"], drift_of(answer)) == (True, []), answer
        assert any("replayed alone: helps:help" in note for note in answer["notes"])

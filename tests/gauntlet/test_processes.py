"""Processes that the program starts past `subprocess`: seen, or counted as bypassed, and never live in a replay."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tachograph.testing.scripted import Request, ScriptedServer, plain
from tests.gauntlet.harness import World, record, replay, same, tacho, world_in


def _back(request: Request) -> object:
    return plain(request.body)


def _record(tmp_path: Path, server: ScriptedServer, how: str) -> tuple[World, bytes]:
    world = world_in(tmp_path)
    command = [sys.executable, str(world.programs / "spawning.py"), server.url, how]
    ran = tacho(world, "run", "--", *command)
    assert ran.exit_code == 0, ran
    return world, ran.stdout


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes_is_recorded_and_runs_again(tmp_path: Path, how: str) -> None:
    with ScriptedServer(_back) as server:
        world, out = _record(tmp_path, server, how)
        recorded_hits = server.hits
        shown = tacho(world, "show", "last", "--json").json()
        answer = tacho(world, "replay", "last", "--json")
        assert server.hits == recorded_hits == 3
    assert shown["coverage"]["bypassed"] == []
    assert {one["path"] for one in shown["timeline"]} == {"0/e1/e1", "0/e1/e2", "0/e1/e3"}
    assert (answer.exit_code, answer.json()["equivalent"]) == (0, True), answer
    assert answer.json()["outcome"]["stdout"] == out.decode()
    assert (answer.json()["liveEffects"], answer.json()["attempts"]) == (0, [])


@pytest.mark.parametrize(
    ("start", "way", "times"),
    [
        ("fork", "executor", 10),
        ("spawn", "executor", 1),
        ("forkserver", "executor", 1),
        ("fork", "pool", 1),
        ("spawn", "pool", 1),
        ("forkserver", "pool", 1),
        ("threads", "pool", 1),
    ],
)
def test_items_of_a_pool_keep_their_paths_whichever_worker_takes_them(
    tmp_path: Path, start: str, way: str, times: int
) -> None:
    with ScriptedServer(_back) as server:
        recorded = record(tmp_path, "pooled.py", url=server.url, start=start, way=way)
        assert recorded.exit_code == 0, recorded
        assert {one["path"].split("/")[-1][:1] for one in recorded.calls()} == {"e"}
        for _ in range(times):
            again = replay(recorded, server=server)
            same(recorded, again)
            assert [one for one in again["notes"] if "task path" in one] == []
            assert [one for one in again["drift"] if one["kind"] != "order"] == []


@pytest.mark.parametrize("way", ["exit", "killed"])
def test_a_pool_whose_worker_dies_is_reported_and_hangs_in_no_replay(tmp_path: Path, way: str) -> None:
    with ScriptedServer(_back) as server:
        recorded = record(tmp_path, "dies.py", url=server.url, way=way)
        assert (recorded.exit_code, recorded.stdout) == (0, b"['1', 'broken', '2']\n"), recorded
        shown = recorded.shown()
        again = replay(recorded, server=server)
    assert any("no last frame" in word for word in shown["coverage"]["tails"])
    assert again["equivalent"] is True, again.answer
    assert again.stdout == recorded.stdout.decode()


def test_children_are_seen_or_counted_or_played_and_never_live(tmp_path: Path) -> None:
    with ScriptedServer(_back) as server:
        recorded = record(tmp_path, "dies.py", url=server.url, way="children")
        assert recorded.exit_code == 0, recorded
        bypassed = recorded.shown()["coverage"]["bypassed"]
        again = replay(recorded, server=server)
    assert [one["what"] for one in bypassed] == ["subprocess.python"] * 2, "-I and -S"
    assert again["equivalent"] is True, again.answer
    assert again.stdout == recorded.stdout.decode()
    assert (again["liveEffects"], again["attempts"]) == (0, [])


CLOSED = """
import os, sys, urllib.request
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
before = [is_open(number) for number in range(3)]
import httpx
httpx.post(sys.argv[1], content=b"x")
with open(sys.argv[2], "w") as out:
    print(before, [is_open(number) for number in range(3)], file=out)
"""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_a_standard_stream_that_was_closed_stays_closed(tmp_path: Path, closed: tuple[int, ...]) -> None:
    world, said = world_in(tmp_path), tmp_path / "said"
    (world.programs / "closed.py").write_text(CLOSED)
    redirected = " ".join(f"{number}>&-" for number in closed)

    def started(*before: str) -> str:
        words = shlex.join([*before, sys.executable, str(world.programs / "closed.py"), server.url, str(said)])
        subprocess.run(["sh", "-c", f"{words} {redirected}"], check=True, env=world.environment(), cwd=world.work)
        return said.read_text()

    with ScriptedServer(_back) as server:
        plainly = started()
        recorded = started(sys.executable, "-m", "tachograph", "run", "--")
        hits = server.hits
        answer = tacho(world, "replay", "last", "--json").json()
    assert recorded == plainly == f"{[number not in closed for number in range(3)]!s} {plainly.split('] ')[1]}"
    assert (answer["liveEffects"], server.hits) == (0, hits)


def test_a_program_that_cannot_load_the_replay_does_not_run(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("asks.py", "import sys, httpx\nprint(httpx.post(sys.argv[1], content=b'x').text)\n")
    (tmp_path / "lib").mkdir()
    with ScriptedServer(_back) as server:
        words = (sys.executable, str(world.programs / "asks.py"), server.url)
        assert tacho(world, "run", "--", *words, env={"PYTHONPATH": str(tmp_path / "lib")}).exit_code == 0
        (tmp_path / "lib" / "mmap.py").write_text("raise ImportError('not here')\n")
        answer = tacho(world, "replay", "last", "--json", "--confinement", "python")
        assert server.hits == 1, "it ran without anybody to hold it"
    assert answer.exit_code == 1
    said = answer.json()
    assert (said["equivalent"], said["outcome"]["exitCode"]) == (False, 127)
    assert "cannot watch" in said["outcome"]["stderr"]
    assert any(one["path"] == "/replay/started" for one in said["divergences"])

"""Decisions of a program that still runs: listed, shown and kept as they are when it has ended."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tachograph.store.entry import STATEMENT
from tachograph.store.journal import Journal
from tachograph.testing.scripted import Request, ScriptedServer, plain
from tests.gauntlet.harness import World, tacho, world_in

# Answers each line: `NAME` opens a decision with a call in it; `late NAME` leaves a thread that calls on after its end.
SERVER = """
import sys, threading, time
import httpx, tachograph
gate = threading.Event()
def later(name):
    gate.wait(60)
    httpx.post(sys.argv[1], content=f"late {name}")
for line in sys.stdin:
    word, _, name = line.strip().rpartition(" ")
    if name == "gate":
        gate.set()
        time.sleep(0.5)
    elif word == "outside":
        httpx.post(sys.argv[1], content=f"outside {name}")
    else:
        with tachograph.decision(agent="server", user=name, request=f"asked {name}") as d:
            d.output(httpx.post(sys.argv[1], content=name).text)
            if word == "late":
                threading.Thread(target=later, args=(name,)).start()
    print("did", line.strip(), flush=True)
"""


def _back(request: Request) -> object:
    return plain(b"answer to " + request.body)


class Running:
    """A program under capture that does what it is told, line by line."""

    def __init__(self, world: World, process: subprocess.Popen[str]) -> None:
        self.world = world
        self._in: IO[str] = process.stdin  # type: ignore[assignment]
        self._out: IO[str] = process.stdout  # type: ignore[assignment]

    def do(self, line: str) -> None:
        self._in.write(line + "\n")
        self._in.flush()
        assert self._out.readline() == f"did {line}\n"

    def titles(self) -> list[str]:
        return sorted(row["title"] for row in tacho(self.world, "ls", "--json").json())


@contextmanager
def running(tmp_path: Path, server: ScriptedServer) -> Iterator[Running]:
    world = world_in(tmp_path)
    (world.programs / "server.py").write_text(SERVER)
    words = [sys.executable, "-m", "tachograph", "run", "--", sys.executable, str(world.programs / "server.py")]
    process = subprocess.Popen(
        [*words, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=world.work,
        env=world.environment(),
    )  # fmt: skip
    killer = threading.Timer(60, process.kill)
    killer.start()
    try:
        yield Running(world, process)
        process.stdin.close()  # type: ignore[union-attr]
        assert process.wait() == 0
    finally:
        killer.cancel()
        process.kill()
        process.wait()


def shown(world: World, name: str) -> dict[str, Any]:
    rows = tacho(world, "ls", "--json").json()
    (row,) = [row for row in rows if row["title"] == f"asked {name}"]
    return dict(tacho(world, "show", row["decisionId"], "--json").json())


def calls(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(one["effect"], one["summary"]) for one in answer["timeline"] if one["kind"] == "http"]


def test_a_decision_is_there_as_soon_as_it_has_ended_and_stays_what_it_was(tmp_path: Path) -> None:
    with ScriptedServer(_back) as server:
        with running(tmp_path, server) as program:
            program.do("one")
            assert program.titles() == ["asked one"]
            before = shown(program.world, "one")
            assert before["output"] == "answer to one"
            program.do("outside here")
            program.do("two")
            program.do("three")
            assert program.titles() == ["asked one", "asked three", "asked two"]
            meanwhile = {name: shown(program.world, name) for name in ("one", "two", "three")}
            program.do("four")
        after = {name: shown(program.world, name) for name in ("one", "two", "three", "four")}
    assert [calls(after[name])[0][0] for name in after] == [1, 3, 4, 5]
    for name, answer in meanwhile.items():
        assert calls(answer) == calls(after[name])
        assert answer["output"] == after[name]["output"] == f"answer to {name}"
    assert calls(before) == calls(after["one"])
    # The first record of each batch says how far it had read: without it a torn batch would be numbered anew.
    records = Journal(str(program.world.store / "journal")).records()
    entries = [record.entry for record in records if record.entry.kind != STATEMENT]
    assert [bool(entry.sources) for entry in entries] == [True, True, False, True, True]
    assert program.titles() == ["asked four", "asked one", "asked three", "asked two"]


def test_what_a_decision_does_after_it_was_sealed_is_kept_with_it(tmp_path: Path) -> None:
    with ScriptedServer(_back) as server:
        with running(tmp_path, server) as program:
            program.do("late one")
            program.do("two")
            assert program.titles() == ["asked one", "asked two"]
            assert len(calls(shown(program.world, "one"))) == 1
            program.do("gate")
        first, second = (number for number, _ in calls(shown(program.world, "one")))
        assert first == 1 < 2 < second  # a wait that ran out may stand between them
        assert [number for number, _ in calls(shown(program.world, "two"))] == [2]
        listed = tacho(program.world, "ls", "--json").json()
        assert tacho(program.world, "ls", "--json").json() == listed
        assert tacho(program.world, "doctor", "--json").exit_code == 0


def test_a_program_killed_after_a_part_was_sealed_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(_back) as server:
        (world.programs / "server.py").write_text(SERVER)
        words = [sys.executable, "-m", "tachograph", "run", "--", sys.executable, str(world.programs / "server.py")]
        process = subprocess.Popen(
            [*words, server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=world.work,
            env=world.environment(),
        )  # fmt: skip
        program = Running(world, process)
        program.do("one")
        assert program.titles() == ["asked one"]
        program.do("two")
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 30  # the program itself ends a moment after the command that started it
        while list((world.store / "spool").glob("*.spool")) and time.monotonic() < deadline:
            program.titles()
    assert not list((world.store / "spool").glob("*.spool"))
    assert program.titles() == ["asked one", "asked two"]
    assert [calls(shown(world, name))[0][0] for name in ("one", "two")] == [1, 2]

"""Sizes: memory is bounded by what is under way and not by what was recorded, and what is much replays as it was.

A small instance of each shape runs with every `make test`, the whole ones with `make torture`; `python -m bench sizes`
prints their numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.sizes import INTAKE_MB, World, answer, watched
from tachograph.testing.scripted import ScriptedServer
from tests.torture.harness import environment

ROOT = Path(__file__).parents[2]


def sealed(folder: Path, shape: str, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Record a shape and seal it, each in a process of its own; what both say of themselves."""
    folder.mkdir()
    env = environment(folder, {"XDG_CONFIG_HOME": str(folder / "config")})
    words = [sys.executable, "-m", "bench.spooled"]
    written = json.loads(watched([*words, "write", shape, str(count)], env, str(ROOT))[1])
    said = json.loads(watched([*words, "seal"], env, str(ROOT))[1])
    assert said["left"] == []
    return written, said


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A folder and a server for programs."""
    with ScriptedServer(answer) as server:
        yield World(str(tmp_path), server)


@pytest.mark.parametrize("shape", ["window", "unclosed"])
def test_sealing_four_times_the_calls_takes_about_the_same_memory(quick: Path, shape: str) -> None:
    (little, few), (much, many) = sealed(quick / "few", shape, 300), sealed(quick / "many", shape, 1200)
    assert few["sealed"] == many["sealed"] == 1
    assert many["peakMb"] - few["peakMb"] < (much["spoolMb"] - little["spoolMb"]) / 3


def test_many_decisions_of_many_sessions_are_sealed_in_turn(quick: Path) -> None:
    _, said = sealed(quick / "many", "many", 1000)
    assert said["sealed"] == 1000
    assert said["peakMb"] < INTAKE_MB


def test_a_large_body_is_in_memory_once_and_only_where_it_is_replayed(world: World) -> None:
    size = 64 << 20
    bare, recorded, replayed = world.thrice("body", size)
    assert recorded.program["peakMb"] - bare.program["peakMb"] < 24
    assert recorded.peak_mb < 110
    assert replayed.peak_mb < 140
    assert replayed.program["peakMb"] - bare.program["peakMb"] < 64 + 40  # its parts, and pages of the tape
    assert replayed.stdout == recorded.stdout


@pytest.mark.parametrize(("name", "count"), [("tasks", 200), ("threads", 200), ("processes", 8)])
def test_many_at_once_replay_as_they_were(world: World, name: str, count: int) -> None:
    bare, recorded, replayed = world.thrice(name, count)
    assert bare.stdout == recorded.stdout == replayed.stdout == f"{sum(range(count))}\n"


def test_a_program_of_many_calls_does_not_grow(world: World) -> None:
    bare, recorded, replayed = world.thrice("calls", 1000)
    assert recorded.program["peakMb"] - bare.program["peakMb"] < 24
    assert replayed.program["peakMb"] - bare.program["peakMb"] < 40


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", ["window", "fresh", "unclosed", "many"])
def test_ten_thousand_are_sealed_in_bounded_memory(tmp_path: Path, shape: str) -> None:
    _, said = sealed(tmp_path / shape, shape, 10_000)
    assert said["peakMb"] < INTAKE_MB


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "count"), [("calls", 10_000), ("tools", 10_000), ("body", 200 << 20), ("processes", 50)]
)
def test_the_whole_sizes_replay_in_bounded_memory(world: World, name: str, count: int) -> None:
    bare, recorded, replayed = world.thrice(name, count)
    assert recorded.program["peakMb"] - bare.program["peakMb"] < 24
    for peak in (recorded.peak_mb, replayed.peak_mb, replayed.program["peakMb"] - bare.program["peakMb"]):
        assert peak < INTAKE_MB

"""Row 12: what a program draws from clock and chance comes back, two recordings differ, and a new draw is drift."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import different, record, replay, same, world_in
from tests.gauntlet.test_calls import own_and_sdk

ADDED = ("    prompt = drawn()\n", "    time.time()\n    prompt = drawn()\n")


@own_and_sdk
def test_every_draw_comes_back_so_that_the_prompt_is_the_same(tmp_path: Path, library: str, mode: str) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "draws.py", library=library, mode=mode, url=server.url)
        assert (recorded.exit_code, server.hits) == (0, 1)
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    assert replayed["drift"] == []


def test_two_recordings_differ_in_every_draw(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        first, second = (
            record(tmp_path, "draws.py", library="httpx", mode="sync", url=server.url).stdout.decode().splitlines()
            for _ in range(2)
        )
    drawn = [line for line in first if ": " in line and not line.startswith("200")]
    assert len(drawn) == 16
    same_again = [line for line in drawn if line in second]
    assert same_again == []


def test_an_added_draw_stays_equivalent_and_is_noted_as_drift(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "draws.py", library="httpx", mode="sync", url=server.url)
        source = (recorded.world.programs / "draws.py").read_text()
        recorded.world.edit("draws.py", source.replace(*ADDED))
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    (drift,) = replayed["drift"]
    assert (drift["kind"], drift["what"], drift["count"]) == ("time.time", "not recorded", 1)
    assert drift["site"].endswith("draws.py:main")


def test_a_draw_that_is_gone_stays_equivalent_and_is_noted_as_drift(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    source = (world.programs / "draws.py").read_text()
    world.edit("draws.py", source.replace(*ADDED))
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "draws.py", library="httpx", mode="sync", url=server.url)
        world.edit("draws.py", source)
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    (drift,) = replayed["drift"]
    assert (drift["kind"], drift["what"]) == ("time.time", "not drawn again")


def test_r12_a_draw_added_elsewhere_leaves_a_later_identifier_as_it_was(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "identify.py", library="httpx", mode="sync", url=server.url)
        world.edit("extra.txt", "yes")
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    (drift,) = replayed["drift"]
    assert (drift["kind"], drift["site"].rpartition(":")[2]) == ("random.random", "main")


def test_r12_one_draw_more_at_one_place_is_named_and_what_it_changed_is_a_miss(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("count.txt", "2")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "identify.py", library="httpx", mode="sync", url=server.url)
        world.edit("count.txt", "3")
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/1/request/body/messages/1/content")
    (drift,) = replayed["drift"]
    assert (drift["kind"], drift["count"], drift["what"]) == ("random.random", 1, "not recorded")
    # only the weight moved: the identifier, drawn later, is the recorded one
    assert first["original"].split()[1] == first["replay"].split()[1]


@pytest.mark.parametrize("environment", [{}, {"PYTHONHASHSEED": "7"}], ids=["random", "given"])
def test_the_order_of_a_set_of_texts_is_the_recorded_one(tmp_path: Path, environment: dict[str, str]) -> None:
    world_in(tmp_path).edit("sets.py", "print(list({f'w{number}' for number in range(40)}))\n")
    recorded = record(tmp_path, "sets.py", env=environment)
    same(recorded, replay(recorded))

"""Rows 5 and 6: what differs is named at its leaf, and nothing that a program swallows is ever called identical."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, different, record, replay, same, tacho, world_in
from tests.gauntlet.test_calls import own_and_sdk

PROMPTS = ["tide?", "wind?"]


@pytest.mark.parametrize(("library", "mode"), [("httpx", "sync"), ("httpx2", "async"), ("openai", "async")])
def test_an_edited_system_prompt_is_named_with_both_texts_and_never_answered(
    tmp_path: Path, library: str, mode: str
) -> None:
    world_in(tmp_path).edit("system.txt", "You are a harbour master. Be brief.")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=PROMPTS)
        same(recorded, replay(recorded, server=server))
        recorded.world.edit("system.txt", "You are a harbour master. Be kind.")
        replayed = replay(recorded, server=server)
    first_call = recorded.calls()[0]["effect"]
    first = different(replayed, at=f"/effects/{first_call}/request/body/messages/0/content")
    assert (first["original"], first["replay"]) == (
        "You are a harbour master. Be brief.",
        "You are a harbour master. Be kind.",
    )
    assert first["effect"] == first_call
    assert first["consequence"] is False
    assert all(one["consequence"] for one in replayed["divergences"][1:])
    assert "re: " not in replayed.stdout  # the old answer was not given to the new question


def test_a_file_that_the_program_only_reads_is_named_where_it_changed(tmp_path: Path) -> None:
    world_in(tmp_path).edit("lines.txt", "end")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library="httpx", mode="sync", url=server.url, prompts=PROMPTS)
        recorded.world.edit("lines.txt", "End")
        replayed = replay(recorded, server=server)
    assert [one["path"] for one in replayed["inputsChanged"]] == [str(recorded.world.programs / "lines.txt")]


@own_and_sdk
def test_a_changed_version_header_is_another_question(tmp_path: Path, library: str, mode: str) -> None:
    world_in(tmp_path).edit("headers.json", json.dumps({"anthropic-version": "2023-06-01"}))
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=PROMPTS[:1])
        recorded.world.edit("headers.json", json.dumps({"anthropic-version": "2026-01-01"}))
        replayed = replay(recorded, server=server)
    call = recorded.calls()[0]["effect"]
    first = different(replayed, at=f"/effects/{call}/request/headers/anthropic-version")
    assert (first["original"], first["replay"]) == ("2023-06-01", "2026-01-01")
    (miss,) = replayed["misses"]
    assert miss["firstDifference"] == {
        "path": "/headers/anthropic-version", "recorded": "2023-06-01", "replayed": "2026-01-01",
    }  # fmt: skip
    assert (miss["call"]["method"], miss["call"]["endpoint"]) == ("POST", f"{server.url}/v1/chat/completions")
    assert "re: " not in replayed.stdout


def test_one_more_line_on_stdout_is_named_at_that_line(tmp_path: Path) -> None:
    world_in(tmp_path).edit("lines.txt", "end")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library="httpx", mode="sync", url=server.url, prompts=PROMPTS)
        recorded.world.edit("lines.txt", "end\nof all")
        replayed = replay(recorded, server=server)
        assert (replayed["misses"], replayed["unconsumed"]) == ([], [])
        first = different(replayed, at="/outcome/stdout/lines/3")
        assert (first["original"], first["replay"]) == ("", "of all")
        recorded.world.edit("lines.txt", "End")
        first = different(replay(recorded, server=server), at="/outcome/stdout/lines/2")
    assert (first["original"], first["replay"]) == ("end", "End")


def test_another_exit_status_is_a_difference(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("exits.py", "from pathlib import Path\nexit(int(Path(__file__).with_name('code').read_text()))\n")
    world.edit("code", "3")
    recorded = record(tmp_path, "exits.py")
    assert recorded.exit_code == 3
    same(recorded, replay(recorded))
    world.edit("code", "4")
    first = different(replay(recorded), at="/outcome/exitCode")
    assert (first["original"], first["replay"]) == (3, 4)


@own_and_sdk
def test_fewer_calls_than_recorded_are_named_as_never_asked_for(tmp_path: Path, library: str, mode: str) -> None:
    world_in(tmp_path).edit("prompts.json", json.dumps(["tide?", "wind?"]))
    with ScriptedServer(echo) as server:
        recorded = swallowing(tmp_path, server, library=library, how="except" if mode == "sync" else "gather")
        same(recorded, replay(recorded, server=server))
        recorded.world.edit("prompts.json", json.dumps(["tide?"]))
        replayed = replay(recorded, server=server)
    different(replayed)
    (left,) = replayed["unconsumed"]
    assert left["effect"] in [one["effect"] for one in recorded.calls()]
    assert "/v1/chat/completions" in left["summary"]
    assert replayed.stdout == recorded.stdout.decode()  # the program itself saw nothing amiss


@pytest.mark.parametrize(
    ("library", "how"), [("httpx", "except"), ("httpx2", "gather"), ("openai", "thread"), ("openai", "gather")]
)
def test_one_call_more_is_a_miss_though_the_program_swallows_it(tmp_path: Path, library: str, how: str) -> None:
    world_in(tmp_path).edit("prompts.json", json.dumps(["tide?"]))
    with ScriptedServer(echo) as server:
        recorded = swallowing(tmp_path, server, library=library, how=how)
        for prompts in (["tide?", "wind?"], ["tide?", "tide?"]):  # another question, and the same once more
            recorded.world.edit("prompts.json", json.dumps(prompts))
            replayed = replay(recorded, server=server)
            different(replayed)
            assert len(replayed["misses"]) == 1
            assert replayed["misses"][0]["call"]["endpoint"].endswith("/v1/chat/completions")
            assert replayed.stdout == "all went well\n"
            assert replayed["outcome"]["exitCode"] == 0


@pytest.mark.parametrize(("how", "said"), [("forever", "100 misses"), ("waits", "after its first miss")])
def test_a_program_that_swallows_a_miss_and_never_ends_is_ended(tmp_path: Path, how: str, said: str) -> None:
    world_in(tmp_path).edit("prompts.json", json.dumps(["tide?"]))
    with ScriptedServer(echo) as server:
        recorded = swallowing(tmp_path, server, library="httpx", how=how)
        recorded.world.edit("prompts.json", json.dumps(["wind?"]))
        replayed = replay(recorded, server=server)
    different(replayed)
    assert said in replayed["outcome"]["endedBy"]
    assert len(replayed["misses"]) >= 1
    assert len(replayed["unconsumed"]) == 1


def swallowing(tmp_path: Path, server: ScriptedServer, *, library: str, how: str) -> Recorded:
    """Record the program that says that all went well, whatever happens."""
    recorded = record(tmp_path, "swallow.py", library=library, url=server.url, how=how)
    assert recorded.stdout == b"all went well\n"
    return recorded


def test_the_text_for_a_person_says_where_and_both_sides_and_never_identical(tmp_path: Path) -> None:
    world_in(tmp_path).edit("system.txt", "Be brief.")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library="httpx2", mode="async", url=server.url, prompts=PROMPTS[:1])
        recorded.world.edit("system.txt", "Be kind.")
        ran = tacho(recorded.world, "replay", "last")
    text = ran.stdout.decode()
    assert ran.exit_code == 1
    assert text.startswith("NOT equivalent")
    assert "Be brief." in text
    assert "Be kind." in text
    assert "identical" not in text.lower()

"""Row 8: no credential of a header or query on disk or in `show`, no content readable at rest, exact bytes again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer, stream
from tests.gauntlet.answers import DONE, piece
from tests.gauntlet.harness import different, record, replay, same, tacho, wait_for, world_in
from tests.gauntlet.leaks import leaks

KEY = "sk-live-9QfW2vTzKp7LmXc4RbHs8NdJ"
WORDS = ("heliotrope", "amaranthine")  # what the question and the answer are about
CLIENTS = [("httpx", "sync"), ("httpx2", "async"), ("openai", "sync"), ("requests", "sync")]


@pytest.mark.parametrize(("library", "mode"), CLIENTS)
def test_a_key_in_header_query_body_and_answer_is_nowhere_on_disk_at_any_moment_and_not_in_show(
    tmp_path: Path, library: str, mode: str
) -> None:
    world = world_in(tmp_path)
    seen = world.work / "first"
    found: dict[str, list[str]] = {}

    def look(when: str) -> None:
        found[when] = leaks(world.files(), (KEY, *WORDS))

    def chunks() -> Iterator[bytes]:
        look("when the request had gone out")
        yield piece(f"your key is {KEY}")
        assert wait_for(seen)
        look("when the first chunk had come")
        yield piece("and the word is amaranthine") + DONE

    with ScriptedServer(lambda _: stream(chunks())) as server:
        recorded = record(
            tmp_path, "keyed.py", env={"GAUNTLET_API_KEY": KEY}, library=library, mode=mode, url=server.url,
            acknowledge=str(seen),
        )  # fmt: skip
        assert KEY.encode() in recorded.stdout
        sent = server.requests[0]
        assert (sent.header("authorization"), f"api_key={KEY}" in sent.query) == (f"Bearer {KEY}", True)
        look("afterwards")
        replayed = replay(recorded, server=server, env={"GAUNTLET_API_KEY": KEY})
        look("after a replay")
    assert {when: what for when, what in found.items() if what} == {}
    assert len(found) == 4
    same(recorded, replayed)  # the program got, and printed, the key that stood in the answer
    for words in (("show", "last"), ("show", "last", "--json"), ("ls", "--json"), *_details(recorded.calls())):
        ran = tacho(world, *words)
        assert ran.exit_code in (0, 3), ran  # 3: a view that is not built yet, and says so
        assert KEY.encode() not in ran.stdout + ran.stderr, words


def _details(calls: list[dict[str, object]]) -> list[tuple[str, ...]]:
    number = str(calls[0]["effect"])
    return [("show", "last", "--effect", number, "--json"), ("show", "last", "--bytes", number)]


@pytest.mark.parametrize(("library", "mode"), [("httpx", "async"), ("openai", "sync")])
def test_a_replay_without_the_key_and_from_another_folder_works(tmp_path: Path, library: str, mode: str) -> None:
    world = world_in(tmp_path)
    world.edit("body_key.txt", "no key at all")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with ScriptedServer([stream([piece("open"), DONE])]) as server:
        recorded = record(
            tmp_path, "keyed.py", env={"GAUNTLET_API_KEY": KEY}, library=library, mode=mode, url=server.url
        )
    kept = world.content()
    assert leaks(kept, ["no key at all"])  # the body is there, under the encryption; the key is nowhere
    assert leaks(kept, [KEY]) == []
    # the server is gone, the key is not set, the store is named by hand
    replayed = replay(recorded, "--store", str(world.store), cwd=elsewhere, without=("GAUNTLET_API_KEY", "TACHO_STORE"))
    same(recorded, replayed)
    assert any("GAUNTLET_API_KEY" in note for note in replayed["notes"])
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_r07_another_key_is_the_same_call_and_another_parameter_is_not(tmp_path: Path, library: str) -> None:
    world = world_in(tmp_path)
    world.edit("body_key.txt", "no key at all")
    with ScriptedServer([stream([piece("open"), DONE])]) as server:
        recorded = record(
            tmp_path, "keyed.py", env={"GAUNTLET_API_KEY": KEY}, library=library, mode="sync", url=server.url
        )
        same(recorded, replay(recorded, server=server, env={"GAUNTLET_API_KEY": "sk-live-another-key-of-today"}))
        world.edit("key.txt", "hf_today_it_is_one_of_another_shape")
        same(recorded, replay(recorded, server=server))
        before = world.files()
        text = (world.programs / "keyed.py").read_text()
        world.edit("keyed.py", text.replace('"page": "1"', '"page": "2"'))
        replayed = replay(recorded, server=server, env={"GAUNTLET_API_KEY": KEY})
    call = recorded.calls()[0]["effect"]
    first = different(replayed, at=f"/effects/{call}/request/url/query/page")
    assert (first["original"], first["replay"]) == ("1", "2")
    assert KEY not in str(replayed["misses"])
    changed = {file.name for file, data in world.files().items() if before.get(file) != data}
    assert {name for name in changed if not name.startswith("catalogue")} == set()  # nothing was appended


def test_cookies_that_a_server_sets_are_kept_from_the_disk_and_the_replay_says_what_stood_in(tmp_path: Path) -> None:
    cookie = "sid=Zk3vQ8mW5xT1pL9cB7nR"

    def answer(_: Request) -> Reply:
        return stream([piece("open"), DONE], headers={"set-cookie": f"{cookie}; Path=/; HttpOnly"})

    world = world_in(tmp_path)
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "keyed.py", env={"GAUNTLET_API_KEY": KEY}, library="httpx", mode="sync", url=server.url
        )
        replayed = replay(recorded, server=server, env={"GAUNTLET_API_KEY": KEY})
    same(recorded, replayed)
    assert leaks(world.files(), [cookie.partition("=")[2]]) == []
    assert any("set-cookie" in note for note in replayed["notes"])


def test_a_key_that_a_tool_and_a_started_program_were_given_is_not_in_show_either(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit(
        "hands_on.py",
        "import os, subprocess, sys, httpx2, tachograph\n"
        "key = os.environ['GAUNTLET_API_KEY']\n"
        "@tachograph.tool\n"
        "def login(key): return {'token': key}\n"
        "login(key)\n"
        "subprocess.run(['/bin/echo', key], stdout=subprocess.PIPE)\n"
        "httpx2.get(sys.argv[1] and eval(sys.argv[1])['url'], headers={'authorization': f'Bearer {key}'})\n",
    )
    with ScriptedServer([stream([piece("open"), DONE])]) as server:
        recorded = record(tmp_path, "hands_on.py", env={"GAUNTLET_API_KEY": KEY}, url=server.url)
        assert recorded.exit_code == 0, recorded
        same(recorded, replay(recorded, server=server, env={"GAUNTLET_API_KEY": KEY}))
    numbers = [str(one["effect"]) for one in recorded.shown()["timeline"]]
    assert len(numbers) == 3
    for words in (
        ("show", "last"),
        ("show", "last", "--json"),
        *(("show", "last", "--effect", n, "--json") for n in numbers),
    ):
        assert KEY.encode() not in tacho(world, *words).stdout, words

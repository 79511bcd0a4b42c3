"""Row 5: a program that keeps its own files replays from the state it started from; the user's files stay."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from tachograph.testing.scripted import ScriptedServer
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, World, different, record, replay, same, tacho, world_in

NAMES = ["journal.txt", "memory.db", "state/checkpoint.json"]


def kept(world: World) -> dict[str, bytes]:
    """Every file of the working folder."""
    return {str(p.relative_to(world.work)): p.read_bytes() for p in sorted(world.work.rglob("*")) if p.is_file()}


def twice(folder: Path, server: ScriptedServer) -> Recorded:
    """Record the agent twice; the second run goes on where the first ended."""
    record(folder, "keeper.py", url=server.url)
    return record(folder, "keeper.py", url=server.url)


def test_the_second_run_replays_from_where_the_first_ended_and_the_user_s_files_stay(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        before = kept(recorded.world)
        assert sorted(before) == NAMES
        replayed = replay(recorded, server=server)
    assert recorded.stdout.startswith(b"1 1 ")
    same(recorded, replayed)
    assert replayed["confinement"]["filesystem"] == "overlay"
    assert kept(recorded.world) == before
    assert replayed["inputsChanged"] == []
    assert [note for note in replayed["notes"] if "not compared" in note] == []


def test_an_older_run_replays_after_newer_ones_and_where_its_files_are_gone(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        for name in NAMES:
            (recorded.world.work / name).unlink()
        same(recorded, replay(recorded, server=server))
    assert kept(recorded.world) == {}


def test_in_another_folder_the_files_are_laid_out_there(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        before = kept(recorded.world)
        same(recorded, replay(recorded, "--cwd", str(other), server=server))
    assert kept(recorded.world) == before


def test_a_program_that_now_writes_something_else_diverges_at_that_leaf(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        agent = recorded.world.programs / "keeper.py"
        text = agent.read_text()
        agent.write_text(text.replace('before["runs"] + 1', 'before["runs"] + 2'))
        first = different(replay(recorded, server=server), at="/files/state~1checkpoint.json/content/runs")
        assert (first["original"], first["replay"]) == (2, 3)
        agent.write_text(text.replace("values (?)", "values (upper(?))"))
        first = different(replay(recorded, server=server), at="/files/memory.db/tables/said/rows/1/answer")
        assert first["replay"] == first["original"].upper()
        agent.write_text(text + "Path('stray.txt').write_text('x')\n")
        different(replay(recorded, server=server), at="/files/stray.txt")
        agent.write_text(text.replace("os.replace(file.name, checkpoint)", "os.unlink(file.name)"))
        different(replay(recorded, server=server), at="/files/state~1checkpoint.json/content/runs")


def test_a_file_that_it_only_reads_is_named_where_it_changed_and_its_own_are_not(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    (world.work / "notes.txt").write_text("low tide")
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        assert replay(recorded, server=server)["inputsChanged"] == []
        (world.work / "notes.txt").write_text("high tide")
        replayed = replay(recorded, server=server)
    assert [one["path"] for one in replayed["inputsChanged"]] == [str(world.work / "notes.txt")]
    different(replayed)


def test_a_database_changed_since_is_put_back_for_the_replay_alone(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        path = recorded.world.work / "memory.db"
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("delete from said")
            database.commit()
        same(recorded, replay(recorded, server=server))
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("select count(*) from said").fetchone() == (0,)


def test_what_was_written_is_content_and_in_no_plain_byte_of_the_store(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
    assert any(b"create table said" in log.lower() for log in recorded.world.content().values())
    assert [path for path, data in recorded.world.files().items() if b"create table said" in data.lower()] == []
    assert tacho(recorded.world, "show", "last", "--json").exit_code == 0


def test_without_an_overlay_nothing_of_the_user_s_is_written_and_the_refusal_says_the_way_out(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with ScriptedServer(echo) as server:
        recorded = twice(tmp_path, server)
        before = kept(recorded.world)
        refused = tacho(recorded.world, "replay", "last", "--json", "--confinement", "python")
        assert refused.exit_code == 3
        assert b"no_file_world" in refused.stdout + refused.stderr
        assert b"--cwd" in refused.stdout + refused.stderr
        same(recorded, replay(recorded, "--confinement", "python", "--cwd", str(other), server=server))
    assert kept(recorded.world) == before
    assert sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file()) == NAMES

"""The start state is read from the log; files written are compared by what they mean; nothing is passed over."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats.effect_log import read_effect_log
from tachograph.formats.file_state import (
    ABSENT,
    FILE,
    FOLDER,
    LINK,
    NOTHING,
    PART,
    SPECIAL,
    FileState,
    pack_state,
    read_state,
    read_states,
    write_states,
)
from tachograph.replay.layout import lay_out
from tachograph.replay.startstate import StartState, start_state, without_files
from tachograph.replay.written import compare_written, shown
from tests.replay.made import Run

CWD = "/somewhere"


def told(run: Run, kind: int, path: str, state: FileState) -> Run:
    """Add the frames of one state."""
    key = str(len(run.frames)).encode()
    for number, payload in pack_state(kind, key, path, state):
        run.add(number, payload)
    return run


def run_of(*states: tuple[int, str, FileState]) -> Run:
    run = Run()
    for kind, path, state in states:
        told(run, kind, path, state)
    return run


def compared(one: bytes | None, other: bytes | None, name: str = "state.txt") -> list[tuple[str, object, object]]:
    """What differs where the recorded run left the first and the replay the second content."""
    path = f"{CWD}/{name}"
    states = [NOTHING if data is None else FileState.of(data) for data in (one, other)]
    start = StartState(CWD, files={path: NOTHING}, written={path: states[0]})
    return [(leaf.path, shown(leaf.recorded), shown(leaf.replayed)) for leaf in compare_written(
        start, {path: states[1]}).leaves]  # fmt: skip


def database(folder: Path, *statements: str) -> bytes:
    path = folder / "made.db"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as made:
        for statement in statements:
            made.execute(statement)
    return path.read_bytes()


# --- the start state --------------------------------------------------------------------------------------------------


def test_a_file_that_the_run_wrote_starts_as_it_was_and_is_compared_as_it_was_left() -> None:
    run = run_of(
        (fr.FILE_BEFORE, f"{CWD}/n.json", FileState.of(b"1")), (fr.FILE_AFTER, f"{CWD}/n.json", FileState.of(b"2"))
    )
    state = start_state(run.log)
    assert state.files == {f"{CWD}/n.json": state.files[f"{CWD}/n.json"]}
    assert state.files[f"{CWD}/n.json"].data == b"1"
    assert state.written[f"{CWD}/n.json"].data == b"2"
    assert state.lasting == [f"{CWD}/n.json"]


def test_the_earliest_process_says_what_was_there_and_the_latest_what_was_left() -> None:
    path = f"{CWD}/n"
    run = run_of(
        (fr.FILE_BEFORE, path, FileState.of(b"0")), (fr.FILE_BEFORE, path, FileState.of(b"1")),
        (fr.FILE_AFTER, path, FileState.of(b"1")), (fr.FILE_AFTER, path, FileState.of(b"2")),
    )  # fmt: skip
    state = start_state(run.log)
    assert (state.files[path].data, state.written[path].data) == (b"0", b"2")


def test_a_file_left_as_it_was_is_an_input_and_not_put_back() -> None:
    path = f"{CWD}/n"
    run = run_of((fr.FILE_BEFORE, path, FileState.of(b"0")), (fr.FILE_AFTER, path, FileState.of(b"0", mtime_ns=5)))
    state = start_state(run.log)
    assert (state.files, state.written, list(state.opened), state.lasting) == ({}, {}, [path], [])


def test_a_database_and_its_log_stand_together() -> None:
    path = f"{CWD}/a.db"
    run = run_of(
        (fr.FILE_BEFORE, path, FileState.of(b"d")), (fr.FILE_AFTER, path, FileState.of(b"d")),
        (fr.FILE_BEFORE, path + "-wal", NOTHING), (fr.FILE_AFTER, path + "-wal", FileState.of(b"w")),
    )  # fmt: skip
    state = start_state(run.log)
    assert sorted(state.files) == [path, path + "-wal"]
    assert state.opened == {}


def test_a_file_that_came_and_went_lasts_nowhere_and_must_still_not_be_there_before() -> None:
    path = "/tmp/lock"
    state = start_state(run_of((fr.FILE_BEFORE, path, NOTHING), (fr.FILE_AFTER, path, NOTHING)).log)
    assert (state.files[path].kind, state.lasting) == (ABSENT, [])


def test_paths_of_the_run_s_folder_are_moved_and_others_stay() -> None:
    run = run_of(
        (fr.FILE_BEFORE, f"{CWD}/a/n", NOTHING), (fr.FILE_AFTER, f"{CWD}/a/n", FileState.of(b"")),
        (fr.FILE_BEFORE, f"{CWD}else/n", NOTHING), (fr.FILE_AFTER, f"{CWD}else/n", FileState.of(b"")),
    )  # fmt: skip
    assert start_state(run.log, cwd="/other").lasting == ["/other/a/n", f"{CWD}else/n"]


def test_what_was_not_kept_or_not_told_is_said_and_not_compared() -> None:
    run = run_of(
        (fr.FILE_BEFORE, f"{CWD}/big", FileState(FILE, size=1 << 27)),
        (fr.FILE_AFTER, f"{CWD}/big", FileState(FILE, size=9, digest="ab")),
        (fr.FILE_BEFORE, f"{CWD}/pipe", FileState(SPECIAL)), (fr.FILE_BEFORE, f"{CWD}/cut", FileState.of(b"1")),
    )  # fmt: skip
    state = start_state(run.log)
    assert sorted(state.not_kept) == [f"{CWD}/big", f"{CWD}/pipe"]
    assert sorted(state.not_told) == [f"{CWD}/cut", f"{CWD}/pipe"]
    found = compare_written(state, {f"{CWD}/cut": FileState.of(b"other"), f"{CWD}/big": FileState.of(b"other")})
    assert found.leaves == []
    assert [note.split(" (")[0] for note in found.notes] == [
        f"not compared: {CWD}/{name}" for name in ("big", "cut", "pipe")
    ]


def test_content_of_many_parts_is_whole_or_not_there() -> None:
    data = os.urandom(PART * 2 + 5)
    run = run_of((fr.FILE_BEFORE, f"{CWD}/n", FileState.of(data)), (fr.FILE_AFTER, f"{CWD}/n", NOTHING))
    assert start_state(run.log).files[f"{CWD}/n"].data == data
    run.frames = [frame for frame in run.frames if frame.kind != fr.FILE_PART]
    assert list(start_state(run.log).not_kept) == [f"{CWD}/n"]


def test_a_tape_without_files_keeps_the_draws_that_rode_in_their_frames() -> None:
    run = Run()
    run.add(fr.SITE, fr.fields(b"time.time", b"a.py", b"f", b"time()"), effect=1)
    told(run, fr.FILE_BEFORE, f"{CWD}/n", FileState.of(os.urandom(PART + 1)))
    run.frames[-1].draws = fr.pack_draw(1, 1, 4.5)
    run.call(1, b"{}")
    tape = without_files(run.data)
    log = read_effect_log([tape])
    assert [draw.value for draw in log.draws] == [4.5]
    assert (len(tape) < 3000, log.of(fr.FILE_BEFORE, fr.FILE_PART), len(log.effects)) == (True, [], 1)
    assert without_files(tape) == tape


def test_states_survive_being_written_down() -> None:
    states = {
        "/a": FileState.of(os.urandom(PART + 3), mode=0o600, mtime_ns=12), "/b": NOTHING,
        os.fsdecode(b"/\xff"): FileState(LINK, target=b"/\xfe"), "/d": FileState(FOLDER, mode=0o700),
    }  # fmt: skip
    assert read_states(write_states(states)) == states


def test_a_frame_that_is_no_state_is_refused() -> None:
    with pytest.raises(FormatError):
        read_state(fr.fields(b"key", b"/path"))
    with pytest.raises(FormatError):
        read_state(fr.fields(b"k", b"/p", b"file", b"x", b"0", b"0", b"0", b"", b"", b"0"))


# --- laid out ---------------------------------------------------------------------------------------------------------


def test_a_start_state_is_laid_out_and_nothing_else_is_touched(tmp_path: Path) -> None:
    (tmp_path / "gone").write_text("left by the run")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "by the run").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "the user's").write_text("mine")
    (tmp_path / "n").write_text("now")
    files = {
        str(tmp_path / "gone"): NOTHING, str(tmp_path / "made"): NOTHING,
        str(tmp_path / "made" / "by the run"): NOTHING,
        str(tmp_path / "shared"): NOTHING, str(tmp_path / "n"): FileState.of(b"before", mode=0o640, mtime_ns=10**18),
        str(tmp_path / "deep" / "er"): FileState.of(b"x"), str(tmp_path / "old"): FileState(FOLDER, mode=0o750),
        str(tmp_path / "link"): FileState(LINK, target=b"n"),
    }  # fmt: skip
    assert lay_out(files) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "link", "n", "old", "shared"]
    assert (tmp_path / "n").read_bytes() == b"before"
    assert (tmp_path / "n").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "n").stat().st_mtime_ns == 10**18
    assert (tmp_path / "shared" / "the user's").read_text() == "mine"
    assert os.readlink(tmp_path / "link") == "n"


def test_a_link_that_came_since_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "n").symlink_to(tmp_path / "target")
    assert lay_out({str(tmp_path / "n"): FileState.of(b"before")}) == []
    assert ((tmp_path / "n").read_text(), (tmp_path / "target").read_text()) == ("before", "mine")


def test_what_cannot_be_laid_out_is_named(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("a file and no folder")
    (failed,) = lay_out({str(tmp_path / "n" / "m"): FileState.of(b"")})
    assert failed.startswith(str(tmp_path / "n" / "m"))


# --- compared ---------------------------------------------------------------------------------------------------------


def test_equal_files_differ_nowhere() -> None:
    assert compared(b"a", b"a") == []
    assert compared(None, None) == []


def test_a_file_is_named_relative_to_the_folder_and_its_slashes_are_escaped() -> None:
    assert compared(b"a", None, "out/n~") == [("/files/out~1n~0/exists", True, False)]


def test_a_text_is_compared_by_lines_a_document_by_leaves_and_other_bytes_by_the_first() -> None:
    assert compared(b"a\nb\n", b"a\nc\n") == [("/files/state.txt/content/lines/1", "b", "c")]
    assert compared(b'{"n": 1, "m": 2}', b'{"m": 2, "n": 3}') == [("/files/state.txt/content/n", 1, 3)]
    ((path, ours, theirs),) = compared(b"\xff\0\1", b"\xff\0\2")
    assert path == "/files/state.txt/content"
    assert (ours["offset"], theirs["offset"]) == (2, 2)


def test_the_same_document_in_other_bytes_differs_in_its_text() -> None:
    assert [path for path, _, _ in compared(b'{"n":1}', b'{"n": 1}')] == ["/files/state.txt/content/lines/0"]


def test_a_time_that_no_draw_gave_is_drift_and_any_other_difference_beside_it_is_none() -> None:
    path = f"{CWD}/a.log"
    start = StartState(CWD, files={path: NOTHING}, written={path: FileState.of(b"2026-01-02 03:04:05,678 INFO x\ny")})
    found = compare_written(start, {path: FileState.of(b"2026-01-02 03:04:06,001 INFO x\ny")})
    assert found.leaves == []
    assert found.drift == [{"kind": "file", "path": path, "count": 1, "what": "times that no draw gave"}]
    assert compared(b"2026-01-02 03:04:05 INFO x", b"2026-01-02 03:04:06 INFO z") != []
    assert compared(b"12:30", b"12:31") != []


def test_a_file_that_only_the_replay_wrote_is_named_and_one_that_came_and_went_is_not() -> None:
    start = StartState(CWD)
    (leaf,) = compare_written(start, {f"{CWD}/new": FileState.of(b"x"), f"{CWD}/gone": NOTHING}).leaves
    assert (leaf.path, shown(leaf.recorded)) == ("/files/new", None)


def test_a_file_that_the_replay_did_not_write_is_compared_as_it_stood_before() -> None:
    path = f"{CWD}/n"
    start = StartState(CWD, files={path: FileState.of(b"0")}, written={path: FileState.of(b"1")})
    assert [leaf.path for leaf in compare_written(start, {}).leaves] == ["/files/n/content"]


def test_digests_decide_where_content_was_not_kept() -> None:
    path = f"{CWD}/n"
    left = FileState(FILE, size=3, digest=FileState.of(b"abc").digest)
    start = StartState(CWD, files={path: NOTHING}, written={path: left})
    assert compare_written(start, {path: FileState.of(b"abc")}).leaves == []
    (leaf,) = compare_written(start, {path: FileState.of(b"abd")}).leaves
    assert leaf.path == "/files/n/content"


def test_a_database_is_compared_by_its_rows_and_not_by_its_bytes(tmp_path: Path) -> None:
    made = ["create table t (n integer, s text)", "insert into t values (1, 'a'), (2, 'b')"]
    one = database(tmp_path, *made)
    other = database(tmp_path, "create table gone (x)", *made, "drop table gone", "vacuum")
    assert one != other
    assert compared(one, other) == []
    changed = database(tmp_path, *made, "update t set s = 'c' where n = 2")
    assert compared(one, changed) == [("/files/state.txt/tables/t/rows/1/s", "b", "c")]
    added = database(tmp_path, *made, "create view v as select 1")
    assert [path for path, _, _ in compared(one, added)] == ["/files/state.txt/tables/v"]


def test_rows_in_a_log_that_was_not_taken_back_count(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    sides = []
    for number in (1, 2):
        for one in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            one.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as made:
            made.execute("pragma journal_mode = wal")
            made.execute("create table t (n)")
            made.execute("pragma wal_checkpoint(truncate)")
            made.execute("insert into t values (?)", (number,))
            sides.append((path.read_bytes(), Path(f"{path}-wal").read_bytes()))
    (one, wal), (other, log) = sides
    name = f"{CWD}/a.db"
    start = StartState(CWD, opened={name: FileState.of(one)}, written={name + "-wal": FileState.of(wal)},
                       files={name + "-wal": NOTHING})  # fmt: skip
    found = compare_written(start, {name: FileState.of(other), name + "-wal": FileState.of(log)})
    assert [(leaf.path, shown(leaf.recorded), shown(leaf.replayed)) for leaf in found.leaves] == [
        ("/files/a.db/tables/t/rows/0/n", 1, 2)
    ]


def test_what_only_looks_like_a_database_is_compared_by_its_bytes() -> None:
    assert [path for path, _, _ in compared(b"SQLite format 3\0 x", b"SQLite format 3\0 y")] == [
        "/files/state.txt/content/lines/0"
    ]


def test_placeholders_stand_in_the_replayed_content_too() -> None:
    path = f"{CWD}/n"
    start = StartState(CWD, files={path: NOTHING}, written={path: FileState.of(b"key=AAAA")})
    same = compare_written(start, {path: FileState.of(b"key=SECR")}, change=lambda data: data.replace(b"SECR", b"AAAA"))
    assert same.leaves == []

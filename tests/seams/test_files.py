"""The seam of files: what stood there before the first write is kept, whoever writes; what is read is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.formats.file_state import ABSENT, FILE, FOLDER, LINK, FileState, states_of
from tests.seams.driver import Recorded, Session


def before(recorded: Recorded) -> dict[str, FileState]:
    """What was kept, by the name in the program's folder."""
    return _named(recorded, fr.FILE_BEFORE)


def after(recorded: Recorded) -> dict[str, FileState]:
    """How the program left what it wrote."""
    return _named(recorded, fr.FILE_AFTER)


def _named(recorded: Recorded, kind: int) -> dict[str, FileState]:
    assert recorded.out is not None
    folder = str(recorded.session.folder) + "/"
    return {path.removeprefix(folder): state for path, state in states_of(recorded.log.facts, kind)}


def read(recorded: Recorded) -> dict[str, list[object]]:
    folder = str(recorded.session.folder) + "/"
    return {
        path.removeprefix(folder): said
        for fact in recorded.log.of(fr.FILES_READ) for path, said in fact.said.items()
    }  # fmt: skip


@pytest.mark.parametrize(
    "write",
    [
        "open('n', 'w').close()", "open('n', 'a').close()", "open('n', 'r+').close()", "open(b'n', 'wb').close()",
        "import pathlib; pathlib.Path('n').write_text('x')", "import os; os.close(os.open('n', os.O_RDWR))",
        "import os; os.truncate('n', 1)", "import os; os.unlink('n')", "import os; os.rename('n', 'm')",
        "open('m', 'w').close(); import os; os.replace('m', 'n')", "import io; io.FileIO('n', 'w').close()",
        "import os; os.mkdir('d'); os.chdir('d'); open('../n', 'w').close()", "import shutil; shutil.move('n', 'm')",
    ],
)  # fmt: skip
def test_a_file_is_kept_as_it_was_before_it_is_written(tmp_path: Path, write: str) -> None:
    (tmp_path / "n").write_text("before")
    kept = before(Session(tmp_path, write + "\n").record())["n"]
    assert (kept.kind, kept.data, kept.content) == (FILE, b"before", True)


def test_what_was_not_there_is_kept_as_absent_and_folders_and_links_as_such(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "link").symlink_to("elsewhere")
    recorded = Session(
        tmp_path, "import os\nopen('n', 'x').close()\nos.makedirs('a/b')\nos.rmdir('old')\nos.unlink('link')\n"
    ).record()
    kept, left = before(recorded), after(recorded)
    assert {name: state.kind for name, state in kept.items()} == {
        "n": ABSENT, "a": ABSENT, "a/b": ABSENT, "old": FOLDER, "link": LINK,
    }  # fmt: skip
    assert kept["link"].target == b"elsewhere"
    assert {name: state.kind for name, state in left.items()} == {
        "n": FILE, "a": FOLDER, "a/b": FOLDER, "old": ABSENT, "link": ABSENT,
    }  # fmt: skip


def test_each_path_is_kept_once_and_left_as_the_last_write_left_it(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path, "for n in range(5):\n    with open('n', 'w') as file:\n        file.write(str(n))\n"
    ).record()
    assert [fact.kind for fact in recorded.log.facts].count(fr.FILE_BEFORE) == 1
    assert after(recorded)["n"].data == b"4"


def test_the_same_name_in_another_folder_is_another_file(tmp_path: Path) -> None:
    program = "import os\nos.mkdir('d')\nopen('n', 'w').close()\nos.chdir('d')\nopen('n', 'w').close()\n"
    assert sorted(before(Session(tmp_path, program).record())) == ["d", "d/n", "n"]


def test_a_folder_that_is_moved_is_kept_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "n").write_text("x")
    kept = before(Session(tmp_path, "import os\nos.rename('old', 'new')\n").record())
    assert {name: state.kind for name, state in kept.items()} == {
        "old": FOLDER, "old/n": FILE, "new": ABSENT, "new/n": ABSENT,
    }  # fmt: skip


def test_a_database_is_kept_before_it_is_connected_to_and_one_in_memory_is_none(tmp_path: Path) -> None:
    program = """
        import sqlite3
        for name in ("n.db", ":memory:", "file::memory:?cache=shared"):
            connected = sqlite3.connect(name, uri=True)
            connected.execute("create table if not exists t (n)")
            connected.close()
    """
    session = Session(tmp_path, program)
    assert {name: state.kind for name, state in before(session.record()).items()} == {
        "n.db": ABSENT, "n.db-wal": ABSENT, "n.db-journal": ABSENT,
    }  # fmt: skip
    kept = before(session.record())["n.db"]
    assert kept.data.startswith(b"SQLite format 3\0")


def test_a_file_that_is_only_read_is_remembered_by_its_digest_and_installed_code_is_not(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("input")
    recorded = Session(tmp_path, "import json, httpx\nopen('n').read()\nopen('/proc/self/status').read()\n").record()
    assert recorded.out == ""
    said = read(recorded)
    assert [name for name in said if not name.endswith("program.py")] == ["n"]
    assert said["n"][2] == FileState.of(b"input").digest
    assert said["n"][3] is False


def test_a_file_that_changes_while_the_program_runs_is_said_to(tmp_path: Path) -> None:
    (tmp_path / "n").write_text("input")
    program = """
        import os, subprocess
        open("n").read()
        subprocess.run(["sh", "-c", "echo more >> n"], check=True)
    """
    assert read(Session(tmp_path, program).record())["n"][2:] == ["", True]


def test_a_large_file_is_known_by_its_size_alone(tmp_path: Path) -> None:
    with (tmp_path / "n").open("wb") as file:
        file.truncate((64 << 20) + 1)
    kept = before(Session(tmp_path, "open('n', 'a').close()\n").record())["n"]
    assert (kept.size, kept.content, kept.data) == ((64 << 20) + 1, False, b"")


def test_a_program_sees_the_same_files_and_errors_as_without_us(tmp_path: Path) -> None:
    program = """
        import os
        for path, mode in (("gone/n", "w"), ("n", "x"), ("n", "x"), ("", "w"), ("a\\0b", "w"), (".", "w")):
            try:
                print(open(path, mode).name)
            except (OSError, ValueError) as fault:
                print(type(fault).__name__, fault)
        print(sorted(os.listdir("/proc/self/fd"))[:3])
    """
    session = Session(tmp_path, program)
    plain = session.plain().out
    (tmp_path / "n").unlink()
    assert session.record().out == plain


def test_a_child_after_a_fork_tells_what_it_wrote(tmp_path: Path) -> None:
    program = """
        import os, sys
        open("ours", "w").close()
        if os.fork() == 0:
            with open("theirs", "w") as file:
                file.write("child")
            sys.exit()
        os.wait()
    """
    recorded = Session(tmp_path, program).record()
    assert before(recorded)["theirs"].kind == ABSENT
    assert after(recorded)["theirs"].data == b"child"


def test_a_replay_tells_how_it_left_its_files(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "with open('n', 'w') as file:\n    file.write('x')\n").record()
    replayed = recorded.replay()
    assert replayed.out == ""
    (state,) = [
        state for path, state in states_of(replayed.frames, fr.FILE_AFTER) if path == str(tmp_path / "n")
    ]  # fmt: skip
    assert state.data == b"x"

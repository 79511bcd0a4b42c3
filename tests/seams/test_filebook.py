"""The book of files keeps what it promises of each file, and no more than it promises of all."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.file_state import FILE, FOLDER, LINK, SPECIAL
from tachograph.seams.filebook import (
    MOST,
    MOST_ALL,
    MOST_DATABASE,
    MOST_DIGEST,
    MOST_LEFT,
    MOST_READ,
    MOST_WRITTEN,
    FileBook,
    look,
)

MAGIC = b"SQLite format 3\0"


class Told:
    """What a book told, by frame kind."""

    def __init__(self, **options: Any) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.book = FileBook(lambda kind, payload, _: self.frames.append((kind, payload)), **options)

    def of(self, kind: int) -> list[bytes]:
        return [payload for told, payload in self.frames if told == kind]


def sized(path: Path, size: int, head: bytes = b"") -> str:
    """A file of that size, whose blocks are not on disk."""
    path.write_bytes(head)
    os.truncate(path, size)
    return str(path)


@pytest.mark.parametrize(("size", "kept"), [(MOST_LEFT, True), (MOST_LEFT + 1, False)])
def test_content_is_kept_up_to_the_most_and_the_digest_beyond_it(tmp_path: Path, size: int, kept: bool) -> None:
    state = look(sized(tmp_path / "a", size), most=MOST_LEFT, digest=MOST_DIGEST)
    assert (state.kind, state.size, state.content, len(state.data)) == (FILE, size, kept, size if kept else 0)
    assert state.digest == sha256(bytes(size)).hexdigest()


def test_a_file_beyond_the_digest_s_most_is_known_by_its_size(tmp_path: Path) -> None:
    state = look(sized(tmp_path / "a", MOST_DIGEST + 1), most=MOST_LEFT, digest=MOST_DIGEST, databases=MOST_DATABASE)
    assert (state.size, state.content, state.digest) == (MOST_DIGEST + 1, False, "")


@pytest.mark.parametrize(
    ("head", "size", "kept"),
    [(MAGIC, MOST_LEFT + 1, True), (MAGIC, MOST_DATABASE + 1, False), (b"plain", MOST_LEFT + 1, False)],
)
def test_a_database_is_kept_though_it_is_larger_than_other_files(
    tmp_path: Path, head: bytes, size: int, kept: bool
) -> None:
    path = sized(tmp_path / "a", size, head)
    assert look(path, most=MOST_LEFT, digest=MOST_DIGEST, databases=MOST_DATABASE).content is kept


def test_before_a_write_a_file_is_kept_up_to_its_most(tmp_path: Path) -> None:
    told = Told()
    told.book.will_write(sized(tmp_path / "large", MOST + 1))
    assert told.book._left == MOST_ALL
    told.book.will_write(sized(tmp_path / "small", 3 << 20))
    assert told.book._left == MOST_ALL - (3 << 20)
    assert len(told.of(fr.FILE_BEFORE)) == 2
    assert [len(part) >> 20 for part in told.of(fr.FILE_PART)] == [1, 1]


def test_a_process_keeps_no_more_in_all_than_the_most(tmp_path: Path) -> None:
    told = Told()
    told.book._left = 10
    told.book.will_write(sized(tmp_path / "too much", 11))
    told.book.will_write(sized(tmp_path / "fits", 10))
    assert told.book._left == 0
    told.book.will_write(sized(tmp_path / "none left", 1))
    assert len(told.of(fr.FILE_BEFORE)) == 3
    assert told.book._left == 0


def test_more_files_than_the_most_are_not_looked_at_and_it_is_said(tmp_path: Path) -> None:
    told = Told()
    for number in range(MOST_WRITTEN - 1):
        told.book.will_write(f"/nonexistent/{number}")
    assert not told.book.is_full
    for name in ("last", "one more"):
        told.book.will_write(str(tmp_path / name))
    assert told.book.is_full
    assert len(told.of(fr.FILE_BEFORE)) == MOST_WRITTEN


def test_no_more_files_are_remembered_as_read_than_the_most(tmp_path: Path) -> None:
    told = Told()
    for number in range(MOST_READ + 1):
        (tmp_path / str(number)).touch()
        told.book.will_read(str(tmp_path / str(number)))
    told.book.finish()
    assert len(values.decode(told.of(fr.FILES_READ)[0])) == MOST_READ  # type: ignore[arg-type]


def test_what_is_ours_or_was_seen_already_is_not_looked_at_again(tmp_path: Path) -> None:
    told = Told(own=(str(tmp_path / "own"),))
    (tmp_path / "own").mkdir()
    for name in ("own/a", "b", "b"):
        (tmp_path / name).touch()
        told.book.will_write(str(tmp_path / name))
        told.book.will_read(str(tmp_path / name))
    told.book.finish()
    assert (len(told.of(fr.FILE_BEFORE)), len(told.of(fr.FILE_AFTER)), told.of(fr.FILES_READ)) == (1, 1, [])


def test_what_changed_while_it_was_read_has_no_digest(tmp_path: Path) -> None:
    told = Told()
    for name in ("kept", "changed"):
        (tmp_path / name).write_text("one")
        told.book.will_read(str(tmp_path / name))
    (tmp_path / "changed").write_text("other")
    told.book.will_read(str(tmp_path / "not there"))
    told.book.will_read(str(tmp_path))
    told.book.finish()
    read: Any = values.decode(told.of(fr.FILES_READ)[0])
    assert {Path(path).name: known[2:] for path, known in read.items()} == {
        "kept": [sha256(b"one").hexdigest(), False], "changed": ["", True],
    }  # fmt: skip


def test_a_link_a_folder_and_a_pipe_are_known_without_being_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "pipe")
    kinds = [look(str(tmp_path / name), most=MOST, digest=0).kind for name in ("link", ".", "pipe")]
    assert kinds == [LINK, FOLDER, SPECIAL]
    assert look(str(tmp_path / "link"), most=MOST, digest=0).target == b"elsewhere"

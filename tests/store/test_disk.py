"""The disk's steps are whole or raise."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tachograph.store.disk import Disk
from tests.store.kept import FullDisk


def test_a_file_is_created_whole_private_and_in_place_of_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "key"
    target.write_bytes(b"older and longer")
    Disk().create(str(target), b"new")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["key"]


def test_a_file_that_does_not_fit_leaves_the_older_one_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "key"
    target.write_bytes(b"older")
    with pytest.raises(OSError, match="No space left"):
        FullDisk(2).create(str(target), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"key": b"older"}


def test_removing_what_is_not_there_is_no_fault(tmp_path: Path) -> None:
    Disk().remove(str(tmp_path / "none"))


def test_a_write_that_the_kernel_takes_in_parts_is_continued() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):  # a pipe takes 64 KiB, then no more: the rest is asked for, not dropped
        Disk().write(writer, bytes(1 << 20))
    os.close(writer)
    os.close(reader)


def test_the_folder_of_a_replaced_file_is_synced(tmp_path: Path) -> None:
    synced: list[str] = []

    class Watching(Disk):
        def sync_folder(self, path: str) -> None:
            synced.append(path)
            super().sync_folder(path)

    Watching().create(str(tmp_path / "a"), b"1")
    assert synced == [str(tmp_path)]

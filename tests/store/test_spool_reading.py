"""Large spool files are read without being held; `test_spool` reads every damaged one in both ways."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.store.spool import Spool
from tachograph.store.spool_reading import read_spool
from tests.store.test_spool import PRIVATE, PUBLIC

FRAME = 100_000


def large(folder: Path, count: int) -> Path:
    """A spool file of so many frames of 100 KB."""
    one = Spool(str(folder), f"run.{count}.a", public=PUBLIC)
    for number in range(count):
        assert one.append(b"%06d" % number, bytes(FRAME))
    one.close()
    return Path(one.path)


def memory_to_read(path: Path) -> int:
    """The most that Python's allocator held while all frames were asked for one after another."""
    tracemalloc.start()
    try:
        reading = read_spool(str(path), private=PRIVATE, keep=0)
        assert [frame[:6] for frame in reading.frames] == [b"%06d" % n for n in range(len(reading.frames))]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_four_times_the_frames_take_no_more_memory(tmp_path: Path) -> None:
    few, many = (memory_to_read(large(tmp_path, count)) for count in (40, 160))
    assert many < few + 10 * FRAME


def test_frames_are_given_by_place_and_by_stretch(tmp_path: Path) -> None:
    frames = read_spool(str(large(tmp_path, 5)), private=PRIVATE, keep=0).frames
    assert len(frames) == 5
    assert frames[-1][:6] == b"000004"
    assert [frame[:6] for frame in frames[1:3]] == [b"000001", b"000002"]


def test_a_frame_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = large(tmp_path, 20)
    frames = read_spool(str(path), private=PRIVATE, keep=0).frames
    with path.open("r+b") as file:
        file.seek(os.path.getsize(path) - 50)
        file.write(b"\xff" * 8)
    assert frames[0][:6] == b"000000"
    with pytest.raises(DamagedStore, match="record 19 of a spool file was changed"):
        frames[19]


def test_a_file_whose_frames_were_asked_for_is_closed_with_them(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    readings = [read_spool(str(large(tmp_path, 2)), private=PRIVATE, keep=0)]
    readings += [read_spool(str(large(tmp_path, 3)), private=PRIVATE)]
    assert len(os.listdir("/proc/self/fd")) == before + 1, "a small one is not held open"
    readings.clear()
    assert len(os.listdir("/proc/self/fd")) == before

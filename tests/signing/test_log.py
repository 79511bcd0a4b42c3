"""The log on disk: the published layout, growth and crashes at every write, and what is refused."""

from __future__ import annotations

import shutil
from base64 import b64decode
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.signing import merkle, note
from tachograph.signing.keys import SigningKey
from tachograph.signing.log import CheckpointRefused, Equivocation, TileLog, tile_path
from tachograph.store.disk import Disk

LEAVES = [merkle.leaf_hash(b"%d" % n) for n in range(70_000)]
SIGNER = note.Signer("tachograph/ab/default/0", SigningKey.from_bytes(b"k" * 32))


class Quick(Disk):
    """The real disk without its syncs: thousands of files are written here."""

    def sync(self, fd: int) -> None:
        """Not here."""

    def sync_folder(self, path: str) -> None:
        """Not here."""


class Stops(Quick):
    """Fails at one of its writes."""

    def __init__(self, after: int) -> None:
        self.left = after

    def create(self, path: str, data: bytes) -> None:
        if self.left == 0:
            raise OSError("no more")
        self.left -= 1
        super().create(path, data)

    def remove(self, path: str) -> None:
        if self.left == 0:
            raise OSError("no more")
        self.left -= 1
        super().remove(path)


def log_at(folder: Path, *, write: bool = True, disk: Disk | None = None) -> TileLog:
    """A log."""
    folder.mkdir(exist_ok=True)
    return TileLog(str(folder), disk=disk or Quick(), write=write)


def signed(log: TileLog, size: int | None = None, root: bytes | None = None) -> bytes:
    """A checkpoint over the log."""
    size = log.size if size is None else size
    said = note.Checkpoint(origin=SIGNER.name, size=size, root=log.root(size) if root is None else root)
    return note.sign(said.body(), [SIGNER])


def test_paths_are_those_of_the_specification() -> None:
    assert tile_path(0, 0) == "tile/0/000"
    assert tile_path(1, 1234067) == "tile/1/x001/x234/067"
    assert tile_path(0, 5, 7) == "tile/0/005.p/7"


def test_a_published_log_is_read(shared: Path, tmp_path: Path) -> None:
    source = shared / "vectors/tlog-tiles/testdata/log"
    folder = tmp_path / "log"
    shutil.copytree(source, folder)
    log = log_at(folder, write=False)
    assert log.size == 15
    for size in range(16):
        said = note.Checkpoint.parse((source / f"checkpoint.{size}").read_bytes())
        assert log.root(size) == said.root
    bundle = (source / "tile/entries/000.p/15").read_bytes()
    at = 0
    for index in range(15):
        length = int.from_bytes(bundle[at : at + 2], "big")
        assert log.leaf(index) == merkle.leaf_hash(bundle[at + 2 : at + 2 + length])
        at += 2 + length


@pytest.mark.parametrize("steps", [[1] * 5, [255, 1, 1], [256], [300, 212, 1], [511, 2], [65_536, 3], [65_535, 1, 1]])
def test_it_grows_and_is_opened_again(tmp_path: Path, steps: list[int]) -> None:
    size = 0
    for step in steps:
        log = log_at(tmp_path / "log")
        assert log.size == size
        log.append(LEAVES[size : size + step], at=size)
        size += step
    for log in (log_at(tmp_path / "log"), log_at(tmp_path / "log", write=False)):
        assert log.size == size
        assert log.root() == merkle.root_of(LEAVES[:size])
        assert log.check() == []
        for index in {0, size // 2, size - 1}:
            assert merkle.verify_inclusion(LEAVES[index], index, size, log.prove(index, size), log.root())
        old = max(1, size // 3)
        assert merkle.verify_consistency(old, size, log.consistency(old, size), log.root(old), log.root())
    partials = list((tmp_path / "log").rglob("*.p/*"))
    assert len(partials) == sum(1 for level in range(4) if (size >> 8 * level) % 256)
    assert list(log.leaves(size - 1)) == [LEAVES[size - 1]]


def test_what_is_there_is_passed_over_and_another_leaf_is_refused(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    log.append(LEAVES[:300], at=0)
    log.append(LEAVES[290:310], at=290)
    assert log.size == 310
    with pytest.raises(Equivocation, match="leaf 5"):
        log.append([LEAVES[9]], at=5)
    with pytest.raises(ValueError, match="gap"):
        log.append([LEAVES[9]], at=311)
    assert log.root() == merkle.root_of(LEAVES[:310])


@pytest.mark.parametrize("before", [250, 511, 65_530])
def test_a_crash_at_any_write_loses_nothing_acknowledged(tmp_path: Path, before: int) -> None:
    made = log_at(tmp_path / "made")
    made.append(LEAVES[:before], at=0)
    stop = 0
    while True:
        folder = tmp_path / f"at{stop}"
        shutil.copytree(tmp_path / "made", folder)
        try:
            log_at(folder, disk=Stops(stop)).append(LEAVES[before : before + 10], at=before)
            break
        except OSError:
            stop += 1
        log = log_at(folder)
        assert before <= log.size <= before + 10
        assert log.root(before) == merkle.root_of(LEAVES[:before])
        log.append(LEAVES[before : before + 10], at=before)
        assert log_at(folder).root() == merkle.root_of(LEAVES[: before + 10])
        assert log_at(folder).check() == []
        shutil.rmtree(folder)
    assert stop >= 2


def test_a_checkpoint_is_never_taken_back(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    assert log.checkpoint() is None
    log.append(LEAVES[:3], at=0)
    first = signed(log)
    log.publish(first)
    log.publish(first)
    assert log.checkpoint() == first
    log.append(LEAVES[3:5], at=3)
    log.publish(signed(log))
    with pytest.raises(CheckpointRefused, match="take it back"):
        log.publish(first)
    for size, root in ((5, b"x" * 32), (6, b"x" * 32), (4, log.root(3))):
        with pytest.raises((CheckpointRefused, ValueError)):
            log.publish(signed(log, size, root))


def test_a_log_that_was_made_anew_is_not_published_under_the_old_one_s_name(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    log.append(LEAVES[:3], at=0)
    log.publish(signed(log))
    shutil.rmtree(tmp_path / "log" / "tile")
    other = log_at(tmp_path / "log")
    other.append(LEAVES[10:15], at=0)
    with pytest.raises(CheckpointRefused, match="second log") as refused:
        other.publish(signed(other))
    assert refused.value.reason == "other_root"
    assert note.Checkpoint.parse(other.checkpoint() or b"").size == 3


@pytest.mark.parametrize(("whole", "torn"), [(250, 253), (511, 512), (0, 7), (256, 260)])
def test_a_torn_last_tile_is_passed_over_for_what_is_whole(tmp_path: Path, whole: int, torn: int) -> None:
    folder = tmp_path / "log"
    log_at(folder).append(LEAVES[:whole], at=0)
    shutil.copytree(folder, tmp_path / "before")
    log_at(folder).append(LEAVES[whole:torn], at=whole)
    shutil.copytree(tmp_path / "before", folder, dirs_exist_ok=True)  # the narrower one was not removed yet
    number, width = (torn - 1) // 256, (torn - 1) % 256 + 1
    (folder / tile_path(0, number, width)).write_bytes(b"h" * (32 * width - 5))
    log = log_at(folder)
    assert log.size == whole
    assert [Path(path).name for path in log.torn] == [Path(tile_path(0, number, width)).name]
    log.append(LEAVES[whole:torn], at=whole)
    again = log_at(folder, write=False)
    assert (again.root(), again.check()) == (merkle.root_of(LEAVES[:torn]), [])


def test_a_reader_repairs_nothing(tmp_path: Path) -> None:
    log_at(tmp_path / "log").append(LEAVES[:7], at=0)
    (tmp_path / "log" / tile_path(0, 0, 7)).write_bytes(b"h" * 100)
    with pytest.raises(DamagedStore, match=r"000\.p/7"):
        log_at(tmp_path / "log", write=False).leaf(2)
    assert (tmp_path / "log" / tile_path(0, 0, 7)).exists()


def test_the_folders_of_a_new_tile_are_synced_as_it_is(tmp_path: Path) -> None:
    synced: list[str] = []

    class Notes(Disk):
        def sync_folder(self, path: str) -> None:
            synced.append(path)
            super().sync_folder(path)

    folder = tmp_path / "log"
    log_at(folder, disk=Notes()).append(LEAVES[:300], at=0)
    made = [path for path in folder.rglob("*") if path.is_dir()]
    assert len(made) == 5
    assert {str(path.parent) for path in made} <= set(synced)


def test_a_changed_tile_is_named(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    log.append(LEAVES[:600], at=0)
    changed = tmp_path / "log" / tile_path(0, 1)
    data = bytearray(changed.read_bytes())
    data[40] ^= 1
    changed.write_bytes(data)
    (fault,) = log_at(tmp_path / "log", write=False).check()
    assert "tile/0/001" in fault
    changed.write_bytes(data[:-1])
    with pytest.raises(DamagedStore, match="tile/0/001"):
        log_at(tmp_path / "log", write=False).leaf(300)


def test_a_proof_costs_few_tiles_and_hashes(tmp_path: Path) -> None:
    """Two tiles a level below the top one, which an opened log reads once: four from 65,537 leaves to 16 million."""
    log_at(tmp_path / "log").append(LEAVES, at=0)
    levels = (len(LEAVES).bit_length() + 7) // 8
    assert levels == (1_000_000).bit_length() // 8 + 1 == 3
    for index, size in ((12_345, 70_000), (0, 69_999), (69_999, 70_000), (65_535, 65_537), (300, 66_001), (5, 6)):
        reader = log_at(tmp_path / "log", write=False)
        assert reader.tiles_read == 0, "opening looks for names alone"
        assert len(reader.prove(index, size)) <= size.bit_length() <= 20
        assert reader.tiles_read - 1 <= 2 * (levels - 1) == 4
        reader = log_at(tmp_path / "log", write=False)
        assert len(reader.consistency(index + 1, size)) <= 2 * size.bit_length()
        assert reader.tiles_read - 1 <= 2 * (levels - 1)


def test_a_log_is_opened_with_few_looks(tmp_path: Path) -> None:
    log_at(tmp_path / "log").append(LEAVES, at=0)
    log = log_at(tmp_path / "log")
    assert log.tiles_read <= 3, "the last tile of each level"


def test_only_a_writer_writes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="to be read"):
        log_at(tmp_path / "log", write=False).append([b64decode("A" * 43 + "=")], at=0)

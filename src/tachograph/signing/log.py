"""One RFC 6962 log on disk, in the layout of C2SP tlog-tiles: hash tiles and a checkpoint.

Entry bundles are not kept: each entry is made again from the journal's record (docs/decisions/0010). Tiles of level 0
hold the leaves' hashes, 256 a file, the last one in a file that names its width; a tile of level n + 1 holds the heads
of those of level n. Invariants:

- what `append` acknowledged is on the disk: each tile is written whole under another name, synced, and put in place;
- level 0 decides how long the log is; a higher tile that a crash kept from being written is made again from below;
- a last tile that is not of the hashes that its name says counts for nothing in a log opened to be written: what a
  narrower one or none leaves is appended again by whoever has the journal, and `torn` names the file;
- appending what is there already changes nothing; appending something else there is refused;
- a checkpoint is never replaced by a smaller one, nor by one that does not continue it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from tachograph.errors import DamagedStore, Refused
from tachograph.signing.merkle import SIZE, consistency_proof, head_between, inclusion_proof, node_hash, root_of
from tachograph.signing.note import Checkpoint

WIDTH = 256  # hashes of a full tile
CHECKPOINT = "checkpoint"
_BITS = 8


class Disk(Protocol):
    """What of `store.disk.Disk` a log uses."""

    def create(self, path: str, data: bytes) -> None:
        """Write a file whole and durably."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def sync_folder(self, path: str) -> None:
        """Return once the names in this folder are on the disk."""


class Equivocation(DamagedStore):
    """One place of the log would hold two things: refused, whoever asks."""

    code = "equivocation"


class CheckpointRefused(Refused):
    """This checkpoint may not take the place of the one that is published."""

    code = "checkpoint_refused"

    def __init__(self, message: str, *, reason: str = "checkpoint_refused") -> None:
        super().__init__(message, reason=reason)


def tile_path(level: int, number: int, width: int = WIDTH) -> str:
    """Return a tile's path below the log's folder (tlog-tiles, "Merkle Tree")."""
    groups = [f"{number % 1000:03d}"]
    while number >= 1000:
        number //= 1000
        groups.append(f"x{number % 1000:03d}")
    path = f"tile/{level}/" + "/".join(reversed(groups))
    return path if width == WIDTH else f"{path}.p/{width}"


class TileLog:
    """A log's folder. One writer at a time, under the sealer's lock; readers need none."""

    def __init__(self, folder: str, *, disk: Disk, write: bool = False) -> None:
        """Open the log in `folder`, which may be empty. Raises DamagedStore where a tile is not of whole hashes."""
        self.folder = folder
        self._disk, self._write = disk, write
        self._tiles: dict[tuple[int, int], bytes] = {}
        self.tiles_read = 0
        self.torn: list[str] = []
        self.size = self._find_size()
        self._tails: list[list[bytes]] = []
        self._full: dict[int, int] = {}
        if write:
            self._open_tails()

    # -- reading

    def leaf(self, index: int) -> bytes:
        """Return a leaf's hash. Raises ValueError for none, DamagedStore."""
        if not 0 <= index < self.size:
            raise ValueError(f"no leaf {index} in a log of {self.size}")
        return self.node(0, index)

    def node(self, level: int, index: int) -> bytes:
        """Return the head of a complete subtree: 2**level leaves from leaf `index << level` on."""
        tile_level, below = divmod(level, _BITS)
        first = index << below
        number, at = divmod(first, WIDTH)
        hashes = self._tile(tile_level, number, at + (1 << below))
        row = [hashes[SIZE * n : SIZE * n + SIZE] for n in range(at, at + (1 << below))]
        while len(row) > 1:
            row = [node_hash(row[n], row[n + 1]) for n in range(0, len(row), 2)]
        return row[0]

    def root(self, size: int | None = None) -> bytes:
        """Return the head of the first `size` leaves (default: all). Raises ValueError beyond the log's end."""
        size = self.size if size is None else size
        if not 0 <= size <= self.size:
            raise ValueError(f"no head at size {size} of a log of {self.size}")
        return head_between(0, size, self.node)

    def prove(self, index: int, size: int) -> list[bytes]:
        """Return the audit path of a leaf in the tree of `size` leaves. Raises ValueError, DamagedStore."""
        if size > self.size:
            raise ValueError(f"no tree of {size} leaves in a log of {self.size}")
        return inclusion_proof(index, size, self.node)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Return the proof that size `new` continues size `old`. Raises ValueError from size 0, DamagedStore."""
        if new > self.size:
            raise ValueError(f"no tree of {new} leaves in a log of {self.size}")
        return consistency_proof(old, new, self.node)

    def leaves(self, first: int = 0) -> Iterator[bytes]:
        """Yield the leaves' hashes from one on, tile by tile."""
        for number in range(first // WIDTH, -(-self.size // WIDTH)):
            count = min(WIDTH, self.size - number * WIDTH)
            hashes = self._tile(0, number, count)
            for at in range(max(0, first - number * WIDTH), count):
                yield hashes[SIZE * at : SIZE * at + SIZE]

    def check(self) -> list[str]:
        """Make every higher tile again from the leaves; return what differs, each with its file."""
        faults = []
        below = self.size
        level = 0
        while below >= WIDTH:
            for number in range(below // WIDTH):
                tile = self._tile(level, number, WIDTH)
                head = root_of(tile[at : at + SIZE] for at in range(0, SIZE * WIDTH, SIZE))
                above, at = divmod(number, WIDTH)
                kept = self._tile(level + 1, above, at + 1)[SIZE * at : SIZE * at + SIZE]
                if kept != head:
                    place = f"{self._place(level + 1, above)}: bytes {SIZE * at} to {SIZE * at + SIZE - 1}"
                    faults.append(f"{place} are not the head of {self._place(level, number)}")
            below //= WIDTH
            level += 1
        return faults

    def checkpoint(self) -> bytes | None:
        """Return the published checkpoint, a signed note, or None."""
        return self.published(self.folder)

    @staticmethod
    def published(folder: str) -> bytes | None:
        """Return the checkpoint of the log in a folder, or None, without reading the log."""
        try:
            with open(os.path.join(folder, CHECKPOINT), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    # -- writing

    def append(self, hashes: Sequence[bytes], *, at: int) -> None:
        """Add leaves' hashes; the first is leaf `at`. Once it returns they are on the disk.

        What is there already and equal is passed over. Raises Equivocation where it differs, ValueError for a gap.
        """
        if not self._write:
            raise ValueError("the log was opened to be read")
        if at > self.size:
            raise ValueError(f"leaf {at} would leave a gap behind {self.size - 1}")
        for place, hashed in enumerate(hashes[: self.size - at], at):
            if self.leaf(place) != hashed:
                raise Equivocation(
                    f"{self.folder}: leaf {place} is another one than the journal's record of that number: log and "
                    "journal do not belong together; restore them from one backup"
                )
        fresh = hashes[self.size - at :]
        if not fresh:
            return
        before = self.size
        for hashed in fresh:
            self._push(0, hashed)
        self.size = before + len(fresh)
        for level, tail in enumerate(self._tails):
            if tail:
                self._put(level, (self.size >> _BITS * level) // WIDTH, b"".join(tail))
        self._drop_partials(before)

    def publish(self, checkpoint: bytes) -> None:
        """Put a signed checkpoint in place of the last one, durably. Raises CheckpointRefused, OSError."""
        new, published = Checkpoint.parse(checkpoint), self.checkpoint()
        if new.size > self.size or self.root(new.size) != new.root:
            raise CheckpointRefused(f"{self.folder}: this checkpoint is not of this log", reason="other_root")
        if published is not None:
            old = Checkpoint.parse(published)
            if new.size < old.size:
                raise CheckpointRefused(
                    f"{self.folder}: size {old.size} is published, {new.size} would take it back", reason="smaller"
                )
            if self.root(old.size) != old.root:
                raise CheckpointRefused(
                    f"{self.folder}: the published root of size {old.size} is another one: this would be a second log "
                    "under one name",
                    reason="other_root",
                )
        self._disk.create(os.path.join(self.folder, CHECKPOINT), checkpoint)

    def close(self) -> None:
        """Let go of what is held in memory."""
        self._tiles.clear()

    def _push(self, level: int, hashed: bytes) -> None:
        while len(self._tails) <= level:
            self._tails.append([])
        tail = self._tails[level]
        tail.append(hashed)
        if len(tail) == WIDTH:
            number = self._full.get(level, 0)
            self._put(level, number, b"".join(tail))
            self._full[level] = number + 1
            head = root_of(tail)
            tail.clear()
            self._push(level + 1, head)

    def _put(self, level: int, number: int, data: bytes) -> None:
        path = os.path.join(self.folder, tile_path(level, number, len(data) // SIZE))
        self._make_folder(os.path.dirname(path))
        self._disk.create(path, data)
        self._tiles[level, number] = data

    def _make_folder(self, path: str) -> None:
        """Make a tile's folder, durably: a file's own sync does not keep the folders above it."""
        if os.path.isdir(path):
            return
        above = os.path.dirname(path)
        self._make_folder(above)
        try:
            os.mkdir(path, mode=0o700)
        except FileExistsError:
            pass
        self._disk.sync_folder(above)

    def _drop_partials(self, before: int) -> None:
        """Remove the partial tiles that a wider or a full one has replaced."""
        level = 0
        while before >> _BITS * level:
            count, now = before >> _BITS * level, self.size >> _BITS * level
            if count % WIDTH and count != now:
                self._disk.remove(os.path.join(self.folder, tile_path(level, count // WIDTH, count % WIDTH)))
            level += 1

    def _open_tails(self) -> None:
        """Read the last tile of each level, made again from below where a crash kept it from being written."""
        level = 0
        while (count := self.size >> _BITS * level) or level == 0:
            number, width = divmod(count, WIDTH)
            self._full[level] = number
            if level and number:
                self._mend(level, number - 1, WIDTH)
            if level and width:
                self._mend(level, number, width)
            tail = self._tile(level, number, width)[: SIZE * width] if width else b""
            self._tails.append([tail[at : at + SIZE] for at in range(0, len(tail), SIZE)])
            level += 1

    def _mend(self, level: int, number: int, width: int) -> None:
        path = self._path(level, number)
        if path is not None and os.path.getsize(path) >= SIZE * width:
            return
        heads = []
        for below in range(number * WIDTH, number * WIDTH + width):
            tile = self._tile(level - 1, below, WIDTH)
            heads.append(root_of(tile[at : at + SIZE] for at in range(0, SIZE * WIDTH, SIZE)))
        self._put(level, number, b"".join(heads))

    # -- files

    def _tile(self, level: int, number: int, need: int) -> bytes:
        held = self._tiles.get((level, number))
        if held is not None and len(held) >= SIZE * need:
            return held
        for _ in range(3):  # a writer may replace a partial tile by a wider one meanwhile
            path = self._path(level, number)
            if path is None:
                break
            try:
                with open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                continue
            width = _width(path)
            if len(data) != SIZE * width or width < need:
                break
            self.tiles_read += 1
            if len(self._tiles) > 4096:
                self._tiles.clear()
            self._tiles[level, number] = data
            return data
        raise DamagedStore(
            f"{self._place(level, number)}: this tile of the log does not hold {need} whole hashes; restore it from a "
            "backup"
        )

    def _path(self, level: int, number: int) -> str | None:
        """Return the file of a tile, the widest one there is."""
        full = os.path.join(self.folder, tile_path(level, number))
        if os.path.exists(full):
            return full
        try:
            widths = [int(name) for name in os.listdir(full + ".p") if name.isdigit()]
        except OSError:
            return None
        return os.path.join(full + ".p", str(max(widths))) if widths else None

    def _place(self, level: int, number: int) -> str:
        return self._path(level, number) or os.path.join(self.folder, tile_path(level, number))

    def _find_size(self) -> int:
        """Find the last tile of level 0 by halving: O(log n) looks."""
        if self._path(0, 0) is None:
            return 0
        low, high = 0, 1
        while self._path(0, high) is not None:
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._path(0, middle) is not None else (low, middle)
        if self._write:
            self._drop_torn(low)
        path = self._path(0, low)
        if path is None:
            return low * WIDTH
        return low * WIDTH + _width(path)

    def _drop_torn(self, number: int) -> None:
        """Remove files of the last tile of level 0 that are not of the hashes that their names say."""
        while (path := self._path(0, number)) is not None and os.path.getsize(path) != SIZE * _width(path):
            self._disk.remove(path)
            self.torn.append(path)


def _width(path: str) -> int:
    name = os.path.basename(path)
    return int(name) if path.endswith(f".p/{name}") else WIDTH

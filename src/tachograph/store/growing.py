"""An open segment, written: one domain's content under one key, growing at its end.

Each commit appends one encrypted record: the items of the batch and what they add to the rope and the once lane,
compressed as the continuation of the record before, in chains of at most 32 (contracts/numbers.md row 5). Invariants:

- nothing already in the file is written again; what was added counts once `write` and `sync` have returned;
- the state in memory runs ahead of the file between `add` and `write`. Where a write fails the object must be dropped:
  opening the file again gives what is there.
"""

from __future__ import annotations

from collections.abc import Sequence

import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.store import items
from tachograph.store.disk import DISK, Disk
from tachograph.store.lanes import pack_words
from tachograph.store.opened import FIRST, FOLLOWING, TABLE, Content
from tachograph.store.records import Appender
from tachograph.store.rope import Rope
from tachograph.store.segment_file import Identity, encrypt

LONGEST_CHAIN = 32
# A segment of this many decoded bytes, or this many items, takes no more: what a reader decodes to get at one item of
# an open segment stays a few milliseconds.
FULL_BYTES, _FULL_ITEMS = 6 << 20, 8192
# Measured on 50 turns: the size of zstd's level 6 at the cost of its level 3. Behind a rope a window of 256 KiB is
# enough, and it keeps a context at 0.8 MB with many domains open.
_PARAMETERS = zstandard.ZstdCompressionParameters(
    window_log=18, hash_log=16, chain_log=16, search_log=2, min_match=4, target_length=16,
    strategy=zstandard.STRATEGY_LAZY, write_checksum=False, write_content_size=False,
)  # fmt: skip
_REMEMBERED = 4  # items whose large pieces become parents when a segment is opened again


class Growing:
    """The one writer of an open segment."""

    def __init__(self, content: Content, key: bytes, file: Appender | None, *, disk: Disk = DISK) -> None:
        self.content = content
        self._disk = disk
        self.dirty = False
        self._cipher = AESGCM(key)
        self._file = file
        self._rope = Rope(content.rope)
        content.rope = self._rope.data
        self._written = content.count, len(content.rope), len(content.once)
        self._chain: zstandard.ZstdCompressionObj | None = None
        self._links = 0
        for packed in content.items[-_REMEMBERED:]:
            if packed is not None:
                self._recall(items.unpack(packed))

    @classmethod
    def begin(cls, path: str, identity: Identity, key: bytes, *, disk: Disk = DISK) -> Growing:
        """Begin a segment. Its file comes with the first `write`, before which its key must be durable."""
        return cls(Content(path, identity), key, None, disk=disk)

    @classmethod
    def reopen(cls, content: Content, key: bytes, *, disk: Disk = DISK) -> Growing:
        """Go on with a segment that was read whole; a torn tail is cut. Raises OSError."""
        return cls(content, key, Appender(content.path, size=content.end, disk=disk), disk=disk)

    def _recall(self, item: items.Item) -> None:
        lengths = item.shape.lengths
        if len(item.ranges) and len(lengths):
            # The pieces of an item are behind one another in its ranges; taken as one they are as good a parent.
            self._rope.remember(self._rope.take(item.ranges), list(item.ranges))

    @property
    def memory(self) -> int:
        """Roughly how many bytes this object keeps in memory."""
        return self.content.memory + self._rope.memory + (1 << 20 if self._chain is not None else 0)

    def is_full(self, limit: int = FULL_BYTES) -> bool:
        """Whether the next log belongs into another segment: it holds `limit` decoded bytes, or many items."""
        content = self.content
        return len(content.rope) + len(content.once) >= limit or content.count >= _FULL_ITEMS

    def add(self, log: bytes, cuts: Sequence[int]) -> int:
        """Take a log in; return the number of its item. Raises Refused for one that is too large."""
        item, kept = items.encode(log, cuts, rope=self._rope, once_at=len(self.content.once))
        self.content.once += kept
        self.content.keep(item.pack())
        self.dirty = True
        return self.content.count - 1

    def write(self) -> None:
        """Append what was added as one record, not yet synced. Raises OSError: drop this object then."""
        if not self.dirty:
            return
        content = self.content
        if self._file is None:
            self._file = Appender.create(content.path, content.identity.preamble(), disk=self._disk)
        base_item, base_rope, base_once = self._written
        added = [item for item in content.items[base_item:] if item is not None]
        rope, once = bytes(content.rope[base_rope:]), bytes(content.once[base_once:])
        lengths = [len(item) for item in added]
        size = 4 * (TABLE + len(added)) + sum(lengths)
        first = self._chain is None or self._links == LONGEST_CHAIN
        if self._chain is None or first:
            self._chain = zstandard.ZstdCompressor(compression_params=_PARAMETERS).compressobj()
            self._links = 0
        bases = (base_item, base_rope, base_once) if first else (0, 0, 0)
        table = pack_words([size, len(added), len(rope), len(once), *bases, *lengths]) + b"".join(added)
        chain, block = self._chain, zstandard.COMPRESSOBJ_FLUSH_BLOCK
        # Two blocks, since numbers and text have different statistics (4 % measured); the rope first, which is what the
        # once lane repeats.
        parts = [chain.compress(table), chain.flush(block), chain.compress(rope + once), chain.flush(block)]
        plain = (FIRST if first else FOLLOWING) + b"".join(parts)
        body = encrypt(self._cipher, plain, content.identity, content.records, self._file.size)
        self._file.append([body])
        self._links += 1
        content.records += 1
        content.end = self._file.size
        self._written = content.count, len(content.rope), len(content.once)
        self.dirty = False

    def sync(self) -> None:
        """Return once everything written is on the disk. Raises OSError: the sealer must stop."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Close the file; what was added and not written is dropped."""
        if self._file is not None:
            self._file.close()

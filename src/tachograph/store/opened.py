"""An open segment, read: the lanes and the items that its records hold, and what of it is damaged.

Invariants:

- a torn tail is left out and named; everything before it loads;
- a damaged record costs what lies in it and what its chain built on it, never a later chain; whatever is asked of the
  lost part is refused with file and place;
- bytes that stand in for a lost part never leave this module: an item made of them fails its digest.
"""

from __future__ import annotations

from collections.abc import Sequence

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore
from tachograph.store import items
from tachograph.store.lanes import unpack_words
from tachograph.store.records import scan
from tachograph.store.rope import Range
from tachograph.store.segment_file import Identity, decrypt, read_identity

FIRST, FOLLOWING = b"\x01", b"\x00"  # whether a record begins a chain
TABLE = 7  # words in front of a record's items: see `Content.take_in`


class Content:
    """What an open segment holds, decoded: the lanes and the items, and what of it is damaged."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self.rope = bytearray()
        self.once = bytearray()
        self.items: list[bytes | None] = []
        self.item_bytes = 0
        self.records = 0
        self.end = 0
        self.torn: str | None = None
        self.damage: list[str] = []

    @property
    def count(self) -> int:
        """How many items there are, damaged ones included where a later record shows that they were."""
        return len(self.items)

    @property
    def memory(self) -> int:
        """Bytes kept in memory."""
        return len(self.rope) + len(self.once) + self.item_bytes

    def take_once(self, at: int, length: int) -> bytes:
        """Return a stretch of the once lane."""
        return bytes(self.once[at : at + length])

    def take_rope(self, ranges: Sequence[Range]) -> bytes:
        """Return ranges of the rope, behind one another."""
        rope = self.rope
        return b"".join([rope[at : at + length] for at, length in ranges])

    def read(self, number: int) -> bytes:
        """Return an item's log. Raises DamagedStore naming the file and item."""
        packed = self.items[number] if 0 <= number < len(self.items) else None
        if packed is None:
            why = "; ".join(self.damage) or self.torn or "the file ends before it"
            raise DamagedStore(f"{self.path}: item {number} cannot be read: {why}")
        try:
            return items.decode(items.unpack(packed), rope=self.take_rope, once=self.take_once)
        except DamagedStore as fault:
            why = "; ".join([str(fault), *self.damage])
            raise DamagedStore(f"{self.path}: item {number} is damaged: {why}") from None

    def keep(self, packed: bytes) -> None:
        """Add an item."""
        self.items.append(packed)
        self.item_bytes += len(packed) + 80

    def take_in(self, plain: bytes, first: bool) -> None:
        """Add one record's decompressed content. Raises DamagedStore where it does not parse."""
        size, count, rope, once, base_item, base_rope, base_once = _words(plain, 0, TABLE)
        if first:
            self._settle(base_item, base_rope, base_once)
        at = 4 * (TABLE + count)
        lengths = _words(plain, 4 * TABLE, count)
        for length in lengths:
            self.keep(plain[at : at + length])
            at += length
        if at != size or len(plain) != size + rope + once:
            raise DamagedStore("a record's parts do not fit it")
        self.rope += plain[size : size + rope]
        self.once += plain[size + rope :]

    def _settle(self, base_item: int, base_rope: int, base_once: int) -> None:
        """A chain begins: fill up what a damaged one before it held. What reads the filling fails its digest."""
        self.items += [None] * (base_item - len(self.items))
        self.rope += bytes(max(0, base_rope - len(self.rope)))
        self.once += bytes(max(0, base_once - len(self.once)))
        del self.items[base_item:], self.rope[base_rope:], self.once[base_once:]


def _words(plain: bytes, at: int, count: int) -> list[int]:
    words = unpack_words(plain[at : at + 4 * count]).tolist() if at + 4 * count <= len(plain) else []
    if len(words) != count:
        raise DamagedStore("a record is shorter than its own table")
    return words


def load(path: str, data: bytes, key: bytes) -> Content:
    """Decode an open segment's file. Raises DamagedStore only where its preamble is not to be trusted."""
    identity, at = read_identity(path, data)
    content = Content(path, identity)
    cipher = AESGCM(key)
    chain: zstandard.ZstdDecompressionObj | None = None
    found = scan(path, data, at, lambda number, place, body: True)
    content.torn, content.records, content.end = found.torn, len(found.records), found.end
    if found.damage:
        content.damage.append(found.damage)
    for number, record in enumerate(found.records):
        body = data[record.start : record.end]
        try:
            plain = decrypt(cipher, body, identity, number, record.at)
            if plain[:1] == FIRST:
                chain = zstandard.ZstdDecompressor().decompressobj()
            if chain is None:
                continue
            content.take_in(chain.decompress(plain[1:]), plain[:1] == FIRST)
        except (InvalidTag, ValueError, zstandard.ZstdError, DamagedStore) as fault:
            chain = None
            if number == len(found.records) - 1 and not any(body[-8:]):
                content.torn = f"{path}: record {number} at byte {record.at} was not written to its end"
                content.records, content.end = number, record.at
            else:
                what = str(fault) or "changed"
                content.damage.append(f"{path}: record {number} at byte {record.at} is not what was written ({what})")
    return content

"""A sealed segment: the same items at the same numbers, in large blocks that are decoded only where needed.

The first record is a directory; behind it lie the items, the rope and the once lane in blocks, each encrypted and
compressed by itself, the once lane with a block of the rope as dictionary (an answer's text is what the next request
repeats). Invariants:

- sealing changes no place: item n of the open segment is item n of the sealed one, byte for byte;
- a sealed file is written whole under another name, synced, and put in place by one rename: a crash leaves the open
  segment or the sealed one;
- a sealed file has no torn tail: anything missing or changed is damage, named by file, block and byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore
from tachograph.store import items
from tachograph.store.lanes import pack_words, unpack_words
from tachograph.store.opened import Content
from tachograph.store.records import HEAD, head, scan
from tachograph.store.rope import Range
from tachograph.store.segment_file import SEALED, decrypt, encrypt, read_identity

# 512 KiB: reading one item touches a block or two of each lane, each 0.2 ms to decode; larger ones gain 1 % of size.
BLOCK = 1 << 19
# Measured on 50 turns (sizes against xz -9e of the same content): level 9 1.22 in 3 ms, 15 1.18 in 21, 19 1.17 in 58.
LEVEL = 9
_ITEMS, _ROPE, _ONCE = 0, 1, 2
_PER_BLOCK = 4  # words in the directory: lane, first byte in it, bytes decoded, block of the rope as dictionary + 1
_FIXED = 2  # words before them: blocks, items


class _Block(NamedTuple):
    size: int
    dictionary: int  # number of a block of the rope, or -1
    record: int
    at: int
    end: int


def write_sealed(content: Content, key: bytes) -> bytes:
    """Return the sealed file of an open segment's content. Raises DamagedStore if any of it is lost."""
    if content.damage:
        raise DamagedStore("; ".join(content.damage))
    for number in range(content.count):
        content.read(number)  # what is sealed is what was stored: checked, since the open form goes
    packed = [item for item in content.items if item is not None]
    lanes = b"".join(packed), bytes(content.rope), bytes(content.once)
    table: list[int] = []
    blocks: list[bytes] = []
    for lane, data in enumerate(lanes):
        for start in range(0, len(data), BLOCK):
            piece, dictionary = data[start : start + BLOCK], -1
            if lane == _ONCE and lanes[_ROPE]:
                # What a block of the once lane is most like: the rope at the same part of the way through.
                dictionary = start * len(lanes[_ROPE]) // len(data) // BLOCK
            blocks.append(_compress(piece, lanes[_ROPE][dictionary * BLOCK :][:BLOCK] if dictionary >= 0 else b""))
            table += (lane, start, len(piece), dictionary + 1)
    words = [len(blocks), len(packed), *table, *(len(item) for item in packed)]
    identity = content.identity._replace(kind=SEALED)
    cipher = AESGCM(key)
    out = identity.preamble()
    for number, plain in enumerate([_compress(pack_words(words), b""), *blocks]):
        body = encrypt(cipher, plain, identity, number, len(out))
        out += head(len(out), body) + body
    return out


def _compress(data: bytes, dictionary: bytes) -> bytes:
    size = len(data)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=size + len(dictionary), dict_size=len(dictionary), write_checksum=False
    )
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=_known(dictionary)).compress(data)


def _known(dictionary: bytes) -> zstandard.ZstdCompressionDict | None:
    return zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if dictionary else None


class Sealed:
    """A sealed segment, read: blocks are decoded when first asked for, and kept."""

    def __init__(self, path: str, data: bytes, key: bytes) -> None:
        """Read the directory. Raises DamagedStore where the file is not what was written."""
        self.path = path
        self.identity, at = read_identity(path, data)
        self.memory = len(data)
        self._data = data
        self._cipher = AESGCM(key)
        self._decoded: dict[tuple[int, int], bytes] = {}
        found = scan(path, data, at, lambda number, place, body: True)
        fault = found.damage or found.torn
        if fault or not found.records:
            raise DamagedStore(f"{fault or path + ': the directory is missing'}; restore the segment from a backup")
        self._blocks: dict[tuple[int, int], _Block] = {}
        first = found.records[0]
        words = unpack_words(self._open(0, first.at, first.end, b"", limit=None)).tolist()
        count, self.count = words[:_FIXED] if len(words) >= _FIXED else (-1, 0)
        places, lengths = words[_FIXED : _FIXED + _PER_BLOCK * count], words[_FIXED + _PER_BLOCK * count :]
        if len(found.records) != count + 1 or len(lengths) != self.count:
            raise DamagedStore(f"{path}: the directory (byte {first.at}) does not fit; restore the file from a backup")
        for number, record in enumerate(found.records[1:]):
            lane, start, size, dictionary = places[_PER_BLOCK * number : _PER_BLOCK * (number + 1)]
            self._blocks[lane, start // BLOCK] = _Block(size, dictionary - 1, number + 1, record.at, record.end)
        self._starts = [0]
        for length in lengths:
            self._starts.append(self._starts[-1] + length)

    def _open(self, number: int, at: int, end: int, dictionary: bytes, *, limit: int | None) -> bytes:
        body = self._data[at + HEAD.size : end]
        known = _known(dictionary)
        try:
            plain = decrypt(self._cipher, body, self.identity, number, at)
            decoded = zstandard.ZstdDecompressor(dict_data=known).decompress(plain)
        except (InvalidTag, ValueError, zstandard.ZstdError):
            raise DamagedStore(f"{self.path}: block {number} at byte {at} is not what was written") from None
        if limit is not None and len(decoded) != limit:
            raise DamagedStore(f"{self.path}: block {number} at byte {at} has another size than the directory says")
        return decoded

    def _block(self, lane: int, number: int) -> bytes:
        decoded = self._decoded.get((lane, number))
        if decoded is not None:
            return decoded
        block = self._blocks.get((lane, number))
        if block is None:
            raise DamagedStore(f"{self.path}: an item refers to bytes that the segment does not hold")
        dictionary = self._block(_ROPE, block.dictionary) if block.dictionary >= 0 else b""
        decoded = self._open(block.record, block.at, block.end, dictionary, limit=block.size)
        self._decoded[lane, number] = decoded
        self.memory += len(decoded)
        return decoded

    def _take(self, lane: int, at: int, length: int) -> bytes:
        number, offset = divmod(at, BLOCK)
        if offset + length <= BLOCK:
            return self._block(lane, number)[offset : offset + length] if length else b""
        parts = [self._block(lane, number)[offset:]]
        length -= BLOCK - offset
        while length > 0:
            number += 1
            parts.append(self._block(lane, number)[:length])
            length -= BLOCK
        return b"".join(parts)

    def _take_once(self, at: int, length: int) -> bytes:
        return self._take(_ONCE, at, length)

    def _take_rope(self, ranges: Sequence[Range]) -> bytes:
        return b"".join([self._take(_ROPE, at, length) for at, length in ranges])

    def lanes(self) -> tuple[bytes, bytes]:
        """Return the whole rope and the whole once lane."""
        return self._lane(_ROPE), self._lane(_ONCE)

    def _lane(self, lane: int) -> bytes:
        return b"".join([self._block(lane, number) for of, number in sorted(self._blocks) if of == lane])

    def packed(self, number: int) -> bytes:
        """Return an item's bytes. Raises DamagedStore."""
        if not 0 <= number < self.count:
            raise DamagedStore(f"{self.path}: item {number} cannot be read: the segment holds {self.count}")
        return self._take(_ITEMS, self._starts[number], self._starts[number + 1] - self._starts[number])

    def read(self, number: int) -> bytes:
        """Return an item's log. Raises DamagedStore naming the file and the item or block."""
        try:
            return items.decode(items.unpack(self.packed(number)), rope=self._take_rope, once=self._take_once)
        except DamagedStore as fault:
            raise DamagedStore(f"{self.path}: item {number} cannot be read: {fault}") from None

"""One log as a segment keeps it: what it is made of, and the digest that says it was put together rightly.

An item is numbers and small lanes: the shape of the log, ranges of the rope, where its part of the once lane lies, the
heads, and the stencil's program. Invariants:

- `decode(encode(log))` is the log, checked against the SHA-256 of what was given, and never anything else;
- an item refers to the rope and the once lane of its own segment only, both of which never change.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from tachograph.errors import DamagedStore, Refused
from tachograph.store import stencil
from tachograph.store.lanes import (
    ROW,
    Shape,
    pack_program,
    pack_rows,
    pack_words,
    put_together,
    take_apart,
    unpack_program,
    unpack_rows,
    unpack_words,
)
from tachograph.store.rope import Range, Rope

LARGEST = 1 << 30  # AES-GCM's one-shot calls take 2^31 bytes, and a batch must fit one
_DIGEST = 32
_FIXED = 10  # words in front of the lists


class Item(NamedTuple):
    """What a log is made of. `once` is the place and length of its part of the once lane."""

    digest: bytes
    size: int
    shape: Shape
    rows: bytes
    ranges: Sequence[Range]
    once: Range
    program: list[int]

    def pack(self) -> bytes:
        """Return the item's bytes."""
        count, program = pack_program(self.program)
        shape = self.shape
        flat = [number for both in self.ranges for number in both]
        words = [
            self.size, shape.pieces, shape.regular, len(shape.lengths), len(shape.streamed), len(self.rows) // ROW,
            len(self.ranges), *self.once, count, *shape.lengths, *shape.streamed, *flat,
        ]  # fmt: skip
        return self.digest + pack_words(words) + self.rows + program


def unpack(packed: bytes) -> Item:
    """Read an item. Raises DamagedStore where its bytes do not hold what it says."""
    fixed = unpack_words(packed[_DIGEST : _DIGEST + 4 * _FIXED])
    if len(fixed) != _FIXED:
        raise DamagedStore("a stored item is cut short")
    size, pieces, regular, lengths, streamed, rows, ranges, once_at, once_length, count = fixed
    start = _DIGEST + 4 * _FIXED
    end = start + 4 * (lengths + streamed + 2 * ranges)
    words: array[int] = unpack_words(packed[start:end])
    if len(words) != lengths + streamed + 2 * ranges:
        raise DamagedStore("a stored item is cut short")
    flat = words[lengths + streamed :]
    shape = Shape(pieces, regular, words[:lengths], words[lengths : lengths + streamed])
    return Item(
        packed[:_DIGEST],
        size,
        shape,
        packed[end : end + rows * ROW],
        list(zip(flat[::2], flat[1::2], strict=True)),
        (once_at, once_length),
        unpack_program(count, packed[end + rows * ROW :]),
    )


def encode(log: bytes, cuts: Sequence[int], *, rope: Rope, once_at: int) -> tuple[Item, bytes]:
    """Take a log in: its new bytes go to the rope. Returns the item and the bytes for the once lane at `once_at`."""
    if len(log) > LARGEST:
        raise Refused(f"a log of {len(log):,} bytes is larger than a segment takes ({LARGEST:,})", reason="too_large")
    lanes = take_apart(log, cuts)
    program, kept = stencil.press(lanes.once)
    ranges = rope.add(lanes.large)
    digest = sha256(log).digest()
    return Item(digest, len(log), lanes.shape, pack_rows(lanes.rows), ranges, (once_at, len(kept)), program), kept


def decode(item: Item, *, rope: Callable[[Sequence[Range]], bytes], once: Callable[[int, int], bytes]) -> bytes:
    """Put a log together from the two lanes. Raises DamagedStore where the result is not what was taken in."""
    pressed = stencil.restore(item.program, once(*item.once))
    log = put_together(item.shape, unpack_rows(item.rows), pressed, rope(item.ranges))
    if len(log) != item.size or sha256(log).digest() != item.digest:
        raise DamagedStore("its parts do not make the log that was stored")
    return log

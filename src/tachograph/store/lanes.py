"""A log taken apart into lanes that compress well, and put together again.

A log is frames: a head of 32 bytes (length, kind, numbers, time), then a payload (formats.frame). The heads go into a
lane of their own as differences from head to head, column by column; payloads below 2 KiB and streamed events go,
pressed, into the *once* lane, which nothing refers to later; the large rest, request bodies above all, goes to the
rope. Invariants:

- any bytes with any cuts come back exactly; cuts are hints, and bad ones cost space only;
- nothing is decided at reading: what a piece is follows from its length and from what the shape lists.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from tachograph.errors import DamagedStore
from tachograph.formats import frame

ROW = frame.LENGTH.size + frame.HEADER.size
LARGE = 2048  # below it, ranges and parents cost more than a compressor's own window gives
_EVENT = b"\ndata:"  # what server-sent events have and a request body does not
_EVENT_WITHIN = 4096
_WORD = 1 << 32
_MODULUS = 1 << (8 * ROW)
LARGEST = _WORD - 1

REGULAR, IRREGULAR = 1, 0


class Shape(NamedTuple):
    """How the pieces of a log lie behind one another: numbers only."""

    pieces: int
    regular: int  # whether every second piece is as long as the head before it says
    lengths: Sequence[int]  # of the pieces; of every second one where the heads say the rest
    streamed: Sequence[int]  # which pieces lie in the once lane although they are large


class Lanes(NamedTuple):
    """A log, taken apart."""

    shape: Shape
    rows: list[bytes]
    once: bytes
    large: list[bytes]


def take_apart(log: bytes, cuts: Sequence[int]) -> Lanes:
    """Divide a log at its cuts. Offsets outside it are ignored, their order does not matter, repeats do."""
    size = len(log)
    bounds = sorted(cuts)
    if bounds and (bounds[0] < 0 or bounds[-1] > size):
        bounds = [cut for cut in bounds if 0 <= cut <= size]
    if not bounds or bounds[0]:
        bounds.insert(0, 0)
    bounds.append(size)
    rows: list[bytes] = []
    small: list[bytes] = []
    large: list[bytes] = []
    lengths: list[int] = []
    streamed: list[int] = []
    regular, expected = True, -1
    start = 0
    for number, end in enumerate(bounds[1:]):
        length = end - start
        piece = log[start:end]
        start = end
        lengths.append(length)
        if number & 1:
            regular = regular and length == expected
        else:
            expected = int.from_bytes(piece[:4], "little") + 4 - length
        if length == ROW:
            rows.append(piece)
        elif length < LARGE:
            small.append(piece)
        elif piece.find(_EVENT, 0, _EVENT_WITHIN) >= 0:
            streamed.append(number)
            small.append(piece)
        else:
            large.append(piece)
    shape = Shape(len(lengths), int(regular), lengths[::2] if regular else lengths, streamed)
    return Lanes(shape, rows, b"".join(small), large)


def put_together(shape: Shape, rows: list[bytes], once: bytes, large: bytes) -> bytes:
    """Return the log that was taken apart. Raises DamagedStore where the lanes do not fit the shape."""
    parts: list[bytes] = []
    heads = iter(rows)
    streamed = set(shape.streamed)
    once_at = large_at = 0
    expected = 0
    if len(shape.lengths) != ((shape.pieces + 1) >> 1 if shape.regular else shape.pieces):
        raise DamagedStore(f"a stored log of {shape.pieces} pieces has {len(shape.lengths)} lengths")
    for number in range(shape.pieces):
        if not shape.regular:
            length = shape.lengths[number]
        elif number & 1:
            length = expected
        else:
            length = shape.lengths[number >> 1]
        if length == ROW:
            piece = next(heads, b"")
        elif length < LARGE or number in streamed:
            piece = once[once_at : once_at + length]
            once_at += length
        else:
            piece = large[large_at : large_at + length]
            large_at += length
        if len(piece) != length:
            raise DamagedStore(f"a stored log's piece {number} is {len(piece)} bytes and should be {length}")
        if not number & 1:
            expected = int.from_bytes(piece[:4], "little") + 4 - length
        parts.append(piece)
    return b"".join(parts)


def pack_rows(rows: list[bytes]) -> bytes:
    """Return heads as differences from one to the next, byte column by byte column."""
    differences, before = [], 0
    for row in rows:
        number = int.from_bytes(row, "little")
        differences.append(((number - before) % _MODULUS).to_bytes(ROW, "little"))
        before = number
    joined = b"".join(differences)
    return b"".join([joined[column::ROW] for column in range(ROW)])


def unpack_rows(packed: bytes) -> list[bytes]:
    """Undo `pack_rows`. Raises DamagedStore for bytes that are no whole heads."""
    count, surplus = divmod(len(packed), ROW)
    if surplus:
        raise DamagedStore(f"{len(packed)} bytes of stored heads are cut short")
    joined = bytearray(len(packed))
    for column in range(ROW):
        joined[column::ROW] = packed[column * count : (column + 1) * count]
    rows, number = [], 0
    for at in range(0, len(joined), ROW):
        number = (number + int.from_bytes(joined[at : at + ROW], "little")) % _MODULUS
        rows.append(number.to_bytes(ROW, "little"))
    return rows


def pack_words(numbers: Sequence[int]) -> bytes:
    """Return numbers below 2^32 as little-endian words: what repeats from log to log must look the same each time."""
    words = array("I", numbers)
    if sys.byteorder == "big":
        words.byteswap()
    return words.tobytes()


def unpack_words(packed: bytes) -> array[int]:
    """Undo `pack_words`. Raises DamagedStore for bytes that are no words."""
    words = array("I")
    if len(packed) % words.itemsize:
        raise DamagedStore(f"{len(packed)} bytes of stored numbers are cut short")
    words.frombytes(packed)
    if sys.byteorder == "big":
        words.byteswap()
    return words


def pack_program(program: list[int]) -> tuple[int, bytes]:
    """Return (how many numbers, bytes): a byte each, and a word more for those that do not fit one."""
    if not program:
        return 0, b""
    wide = [number for number in program if number > 254]
    return len(program), bytes([number if number < 255 else 255 for number in program]) + pack_words(wide)


def unpack_program(count: int, packed: bytes) -> list[int]:
    """Undo `pack_program`. Raises DamagedStore where the bytes do not hold `count` numbers."""
    narrow = packed[:count]
    if 255 not in narrow:
        return list(narrow)
    wide = iter(unpack_words(packed[count:]))
    try:
        return [number if number < 255 else next(wide) for number in narrow]
    except StopIteration as fault:
        raise DamagedStore("a stored stream's program is cut short") from fault

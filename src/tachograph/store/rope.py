"""What a log repeats and what is new in it: one segment's rope of new bytes, and ranges of it for everything else.

Agent loops resend their whole history each turn; a time stamp in the prompt, a sliding window and one growing string
each defeat one simple scheme. Here a large piece is compared with a parent (the piece before it that begins alike):
common start, common end, and what stands behind an insertion or deletion in between, all by the interpreter's own
memory compare. What the parent does not hold is looked up at element borders and line ends among everything in the
rope, and the rest is new. Invariants:

- the rope only grows, so a range is for ever; ranges give the pieces back byte for byte;
- a piece's ranges refer to the rope and never to another piece: there is no chain to follow at reading;
- what is not found costs space, never correctness.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate

from tachograph.store.matching import Bytes, common_prefix, common_suffix, matches

Range = tuple[int, int]  # where in the rope, how many bytes

# Below this a range costs more than the compressor's back-reference would; SSE events (200 bytes) must stay below it
# too, or a stream would shatter into ranges.
_LEAST = 256
_FIRST_LEAST = 64  # at the start of a piece and for what an anchor names
# Anchors: where an element or a line begins (also inside a JSON string). 40 bytes behind it tell places apart; one
# every 96 bytes keeps the index at the size of the rope, and a large file with thousands of lines at less.
_ANCHOR = re.compile(rb"[{\n]|\\n")
_ANCHOR_LENGTH, _ANCHOR_GAP = 40, 96
# Where a piece is sampled to find its parent: the deepest sample that agrees names the piece with the most in common.
_DEPTHS = (64, 512, 2048, 8192, 32768, 131072, 524288)
_SAMPLE = 64
_PARENT_BYTES, _FEWEST_PARENTS = 1 << 20, 2


class _Parent:
    """A piece that later ones are compared with, and the ranges it is made of."""

    __slots__ = ("body", "ends", "ranges")

    def __init__(self, body: bytes, ranges: list[Range]) -> None:
        self.body = body
        self.ranges = ranges
        self.ends = list(accumulate([length for _, length in ranges]))

    def part(self, start: int, length: int) -> list[Range]:
        """Return the ranges of a stretch of the piece; `length` is at least 1."""
        stop = start + length
        first, last = bisect_right(self.ends, start), bisect_right(self.ends, stop - 1)
        out = self.ranges[first : last + 1]
        offset, size = out[0]
        skip = start - (self.ends[first] - size)
        out[0] = offset + skip, size - skip
        surplus = self.ends[last] - stop
        if surplus:
            offset, size = out[-1]
            out[-1] = offset, size - surplus
        return out


class Rope:
    """The new bytes of one segment, in order, and where to look for what is not new."""

    def __init__(self, data: Bytes = b"") -> None:
        """Start empty, or go on from the bytes of a segment that was written to before."""
        self.data = bytearray(data)
        self._anchors: dict[bytes, int] = {}
        self._samples: dict[tuple[int, bytes], int] = {}
        self._parents: OrderedDict[int, _Parent] = OrderedDict()
        self._parent_bytes = 0
        self._count = 0
        if data:
            whole = bytes(data)
            self._index(whole, [found.start() for found in _ANCHOR.finditer(whole)], 0)

    @property
    def memory(self) -> int:
        """Roughly how many bytes this object keeps in memory."""
        return len(self.data) + self._parent_bytes + 160 * len(self._anchors) + 200 * len(self._samples)

    def add(self, pieces: Sequence[bytes]) -> list[Range]:
        """Take pieces in, in order; return the ranges that make them up."""
        ranges: list[Range] = []
        for piece in pieces:
            own = self._take_in(piece)
            self.remember(piece, own)
            _extend(ranges, own)
        return ranges

    def take(self, ranges: Sequence[Range]) -> bytes:
        """Return the bytes of ranges, behind one another."""
        data = self.data
        return b"".join([data[at : at + length] for at, length in ranges])

    def remember(self, body: bytes, ranges: list[Range]) -> None:
        """Make a piece a parent for later ones."""
        if not body:
            return
        self._count += 1
        for depth in _DEPTHS:
            if depth > len(body):
                break
            self._samples[depth, body[depth - _SAMPLE : depth]] = self._count
        self._parents[self._count] = _Parent(body, ranges)
        self._parent_bytes += len(body)
        while self._parent_bytes > _PARENT_BYTES and len(self._parents) > _FEWEST_PARENTS:
            _, oldest = self._parents.popitem(last=False)
            self._parent_bytes -= len(oldest.body)

    def _parent_of(self, body: bytes) -> _Parent | None:
        for depth in reversed(_DEPTHS):
            if depth <= len(body):
                parent = self._parents.get(self._samples.get((depth, body[depth - _SAMPLE : depth]), 0))
                if parent is not None:
                    return parent
        return next(reversed(self._parents.values()), None)

    def _take_in(self, body: bytes) -> list[Range]:
        ranges: list[Range] = []
        parent = self._parent_of(body)
        at = 0
        if parent is not None:
            for start, known, length in matches(body, parent.body, ends=_FIRST_LEAST, least=_LEAST):
                self._unknown(body, at, start, ranges)
                _extend(ranges, parent.part(known, length))
                at = start + length
        self._unknown(body, at, len(body), ranges)
        return ranges

    def _unknown(self, body: bytes, at: int, end: int, ranges: list[Range]) -> None:
        """Take in what the parent does not hold: found by an anchor, or new."""
        if end - at < _FIRST_LEAST:
            self._new(body[at:end], ranges)
            return
        data, anchors = self.data, self._anchors
        places: list[int] = []
        for found in _ANCHOR.finditer(body, at, end):
            place = found.start()
            if place < at:
                continue
            known = anchors.get(body[place : place + _ANCHOR_LENGTH])
            if known is None:
                places.append(place)
                continue
            behind = common_prefix(body, place, data, known, min(end - place, len(data) - known))
            before = common_suffix(body, place, data, known, min(place - at, known))
            if before + behind < _FIRST_LEAST:
                places.append(place)
                continue
            self._fresh(body, at, place - before, places, ranges)
            places.clear()
            _extend(ranges, [(known - before, before + behind)])
            at = place + behind
        self._fresh(body, at, end, places, ranges)

    def _fresh(self, body: bytes, at: int, end: int, places: list[int], ranges: list[Range]) -> None:
        self._index(body, [place for place in places if place + _ANCHOR_LENGTH <= end], len(self.data) - at)
        self._new(body[at:end], ranges)

    def _index(self, body: bytes, places: list[int], shift: int) -> None:
        if not places:
            return
        following, gap = 0, max(_ANCHOR_GAP, places[-1] - places[0] >> 12)  # at most 4,096 for one stretch
        for place in places:
            if place >= following:
                self._anchors[body[place : place + _ANCHOR_LENGTH]] = place + shift
                following = place + gap

    def _new(self, data: bytes, ranges: list[Range]) -> None:
        if data:
            _extend(ranges, [(len(self.data), len(data))])
            self.data += data


def _extend(ranges: list[Range], more: list[Range]) -> None:
    """Append ranges, the first joined to the last where they touch."""
    if ranges and more:
        at, length = ranges[-1]
        if at + length == more[0][0]:
            ranges[-1] = at, length + more[0][1]
            ranges += more[1:]
            return
    ranges += more

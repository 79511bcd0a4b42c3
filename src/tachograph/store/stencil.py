"""Streams of near-identical events, written as what differs between them.

A streamed answer is hundreds of events that repeat one envelope around a few bytes of text. Left to a compressor they
cost five bytes and two microseconds each; written as one envelope, its holes' contents in columns, and the lengths of
these, the contents stand together as the text that the next request will repeat. Invariants:

- `restore(*press(text))` is `text`, for any bytes (a property test): nothing is parsed, only cut and put together;
- a text that gains nothing is returned as it is, with an empty program.

The program is a list of numbers (`formats` for ever: version 1 is what `restore` reads below); the kept bytes are the
literal events, the envelopes and the columns, in the order in which the program asks for them.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from tachograph.errors import DamagedStore
from tachograph.store.matching import common_prefix, common_suffix

_DELIMITERS = (b"\n\n", b"\r\n\r\n", b"\n")
_FEWEST = 6  # events: below that an envelope costs more than it saves
_ENVELOPE = 40  # bytes that neighbours must share to be taken as one envelope
_CONSTANT = re.compile(rb'"[^"]{6,}"')  # what may stand between two holes: found once per run, not per event
_DEEPEST = 4  # holes per event, at most, that are told apart

LITERAL, RUN = 0, 1
LEAF, SPLIT, COUNTED = 0, 1, 2


def press(text: bytes) -> tuple[list[int], bytes]:
    """Return (program, kept) from which `restore` makes `text` again."""
    chosen = next((number for number, delimiter in enumerate(_DELIMITERS) if text.count(delimiter) >= _FEWEST), None)
    if chosen is None:
        return [], text
    events = text.split(_DELIMITERS[chosen])
    program: list[int] = [chosen]
    kept: list[bytes] = []
    at, waiting, total, runs = 0, 0, len(events), 0
    while at < total:
        until, prefix, suffix = _run(events, at)
        if until - at < 3:
            waiting += 1
            at += 1
            continue
        if waiting:
            _literal(events[at - waiting : at], program, kept)
            waiting = 0
        first = events[at]
        program += (RUN, until - at, prefix, suffix)
        kept.append(first[:prefix])
        kept.append(first[len(first) - suffix :])
        if suffix:
            holes = [event[prefix:-suffix] for event in events[at:until]]
        else:
            holes = [event[prefix:] for event in events[at:until]]
        _column(holes, program, kept, _DEEPEST)
        at = until
        runs += 1
    if not runs:
        return [], text
    if waiting:
        _literal(events[total - waiting :], program, kept)
    return program, b"".join(kept)


def _literal(events: list[bytes], program: list[int], kept: list[bytes]) -> None:
    program += (LITERAL, len(events))
    program += map(len, events)
    kept += events


def _run(events: list[bytes], at: int) -> tuple[int, int, int]:
    """Return where the run of events like the one at `at` ends, and how much they share at either end."""
    if at + 1 >= len(events):
        return at + 1, 0, 0
    first, second = events[at], events[at + 1]
    room = min(len(first), len(second))
    if room < _ENVELOPE:
        return at + 1, 0, 0
    prefix = common_prefix(first, 0, second, 0, room)
    suffix = common_suffix(first, len(first), second, len(second), room - prefix)
    # Back to a quote or colon, on to a quote: two neighbouring texts that begin alike must not become part of the
    # envelope, two numbers that begin alike neither.
    colon = first.rfind(b":", 0, prefix) + 1
    prefix = max(first.rfind(b'"', 0, prefix) + 1, colon + (first[colon : min(colon + 1, prefix)] == b" "))
    quote = first.find(b'"', len(first) - suffix)
    suffix = 0 if quote < 0 else len(first) - quote
    if prefix + suffix < max(_ENVELOPE, len(second) // 2):
        return at + 1, 0, 0  # among others the first event, which has something else before it
    head, tail, least = first[:prefix], first[len(first) - suffix :], prefix + suffix
    until = at + 2
    for event in events[until:]:
        if not (event.startswith(head) and event.endswith(tail) and len(event) >= least):
            break
        until += 1
    return until, prefix, suffix


def _column(values: list[bytes], program: list[int], kept: list[bytes], depth: int) -> None:
    """Write one hole's contents: split at what they all contain, counted up, or as they are with their lengths."""
    constant = _constant(values) if depth else b""
    if constant:
        program += (SPLIT, len(constant))
        kept.append(constant)
        parts = [value.partition(constant) for value in values]
        _column([part[0] for part in parts], program, kept, depth - 1)
        _column([part[2] for part in parts], program, kept, depth - 1)
        return
    counted = _counted(values)
    if counted is not None:
        program += (COUNTED, *counted)
        return
    program.append(LEAF)
    program += map(len, values)
    kept += values


def _constant(values: list[bytes]) -> bytes:
    """Return bytes that stand in every value and may divide it, or nothing."""
    found = _CONSTANT.search(values[0])
    if found is None:
        return b""
    first, second = values[0], values[1]
    place = second.find(found.group())
    if place < 0:
        return b""
    start, end = found.span()
    before = common_suffix(first, start, second, place, min(start, place))
    rest = place + end - start
    behind = common_prefix(first, end, second, rest, min(len(first) - end, len(second) - rest))
    constant = first[start - before : end + behind]
    constant = constant[: constant.rfind(b'"') + 1]
    return constant if all(constant in value for value in values) else b""


def _counted(values: list[bytes]) -> tuple[int, int] | None:
    """Return (first, step) if the values are whole numbers, written plainly, that count up evenly."""
    if not (values[0].isdigit() and len(values[0]) < 10 and values[1].isdigit() and len(values[1]) < 10):
        return None
    first, step = int(values[0]), int(values[1]) - int(values[0])
    if not 0 <= step < 1 << 31 or first + step * len(values) >= 1 << 32:
        return None
    return (first, step) if values == _count(first, step, len(values)) else None


def _count(first: int, step: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + step * count, step)] if step else [b"%d" % first] * count


def restore(program: list[int], kept: bytes) -> bytes:
    """Return the text that `press` was given. Raises DamagedStore where program and bytes do not fit."""
    if not program:
        return kept
    reader = _Reader(program, kept)
    events: list[bytes] = []
    try:
        delimiter = _DELIMITERS[reader.number()]
        while reader.more():
            if reader.number() == LITERAL:
                events += reader.values(reader.number())
                continue
            count, prefix, suffix = reader.number(), reader.number(), reader.number()
            head, tail = reader.take(prefix), reader.take(suffix)
            events += [head + hole + tail for hole in reader.column(count)]
    except IndexError as fault:
        raise DamagedStore("a stored stream's program does not fit its bytes") from fault
    return delimiter.join(events)


class _Reader:
    """Walks a program and the bytes it asks for."""

    __slots__ = ("_at", "_kept", "_place", "_program")

    def __init__(self, program: list[int], kept: bytes) -> None:
        self._program = program
        self._kept = kept
        self._at = 0
        self._place = 0

    def more(self) -> bool:
        return self._at < len(self._program)

    def number(self) -> int:
        self._at += 1
        return self._program[self._at - 1]

    def take(self, length: int) -> bytes:
        self._place += length
        return self._kept[self._place - length : self._place]

    def values(self, count: int) -> list[bytes]:
        lengths = self._program[self._at : self._at + count]
        if len(lengths) != count:
            raise IndexError
        self._at += count
        kept, place = self._kept, self._place
        ends = list(accumulate(lengths, initial=place))
        self._place = ends[-1]
        return [kept[start:end] for start, end in pairwise(ends)]

    def column(self, count: int) -> list[bytes]:
        what = self.number()
        if what == LEAF:
            return self.values(count)
        if what == COUNTED:
            return _count(self.number(), self.number(), count)
        constant = self.take(self.number())
        left, right = self.column(count), self.column(count)
        return [before + constant + behind for before, behind in zip(left, right, strict=True)]

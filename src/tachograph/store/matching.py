"""Where two byte strings agree: the few comparisons that deduplication is built on.

Every function works on slices, so that the interpreter's own memory compare does the work: no Python per byte. All of
them are exact: what they report as equal is equal, byte for byte; what they miss costs space, never correctness.
"""

from __future__ import annotations

from collections.abc import Iterator

Bytes = bytes | bytearray

# A step starts at 64 bytes (most disagreements in re-sent requests lie in the first line) and doubles to 64 KiB, from
# where larger steps measured no faster.
_FIRST_STEP, _LARGEST_STEP = 64, 65536

PROBE = 32  # bytes that must agree for two places to be taken as the same
# How far behind a disagreement to look for agreement: doubling, so that a change of n bytes is bridged by a match of
# about n bytes behind it, with a dozen probes whatever the size.
_AHEAD = (0, 24, 56, 120, 248, 504, 1016, 2040, 4088, 8184, 16376, 32760, 65528, 131064, 262136, 1048568)
_NEAR = 4096


def common_prefix(left: Bytes, left_at: int, right: Bytes, right_at: int, limit: int) -> int:
    """Return how many bytes from both places on agree, at most `limit` (which both must hold)."""
    agreed, step = 0, _FIRST_STEP
    while agreed < limit:
        step = min(step, limit - agreed)
        a = left[left_at + agreed : left_at + agreed + step]
        b = right[right_at + agreed : right_at + agreed + step]
        if a == b:
            agreed += step
            step = min(step * 2, _LARGEST_STEP)
        elif step <= _FIRST_STEP:
            differing = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
            return agreed + step - (differing.bit_length() + 7) // 8
        else:
            step = max(step // 4, _FIRST_STEP)
    return agreed


def common_suffix(left: Bytes, left_end: int, right: Bytes, right_end: int, limit: int) -> int:
    """Return how many bytes before both places agree, at most `limit` (which both must hold)."""
    agreed, step = 0, _FIRST_STEP
    while agreed < limit:
        step = min(step, limit - agreed)
        a = left[left_end - agreed - step : left_end - agreed]
        b = right[right_end - agreed - step : right_end - agreed]
        if a == b:
            agreed += step
            step = min(step * 2, _LARGEST_STEP)
        elif step <= _FIRST_STEP:
            differing = int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
            return agreed + step - (differing.bit_length() + 7) // 8
        else:
            step = max(step // 4, _FIRST_STEP)
    return agreed


def matches(new: Bytes, known: Bytes, *, ends: int, least: int, most: int = 512) -> Iterator[tuple[int, int, int]]:
    """Yield (place in `new`, place in `known`, length) of stretches that agree, in order in both and apart in `new`.

    Finds what editing a re-sent request leaves: a common start and end of at least `ends` bytes each, and in between
    what stands behind an insertion, a deletion or a changed spot, each at least `least` bytes, at most `most` of them.
    """
    room = min(len(new), len(known))
    head = common_prefix(new, 0, known, 0, room)
    tail = common_suffix(new, len(new), known, len(known), room - head)
    if head >= ends:
        yield 0, 0, head
    else:
        head = 0
    if tail < ends:
        tail = 0
    at, end = head, len(new) - tail
    known_at, known_end = head, len(known) - tail
    while most and at < end and known_at < known_end:
        found = _agreement(new, at, end, known, known_at, known_end, least)
        if found is None:
            break
        start, known_start, length = found
        yield start, known_start, length
        at, known_at = start + length, known_start + length
        most -= 1
    if tail:
        yield end, known_end, tail


def _agreement(
    new: Bytes, at: int, end: int, known: Bytes, known_at: int, known_end: int, least: int
) -> tuple[int, int, int] | None:
    """Return the next stretch at or behind both places, or None. Near places first: they cost little to search."""
    for reach in (_NEAR, known_end - known_at):
        for ahead in _AHEAD:
            place = at + ahead
            probe = new[place : place + PROBE]
            if place + PROBE > end:
                break
            known_place = known.find(probe, known_at, min(known_end, known_at + ahead + reach))
            if known_place < 0:
                continue
            before = common_suffix(new, place, known, known_place, min(place - at, known_place - known_at))
            behind = common_prefix(new, place, known, known_place, min(end - place, known_end - known_place))
            if before + behind >= least:
                return place - before, known_place - before, before + behind
        if known_end - known_at <= _NEAR:
            break
    return None

"""What is reported as equal is equal, and what an edit leaves is found."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from tachograph.store.matching import common_prefix, common_suffix, matches

pieces = st.lists(st.sampled_from([b"a", b"b" * 30, b"c" * 100, b"\x00", b"ab" * 200]), max_size=12).map(b"".join)


@given(pieces, pieces, st.data())
def test_a_common_start_and_end_are_exact(left: bytes, right: bytes, data: st.DataObject) -> None:
    left_at, right_at = data.draw(st.integers(0, len(left))), data.draw(st.integers(0, len(right)))
    limit = min(len(left) - left_at, len(right) - right_at)
    agreed = common_prefix(left, left_at, right, right_at, limit)
    assert left[left_at : left_at + agreed] == right[right_at : right_at + agreed]
    assert agreed == limit or left[left_at + agreed] != right[right_at + agreed]
    limit = min(left_at, right_at)
    agreed = common_suffix(left, left_at, right, right_at, limit)
    assert left[left_at - agreed : left_at] == right[right_at - agreed : right_at]
    assert agreed == limit or left[left_at - agreed - 1] != right[right_at - agreed - 1]


@given(pieces, pieces)
def test_stretches_agree_stand_in_order_and_do_not_overlap(new: bytes, known: bytes) -> None:
    at = known_at = 0
    for start, known_start, length in matches(new, known, ends=16, least=64):
        at_an_end = 0 in (start, known_start) or start + length == len(new)
        assert length >= (16 if at_an_end else 64)
        assert new[start : start + length] == known[known_start : known_start + length]
        assert start >= at
        assert known_start >= known_at
        at, known_at = start + length, known_start + length
    assert at <= len(new)
    assert known_at <= len(known)


def test_a_stretch_that_is_too_short_is_left_out() -> None:
    shared = [os.urandom(200) for _ in range(4)]
    known = b"".join(part + os.urandom(100) for part in shared)
    new = b"".join(os.urandom(100) + part for part in shared) + os.urandom(100)
    assert found(new, known) == 0
    assert sum(length for _, _, length in matches(new, known, ends=64, least=150)) == 800


def found(new: bytes, known: bytes) -> int:
    return sum(length for _, _, length in matches(new, known, ends=64, least=256))


def test_a_changed_spot_an_insertion_a_deletion_and_a_moved_window_are_bridged() -> None:
    noise = os.urandom
    known = noise(50_000)
    assert found(known, known) == len(known)
    spot = known[:2_000] + noise(26) + known[2_026:]
    assert found(spot, known) == len(known) - 26
    inserted = known[:20_000] + noise(3_000) + known[20_000:]
    assert found(inserted, known) == len(known)
    deleted = known[:4_000] + known[7_000:]
    assert found(deleted, known) == len(deleted)
    window = known[:4_000] + known[6_000:] + noise(2_000)
    assert found(window, known) == len(window) - 2_000
    many = b"".join(known[at : at + 900] + noise(20) for at in range(0, 50_000, 1_000))
    assert found(many, known) >= 900 * 49


def test_bytes_with_nothing_in_common_share_nothing() -> None:
    assert found(os.urandom(20_000), os.urandom(20_000)) == 0

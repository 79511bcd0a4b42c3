"""An item gives its log back, checked, or says that it cannot."""

from __future__ import annotations

import pytest
from hypothesis import given

from tachograph.errors import DamagedStore, Refused
from tachograph.store.items import LARGEST, decode, encode, unpack
from tachograph.store.rope import Rope
from tests.store.kept import conversation, logs


@given(logs())
def test_any_log_comes_back_exactly(some: list[tuple[bytes, list[int]]]) -> None:
    rope, once, packed = Rope(), b"", []
    for log, cuts in some:
        item, kept = encode(log, cuts, rope=rope, once_at=len(once))
        once += kept
        packed.append(item.pack())
    for (log, _), item in zip(some, packed, strict=True):
        assert decode(unpack(item), rope=rope.take, once=lambda at, length: once[at : at + length]) == log


def test_a_byte_changed_anywhere_in_what_an_item_is_made_of_is_refused() -> None:
    rope = Rope()
    log, cuts = conversation(1)[0]
    item, once = encode(log, cuts, rope=rope, once_at=0)
    packed, new = item.pack(), bytes(rope.data)

    def read(packed: bytes, new: bytes, once: bytes) -> bytes:
        return decode(
            unpack(packed),
            rope=lambda ranges: b"".join(new[at : at + length] for at, length in ranges),
            once=lambda at, length: once[at : at + length],
        )

    assert read(packed, new, once) == log
    for part in range(3):
        original = (packed, new, once)[part]
        for at in range(0, len(original), 1 if part == 0 else 7):
            parts = [bytearray(packed), bytearray(new), bytearray(once)]
            parts[part][at] ^= 1
            try:
                same = read(*map(bytes, parts)) == log
            except DamagedStore:
                continue
            assert same  # a number that nothing depends on


def test_an_item_cut_short_is_damage() -> None:
    item, _ = encode(*conversation(1)[0], rope=Rope(), once_at=0)
    for size in range(0, 72, 3):
        with pytest.raises(DamagedStore, match="cut short"):
            unpack(item.pack()[:size])


def test_a_log_that_no_segment_takes_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return LARGEST + 1

    with pytest.raises(Refused, match="larger than a segment takes") as refused:
        encode(Huge(), [], rope=Rope(), once_at=0)
    assert refused.value.reason == "too_large"

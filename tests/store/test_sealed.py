"""A sealed segment gives back what the open one held, in fewer bytes, and names the byte that was changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store.growing import Growing
from tachograph.store.opened import Content, load
from tachograph.store.sealed import BLOCK, Sealed, write_sealed
from tachograph.store.segment_file import OPEN, Identity
from tests.store.kept import DOMAIN, MARKER, conversation, logs

KEY = b"k" * 32
IDENTITY = Identity(OPEN, b"s" * 16, 0, DOMAIN)


def grown(some: list[tuple[bytes, list[int]]]) -> Content:
    growing = Growing.begin("unwritten", IDENTITY, KEY)
    for log, cuts in some:
        growing.add(log, cuts)
    return growing.content


@settings(max_examples=60)
@given(logs())
def test_sealed_and_open_are_the_same(some: list[tuple[bytes, list[int]]]) -> None:
    content = grown(some)
    sealed = Sealed("sealed", write_sealed(content, KEY), KEY)
    assert sealed.count == content.count == len(some)
    for number, (log, _) in enumerate(some):
        assert sealed.read(number) == content.read(number) == log
    assert sealed.lanes() == (bytes(content.rope), bytes(content.once))


def test_an_empty_segment_can_be_sealed() -> None:
    sealed = Sealed("sealed", write_sealed(grown([]), KEY), KEY)
    assert sealed.count == 0
    with pytest.raises(DamagedStore, match="item 0 cannot be read: the segment holds 0"):
        sealed.read(0)


def test_logs_of_many_blocks_come_back_whatever_block_is_asked_for_first() -> None:
    some = [(bytes(str(seed), "ascii") * 1 + seed.to_bytes(4, "little") * (BLOCK // 3), [0]) for seed in range(5)]
    some += [((b"data: %d\n\n" % seed) * (BLOCK // 16), [0]) for seed in range(3)]
    data = write_sealed(grown(some), KEY)
    for number in reversed(range(len(some))):
        assert Sealed("sealed", data, KEY).read(number) == some[number][0]


def test_one_item_decodes_the_blocks_that_it_needs_and_no_others() -> None:
    some = [(seed.to_bytes(4, "little") * (BLOCK // 4), [0]) for seed in range(6)]
    sealed = Sealed("sealed", write_sealed(grown(some), KEY), KEY)
    before = sealed.memory
    sealed.read(5)
    assert sealed.memory - before <= 3 * BLOCK


def test_a_byte_changed_anywhere_is_refused_and_what_is_served_is_exact() -> None:
    some = conversation(3, long=200)
    data = write_sealed(grown(some), KEY)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        refused = 0
        try:
            sealed = Sealed("name.seg", bytes(changed), KEY)
        except DamagedStore as fault:
            assert "name.seg" in str(fault)  # noqa: PT017 - every byte has its own fault
            continue
        for number, (log, _) in enumerate(some):
            try:
                assert sealed.read(number) == log
            except DamagedStore as fault:
                assert f"name.seg: item {number} " in str(fault)  # noqa: PT017
                refused += 1
        assert refused


def test_cut_at_any_byte_it_is_refused() -> None:
    data = write_sealed(grown(conversation(2, long=20)), KEY)
    for size in range(len(data)):
        with pytest.raises(DamagedStore, match="sealed"):
            Sealed("sealed", data[:size], KEY)


def test_what_is_damaged_is_not_sealed(tmp_path: Path) -> None:
    path = tmp_path / "one.seg"
    growing = Growing.begin(str(path), IDENTITY, KEY)
    for log, cuts in conversation(3, long=200):
        growing.add(log, cuts)
        growing.write()
    growing.close()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with pytest.raises(DamagedStore, match="record 2"):
        write_sealed(load(str(path), bytes(data), KEY), KEY)
    content = load(str(path), path.read_bytes(), KEY)
    content.rope[5] ^= 1  # as a bad memory cell does
    with pytest.raises(DamagedStore, match="item 0 is damaged"):
        write_sealed(content, KEY)


def test_another_key_opens_nothing_and_no_word_of_the_content_is_in_the_file() -> None:
    data = write_sealed(grown(conversation(5)), KEY)
    assert MARKER not in data
    with pytest.raises(DamagedStore, match="block 0"):
        Sealed("sealed", data, b"o" * 32)


@given(st.integers(1, 30))
@settings(max_examples=10)
def test_sealing_makes_it_smaller(turns: int) -> None:
    content = grown(conversation(turns))
    decoded = len(content.rope) + len(content.once) + content.item_bytes
    assert len(write_sealed(content, KEY)) < decoded / 2

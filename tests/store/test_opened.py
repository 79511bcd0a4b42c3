"""An open segment loads what is whole, names what is not, and never serves a changed byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.store.segments import Place
from tests.store.kept import Kept, conversation


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


LOGS = conversation(4, long=200)  # long enough for the rope


def stored(kept: Kept) -> tuple[list[Place], Path]:
    places = kept.put(*LOGS)
    return places, Path(kept.store.segments) / f"{places[0].segment}.seg"


def outcomes(kept: Kept, places: list[Place]) -> list[bool]:
    """Which items a fresh reader gives back; what it gives is exact."""
    readable = []
    with kept.content() as content:
        for place, (log, _) in zip(places, LOGS, strict=True):
            try:
                assert content.read(place) == log
                readable.append(True)
            except DamagedStore as fault:
                assert place.segment in str(fault)  # noqa: PT017 - every byte has its own fault
                readable.append(False)
    return readable


def test_a_byte_changed_anywhere_is_refused_and_what_is_served_is_exact(kept: Kept) -> None:
    places, path = stored(kept)
    data = path.read_bytes()
    assert outcomes(kept, places) == [True] * 4
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(changed))
        readable = outcomes(kept, places)
        assert not all(readable)
        assert readable == sorted(readable, reverse=True)  # what lies before the damage is served
    path.write_bytes(data)
    assert outcomes(kept, places) == [True] * 4


def test_cut_at_any_byte_the_items_before_load(kept: Kept) -> None:
    places, path = stored(kept)
    data = path.read_bytes()
    counts = []
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        readable = outcomes(kept, places)
        assert readable == sorted(readable, reverse=True)
        counts.append(sum(readable))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 4


def test_a_refusal_names_file_item_and_byte(kept: Kept) -> None:
    places, path = stored(kept)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(DamagedStore, match=rf"{places[3].segment}\.seg: item 3 .*record 3 at byte \d+"):
        kept.read(places[3])


def test_what_a_later_chain_took_from_a_damaged_one_is_refused_with_it(kept: Kept) -> None:
    first = kept.put(*LOGS[:2])
    second = kept.put(*LOGS[2:])  # another process, another chain
    assert {place.segment for place in first + second} == {first[0].segment}
    assert [place.item for place in first + second] == [0, 1, 2, 3]
    path = Path(kept.store.segments) / f"{first[0].segment}.seg"
    data = bytearray(path.read_bytes())
    data[60] ^= 1  # in the first record
    path.write_bytes(bytes(data))
    readable = outcomes(kept, first + second)
    assert readable[:2] == [False, False]
    # What the second chain took over from the first is gone with it, and that is said.
    with kept.content() as content, pytest.raises(DamagedStore, match=r"item 3 .*record 0 at byte"):
        content.read(second[1])


def test_a_later_chain_that_needs_nothing_of_a_damaged_one_is_served(kept: Kept) -> None:
    alone = b"nothing like the others " * 40
    first = kept.put(*LOGS[:2])
    second = kept.put((alone, []))
    path = Path(kept.store.segments) / f"{first[0].segment}.seg"
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(bytes(data))
    assert kept.read(second[0]) == alone
    with pytest.raises(DamagedStore):
        kept.read(first[0])

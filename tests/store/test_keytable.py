"""The key table gives back what was committed, finds every change, and forgets what was left out of a rewrite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.keytable import SECRET, SEGMENT, KeyTable
from tests.store.kept import DOMAIN, OTHER_DOMAIN, FailingSync, Kept, PowerCut, StoppingDisk

KEYS = [
    (SEGMENT, b"s" * 17, DOMAIN, b"1" * 32),
    (SECRET, b"dec_1", DOMAIN, b"2" * 32),
    (SECRET, b"dec_2", OTHER_DOMAIN, b"3" * 32),
]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def filled(kept: Kept) -> Path:
    table = kept.keys(write=True)
    for one in KEYS:
        table.add(*one)
        table.commit()
    table.close()
    return Path(kept.store.path) / "keys"


def held(table: KeyTable) -> dict[tuple[int, bytes], bytes]:
    return {(kind, id): table.get(kind, id) for kind in (SEGMENT, SECRET) for id, _ in table.entries(kind)}


def expected(count: int) -> dict[tuple[int, bytes], bytes]:
    return {(kind, id): key for kind, id, _, key in KEYS[:count]}


def test_committed_keys_are_there_in_a_fresh_process_and_no_key_is_in_the_file(kept: Kept) -> None:
    path = filled(kept)
    table = kept.keys()
    assert held(table) == expected(3)
    assert len(table) == 3
    assert (SECRET, b"dec_1") in table
    assert list(table.entries(SECRET)) == [(b"dec_1", DOMAIN), (b"dec_2", OTHER_DOMAIN)]
    assert not any(key in path.read_bytes() for _, _, _, key in KEYS)


def test_a_key_that_was_not_committed_is_not_there(kept: Kept) -> None:
    filled(kept)
    table = kept.keys(write=True)
    table.add(SECRET, b"dec_3", DOMAIN, b"4" * 32)
    assert table.get(SECRET, b"dec_3") == b"4" * 32
    table.close()
    with pytest.raises(KeyMissing, match=r"decision dec_3.*erased, or never committed"):
        kept.keys().get(SECRET, b"dec_3")


def test_a_byte_changed_anywhere_is_refused_by_name(kept: Kept) -> None:
    path = filled(kept)
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x20
        path.write_bytes(bytes(changed))
        with pytest.raises((DamagedStore, KeyMissing), match="keys"):
            kept.keys(write=True)
        refused = 0
        for number in range(3):
            kind, id, _, key = KEYS[number]
            try:
                assert kept.keys().get(kind, id) == key
            except (DamagedStore, KeyMissing) as fault:
                assert "keys" in str(fault)  # noqa: PT017 - every byte has its own fault
                refused += 1
        assert refused
        assert path.read_bytes() == bytes(changed)  # nothing was cut


def test_cut_at_any_byte_the_keys_before_are_there_and_the_table_goes_on(kept: Kept) -> None:
    path = filled(kept)
    data = path.read_bytes()
    whole = {len(data)}
    for size in range(len(data) - 1, -1, -1):
        path.write_bytes(data[:size])
        try:
            count = len(held(kept.keys()))
        except DamagedStore:
            assert size < 40  # the preamble itself
            continue
        assert held(kept.keys()) == expected(count)
        table = kept.keys(write=True)
        assert bool(table.repaired) == (path.stat().st_size != size)
        if not table.repaired:
            whole.add(size)
        table.add(*KEYS[2])
        table.commit()
        table.close()
        assert held(kept.keys()) == {**expected(count), (SECRET, b"dec_2"): b"3" * 32}
    assert len(whole) == 4


def test_an_entry_does_not_open_for_another_domain_kind_or_id(kept: Kept) -> None:
    path = filled(kept)
    table = kept.keys()
    entry = table._entries[SECRET, b"dec_1"]
    for moved in (
        entry._replace(domain=OTHER_DOMAIN), entry._replace(kind=SEGMENT), entry._replace(id=b"dec_9"),
        entry._replace(nonce=bytes(12)),
    ):  # fmt: skip
        with pytest.raises(DamagedStore, match="was changed"):
            table._open(moved)
    assert path.exists()


def test_a_table_that_is_gone_is_not_begun_anew_over_segments(kept: Kept) -> None:
    (Path(kept.store.segments) / "x.seg").write_bytes(b"")
    for write in (False, True):
        with pytest.raises(DamagedStore, match="keys is gone"):
            kept.keys(write=write)


def test_a_table_under_another_epoch_key_says_so(kept: Kept, tmp_path: Path) -> None:
    path = filled(kept)
    other = Kept(tmp_path / "other")
    filled(other)
    shutil.copy(Path(other.store.path) / "keys", path)
    with pytest.raises(KeyMissing, match="another epoch key"):
        kept.keys()


def test_a_rewrite_leaves_out_what_it_should_for_good(kept: Kept) -> None:
    path = filled(kept)
    before = path.read_bytes()
    old = kept.store.keyring(kept.environ).epoch
    table = kept.keys(write=True)
    assert table.rewrite(lambda kind, id, domain: domain == DOMAIN) == 1
    assert held(table) == expected(2)
    table.add(*KEYS[2])
    table.commit()
    table.close()
    assert held(kept.keys()) == expected(3)
    assert kept.store.keyring(kept.environ).epoch != old
    path.write_bytes(before)  # a copy of the old table, as a backup holds it
    with pytest.raises(KeyMissing, match="another epoch key"):
        kept.keys()


def test_stopped_anywhere_a_rewrite_leaves_the_old_table_or_the_new(kept: Kept) -> None:
    path = filled(kept)
    ring = kept.store.keyring(kept.environ)
    table, epoch = path.read_bytes(), ring.epoch
    outcomes = set()
    for stop in range(1, 60):
        path.write_bytes(table)
        Path(ring.path("epoch.key")).write_bytes(epoch)
        disk = StoppingDisk(stop)
        try:
            one = kept.keys(write=True, disk=disk)
            one.rewrite(lambda kind, id, domain: domain == DOMAIN)
        except PowerCut:
            disk.cut_power()
            readable = held(kept.keys())
            again = kept.keys(write=True)
            assert held(again) == readable
            assert readable in (expected(2), expected(3))
            assert not Path(ring.path("epoch.next.key")).exists()
            outcomes.add(len(readable))
            again.rewrite(lambda kind, id, domain: True)
            again.close()
            assert held(kept.keys()) == readable
        else:
            assert outcomes == {2, 3}
            return
    pytest.fail("the rewrite never came to its end")


def test_a_reader_sees_what_the_sealer_added_since(kept: Kept) -> None:
    filled(kept)
    reader = kept.keys()
    assert not reader.refresh()
    sealer = kept.keys(write=True)
    sealer.add(SECRET, b"dec_3", DOMAIN, b"4" * 32)
    sealer.commit()
    assert reader.refresh()
    assert reader.get(SECRET, b"dec_3") == b"4" * 32
    sealer.rewrite(lambda kind, id, domain: id != b"dec_3")
    assert reader.refresh()
    assert held(reader) == expected(3)


def test_a_reader_finds_the_newest_of_several_and_is_not_misled_by_an_id_inside_another(kept: Kept) -> None:
    table = kept.keys(write=True)
    for id, key in (
        (b"dec_11", b"1"),
        (b"dec_1", b"2"),
        (b"x", b"3"),
        (b"dec_1", b"4"),
        (b"dec_111", b"5"),
        (b"xdec_1x", b"6"),
    ):
        table.add(SECRET, id, DOMAIN, key * 32)
    table.add(SEGMENT, b"dec_1", DOMAIN, b"7" * 32)
    table.commit()
    reader = kept.keys()
    assert reader.get(SECRET, b"dec_1") == b"4" * 32
    assert reader.get(SECRET, b"dec_11") == b"1" * 32
    assert reader.get(SECRET, b"x") == b"3" * 32
    assert reader.get(SEGMENT, b"dec_1") == b"7" * 32
    assert (SEGMENT, b"dec_11") not in reader
    assert reader._known is not None  # it said so after reading everything


def test_a_reader_that_finds_nothing_in_a_damaged_table_says_that_it_is_damaged(kept: Kept) -> None:
    path = filled(kept)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert kept.keys().get(SECRET, b"dec_1") == b"2" * 32
    for id in (b"dec_2", b"dec_3"):
        with pytest.raises(DamagedStore, match="record 2 at byte"):
            kept.keys().get(SECRET, id)


def test_a_failed_sync_is_passed_on(kept: Kept) -> None:
    filled(kept)
    table = kept.keys(write=True, disk=FailingSync(0))
    table.add(SECRET, b"dec_3", DOMAIN, b"4" * 32)
    with pytest.raises(OSError, match="Input/output"):
        table.commit()


def test_a_reader_writes_nothing(kept: Kept) -> None:
    path = filled(kept)
    data = path.read_bytes()
    table = kept.keys()
    with pytest.raises(ValueError, match="to be read"):
        table.add(SECRET, b"dec_3", DOMAIN, b"4" * 32)
    table.commit()
    with pytest.raises(ValueError, match="to be written"):
        table.rewrite(lambda kind, id, domain: True)
    assert path.read_bytes() == data

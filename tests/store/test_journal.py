"""The journal keeps every sealed record in order, cuts only what a crash tore, and finds any other change."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore, NotFound
from tachograph.store.entry import RUN, Compression, Source, pack
from tachograph.store.journal import START, Exchanged, Journal, _chained
from tachograph.store.records import head
from tachograph.store.segments import Place
from tests.store.kept import FailingSync, FullDisk, PowerCut, StoppingDisk, entry


def sealed(folder: Path, count: int, *, batch: int = 2, first: int = 0) -> None:
    """Seal that many entries, in batches."""
    journal = Journal(str(folder), write=True)
    for start in range(first, first + count, batch):
        journal.append_batch([entry(n) for n in range(start, min(start + batch, first + count))])
    journal.close()


def ids(folder: Path) -> list[str]:
    return [record.entry.decision for record in Journal(str(folder)).records()]


def expected(count: int) -> list[str]:
    return [entry(n).decision for n in range(count)]


def only_file(folder: Path) -> Path:
    [path] = folder.glob("*.journal")
    return path


def test_what_was_sealed_is_read_in_order(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), write=True)
    assert len(journal) == 0
    records = journal.append_batch([entry(0), entry(1)]) + journal.append_batch([entry(2)])
    assert [record.sequence for record in records] == [0, 1, 2]
    assert journal.next_sequence == 3
    read = list(Journal(str(tmp_path)).records())
    assert [record._replace(entry=entry(0)) for record in read] == [
        record._replace(entry=entry(0)) for record in records
    ]
    assert [record.entry.payload for record in read] == [entry(n).payload for n in range(3)]
    assert Journal(str(tmp_path)).next_sequence == 3


def test_an_empty_journal_holds_nothing(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path))
    assert list(journal.records()) == []
    assert journal.next_sequence == 0
    assert journal.vouched() == {}
    with pytest.raises(NotFound):
        journal.find("dec_")


def test_another_sealer_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    for start in range(0, 6, 2):
        sealed(tmp_path, 2, first=start)
    assert ids(tmp_path) == expected(6)
    assert len(list(tmp_path.iterdir())) == 1


def test_reading_goes_on_from_a_position(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    journal = Journal(str(tmp_path))
    for record in list(journal.records()):
        rest = [later.sequence for later in journal.records(record.position)]
        assert rest == list(range(record.sequence + 1, 3))
        assert journal.at(record.file, record.at).entry == record.entry
    last = list(journal.records())[-1].position
    sealed(tmp_path, 2, first=3)
    assert [record.sequence for record in journal.records(last)] == [3, 4]


def test_files_follow_on_one_another(tmp_path: Path) -> None:
    big = entry(0, **{"stop_reason": os.urandom(600_000).hex()})
    journal = Journal(str(tmp_path), write=True)
    for _ in range(12):
        journal.append_batch([big])
    journal.append_batch([entry(12)])
    journal.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 1
    assert [record.sequence for record in Journal(str(tmp_path)).records()] == list(range(13))
    sealed(tmp_path, 1, first=13)
    assert len(Journal(str(tmp_path))) == 14
    assert Journal(str(tmp_path)).find(entry(12).decision).sequence == 12
    middle = list(Journal(str(tmp_path)).records())[5]
    assert [record.sequence for record in Journal(str(tmp_path)).records(middle.position)] == list(range(6, 14))
    last = files[-1].read_bytes()
    files[-1].unlink()
    assert len(list(Journal(str(tmp_path)).records())) < 13  # a cut tail is found against a checkpoint, not here
    files[-1].write_bytes(last)
    cut = files[0].read_bytes()[:-40]
    files[0].write_bytes(cut)
    with pytest.raises(DamagedStore, match="does not follow on"):
        Journal(str(tmp_path), write=True)
    with pytest.raises(DamagedStore, match="middle of the journal"):
        list(Journal(str(tmp_path)).records())
    files[0].unlink()
    with pytest.raises(DamagedStore, match=r"000000\.journal is gone"):
        list(Journal(str(tmp_path)).records())


def test_cut_at_any_byte_the_whole_records_are_read_and_the_next_sealer_goes_on(tmp_path: Path) -> None:
    sealed(tmp_path, 4)
    path = only_file(tmp_path)
    data = path.read_bytes()
    ends = [record.position.at for record in Journal(str(tmp_path)).records()]
    for size in range(ends[1] - 1, len(data)):
        path.write_bytes(data[:size])
        whole = sum(end <= size for end in ends)
        assert ids(tmp_path) == expected(whole)
        journal = Journal(str(tmp_path), write=True)
        at_an_end = size in ends or not journal.repaired
        assert bool(journal.repaired) != at_an_end
        journal.append_batch([entry(whole)])
        journal.close()
        assert ids(tmp_path) == expected(whole + 1)


def test_a_byte_changed_anywhere_is_refused_with_its_place_and_nothing_is_cut(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    path = only_file(tmp_path)
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(changed))
        records = Journal(str(tmp_path)).records()
        for decision in expected(3):
            try:
                assert next(records).entry.decision == decision
            except DamagedStore as fault:
                assert f"{path.name}: " in str(fault)  # noqa: PT017 - every byte has its own fault
                assert "byte " in str(fault)  # noqa: PT017
                break
        else:
            pytest.fail(f"byte {at} was changed and everything was served")
        with pytest.raises(DamagedStore, match="journal"):
            Journal(str(tmp_path), write=True)
        assert path.read_bytes() == bytes(changed)


def test_one_record_is_read_by_its_place_or_refused(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    path = only_file(tmp_path)
    data = path.read_bytes()
    places = [record.at for record in Journal(str(tmp_path)).records()]
    ends = [*places[1:], len(data)]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(changed))
        for number, place in enumerate(places):
            touched = (
                place - 32 <= at < ends[number] or at < ends[0]
            )  # itself, the digest before, the first of the file
            try:
                assert Journal(str(tmp_path)).at(0, place).entry.payload == entry(number).payload
            except DamagedStore:
                assert touched
            else:
                assert not touched
    path.write_bytes(data)
    for place in (0, 1, places[1] + 1, len(data), -1):
        with pytest.raises(DamagedStore, match="no whole record begins"):
            Journal(str(tmp_path)).at(0, place)


def test_a_record_taken_out_or_put_elsewhere_is_found(tmp_path: Path) -> None:
    sealed(tmp_path, 4)
    path = only_file(tmp_path)
    data = path.read_bytes()
    places = [(record.at, record.end) for record in Journal(str(tmp_path)).records()]
    (a, b), (c, d) = places[1], places[2]
    for changed in (data[:a] + data[b:], data[:a] + data[c:d] + data[a:b] + data[d:], data[:b] + data[a:]):
        path.write_bytes(changed)
        with pytest.raises(DamagedStore):
            list(Journal(str(tmp_path)).records())


def rewritten(folder: Path, sequences: list[int], changed: int, *, chained: bool) -> None:
    """Write a journal as a forger does, with right heads; `chained`: also with right digests behind the change."""
    path = only_file(folder)
    original = path.read_bytes()
    records = list(Journal(str(folder)).records())
    data, digest, compression = original[: records[0].at], bytes(32), Compression()
    for number, (sequence, record) in enumerate(zip(sequences, records, strict=True)):
        one = replace(record.entry, run="run_forged") if number == changed else record.entry
        fields = pack(one, sequence, compression)
        digest = _chained(digest, fields) if chained or number <= changed else record.digest
        data += head(len(data), fields + digest) + fields + digest
    path.write_bytes(data)


def test_a_record_rewritten_with_its_own_digest_is_found_by_the_next(tmp_path: Path) -> None:
    sealed(tmp_path, 4)
    rewritten(tmp_path, [0, 1, 2, 3], 1, chained=False)
    records = Journal(str(tmp_path)).records()
    assert [next(records).entry.run for _ in range(2)] == [entry(0).run, "run_forged"]
    with pytest.raises(DamagedStore, match="record 2 at byte"):
        next(records)


def test_a_gap_in_the_numbers_is_found_even_where_all_digests_are_right(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    rewritten(tmp_path, [0, 1, 3], 9, chained=True)
    with pytest.raises(DamagedStore, match="is number 3, not the next one"):
        list(Journal(str(tmp_path)).records())


def test_a_decision_is_found_by_its_id_or_a_prefix_that_fits_one(tmp_path: Path) -> None:
    sealed(tmp_path, 25)
    journal = Journal(str(tmp_path))
    assert journal.find(entry(7).decision).sequence == 7
    assert journal.find(entry(3).decision[:-1] + "3").sequence == 3
    assert journal.find("dec_01KB000000000000000000002" + "4").sequence == 24
    with pytest.raises(NotFound, match="5 decisions have an id that begins with"):
        journal.find("dec_01KB000000000000000000002")
    with pytest.raises(NotFound, match="no decision has an id"):
        journal.find("dec_9")


def test_of_several_records_of_a_decision_the_newest_is_found(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), write=True)
    journal.append_batch([entry(1), entry(2), entry(1)])
    assert journal.find(entry(1).decision).sequence == 2


def test_in_a_damaged_journal_not_finding_is_no_answer(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    path = only_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    journal = Journal(str(tmp_path))
    assert journal.find(entry(0).decision).sequence == 0
    for ask in (lambda: journal.find(entry(2).decision), lambda: journal.sources({"x"}), journal.vouched):
        with pytest.raises(DamagedStore, match="record 2"):
            ask()


def test_it_knows_which_frames_are_sealed_and_how_far_segments_are_vouched_for(tmp_path: Path) -> None:
    sealed(tmp_path, 4)
    journal = Journal(str(tmp_path))
    assert journal.sources([]) == set()
    spool = entry(2).sources[0].spool
    assert journal.sources([spool, "other"]) == set(), "decisions of a run that goes on end none of its files"
    assert journal.vouched() == {"ab" * 16: 4}
    writer = Journal(str(tmp_path), write=True)
    whole = replace(entry(3), kind=RUN, decision=entry(3).run)
    writer.append_batch([whole, entry(5, Place("cd" * 16, 0))])
    assert journal.sources([spool, "other"]) == {Source(spool, 30, 39)}
    assert journal.vouched() == {"ab" * 16: 4, "cd" * 16: 1}


def test_stopped_anywhere_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    for stop in range(1, 60):
        folder = tmp_path / str(stop)
        folder.mkdir()
        disk, acknowledged = StoppingDisk(stop), 0
        try:
            journal = Journal(str(folder), write=True, disk=disk)
            for start in range(0, 6, 2):
                journal.append_batch([entry(start), entry(start + 1)])
                acknowledged = start + 2
        except PowerCut:
            disk.cut_power()
            assert ids(folder)[:acknowledged] == expected(acknowledged)
            journal = Journal(str(folder), write=True)
            journal.append_batch([entry(n) for n in range(journal.next_sequence, 7)])
            assert ids(folder) == expected(7)
        else:
            assert stop > 6
            return
    pytest.fail("the sealer never came to its end")


def test_a_full_disk_or_a_failed_sync_is_passed_on_and_nothing_counts(tmp_path: Path) -> None:
    sealed(tmp_path, 2)
    data = only_file(tmp_path).read_bytes()
    for room in range(0, 300, 11):
        journal = Journal(str(tmp_path), write=True, disk=FullDisk(room))
        with pytest.raises(OSError, match="No space left"):
            journal.append_batch([entry(2), entry(3)])
        assert only_file(tmp_path).read_bytes() == data
    journal = Journal(str(tmp_path), write=True, disk=FailingSync(0))
    with pytest.raises(OSError, match="Input/output"):
        journal.append_batch([entry(2)])
    assert journal.next_sequence == 2


def test_the_first_record_of_a_file_that_did_not_fit_is_no_model_for_later_ones(tmp_path: Path) -> None:
    disk = FullDisk(200)
    journal = Journal(str(tmp_path), write=True, disk=disk)
    with pytest.raises(OSError, match="No space left"):
        journal.append_batch([entry(0)])
    disk.room = 10_000
    journal.append_batch([entry(0)])
    assert ids(tmp_path) == expected(1)


def test_a_reader_cannot_append(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="to be read"):
        Journal(str(tmp_path)).append_batch([entry(0)])


def test_a_position_of_another_journal_is_noticed(tmp_path: Path) -> None:
    sealed(tmp_path, 3)
    record = list(Journal(str(tmp_path)).records())[1]
    last = list(Journal(str(tmp_path)).records())[-1].position
    assert list(Journal(str(tmp_path)).records(last)) == []
    for position in (
        last._replace(digest=b"x" * 32),
        record.position._replace(digest=b"x" * 32),
        record.position._replace(at=record.position.at + 1),
        record.position._replace(sequence=5),
        record.position._replace(file=9),
    ):
        with pytest.raises(Exchanged):
            list(Journal(str(tmp_path)).records(position))
    assert list(Journal(str(tmp_path)).records(START))

"""The catalogue lists what the journal holds, is made anew where it does not fit, and needs no right to write."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore, NotFound
from tachograph.store.catalogue import Catalogue, Query
from tachograph.store.entry import ADDENDUM, Entry
from tachograph.store.journal import Journal
from tachograph.store.segments import Place
from tests.store.kept import Kept, entry


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def seal(kept: Kept, *entries: Entry) -> Journal:
    journal = Journal(kept.store.journal, write=True)
    journal.append_batch(entries)
    journal.close()
    return Journal(kept.store.journal)


def filled(kept: Kept, *entries: Entry, write: bool = True) -> Catalogue:
    journal = seal(kept, *entries)
    catalogue = Catalogue(kept.store.path, write=write)
    catalogue.catch_up(journal)
    return catalogue


def sequences(catalogue: Catalogue, **query: object) -> list[int]:
    return [row.sequence for row in catalogue.rows(Query(**query))]  # type: ignore[arg-type]


VARIED = [
    entry(0, agent="refund", user_tag="u1", session_tag="s1"),
    entry(1, agent="refund", failed=True, failure="exception", exit_code=1, tools=("lookup", "pay")),
    entry(2, agent="search", user_tag="u1", tools=()),
    entry(3, agent="search", failed=True, failure="stop_reason", stop_reason="error", session_tag="s1"),
]


def test_a_row_says_what_the_journal_says(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED)
    row = catalogue.rows(Query(limit=1))[0]
    record = list(Journal(kept.store.journal).records())[3]
    assert row.summary == VARIED[3].summary
    assert (row.decision, row.run, row.domain, row.places) == (
        VARIED[3].decision,
        VARIED[3].run,
        VARIED[3].domain,
        VARIED[3].places,
    )
    assert (row.sequence, row.file, row.at) == (3, record.file, record.at)
    assert Journal(kept.store.journal).at(row.file, row.at).entry.decision == row.decision


def test_each_filter_selects_and_the_newest_come_first(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED)
    assert sequences(catalogue) == [3, 2, 1, 0]
    assert sequences(catalogue, failed=True) == [3, 1]
    assert sequences(catalogue, failed=False) == [2, 0]
    assert sequences(catalogue, agent="search") == [3, 2]
    assert sequences(catalogue, user_tag="u1") == [2, 0]
    assert sequences(catalogue, session_tag="s1") == [3, 0]
    assert sequences(catalogue, tool="pay") == [1]
    assert sequences(catalogue, run=VARIED[0].run) == [1, 0]
    assert sequences(catalogue, since_ms=VARIED[2].summary.captured_at_ms) == [3, 2]
    assert sequences(catalogue, agent="refund", failed=True, tool="lookup") == [1]
    assert sequences(catalogue, agent="none") == []
    assert catalogue.count(Query(failed=True, limit=1)) == 2


def test_pages_follow_on_one_another_without_a_gap(kept: Kept) -> None:
    same_time = [entry(n, captured_at_ms=5 + n // 3) for n in range(10)]
    catalogue = filled(kept, *same_time)
    seen: list[int] = []
    before = None
    while page := catalogue.rows(Query(limit=3, before=before)):
        seen += [row.sequence for row in page]
        before = page[-1].summary.captured_at_ms, page[-1].sequence
    assert seen == list(range(9, -1, -1))


def test_a_decision_is_found_by_a_prefix_that_fits_one(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED)
    assert catalogue.find(VARIED[2].decision).sequence == 2
    assert catalogue.find("dec_01KB" + "0" * 21 + "3").sequence == 3
    with pytest.raises(NotFound, match="several decisions"):
        catalogue.find("dec_01KB")
    with pytest.raises(NotFound, match="no decision has an id"):
        catalogue.find("dec_9")


def test_the_last_decision_is_the_newest_of_the_newest_run(kept: Kept) -> None:
    with pytest.raises(NotFound, match="no decision yet"):
        filled(kept).last()
    catalogue = filled(kept, *VARIED, entry(0, captured_at_ms=1 << 44))  # the newest time, an old run
    assert catalogue.last().decision == VARIED[3].decision


def test_what_was_sealed_since_is_taken_in_once(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED[:2])
    journal = seal(kept, *VARIED[2:])
    assert catalogue.catch_up(journal) == 2
    assert catalogue.catch_up(journal) == 0
    assert sequences(catalogue) == [3, 2, 1, 0]
    assert catalogue.position.sequence == 4


def test_a_list_does_not_wait_for_the_sealer_where_there_is_nothing_new(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED)
    sealer = sqlite3.connect(catalogue.path, isolation_level=None)
    sealer.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert catalogue.catch_up(Journal(kept.store.journal)) == 0
    assert time.monotonic() - began < 20  # what a waiting one is given is 30 s
    sealer.close()


def test_many_records_are_taken_in_over_several_transactions(kept: Kept) -> None:
    catalogue = filled(kept, *[entry(n) for n in range(1300)])
    assert catalogue.count(Query()) == 1300
    assert sequences(catalogue, limit=2000) == list(range(1299, -1, -1))
    assert catalogue.repaired == []


def test_an_addendum_is_no_decision_of_its_own(kept: Kept) -> None:
    addendum = Entry(**{**entry(0).__dict__, "kind": ADDENDUM, "places": (Place("cd" * 16, 7),)})
    catalogue = filled(kept, VARIED[0], addendum)
    assert sequences(catalogue) == [0]
    assert catalogue.vouched("cd" * 16) == 8


def test_it_vouches_for_what_the_journal_refers_to(kept: Kept) -> None:
    catalogue = filled(
        kept, entry(0, Place("ab" * 16, 5)), entry(1, Place("ab" * 16, 2)), entry(2, Place("cd" * 16, 0))
    )
    assert [catalogue.vouched(segment * 16) for segment in ("ab", "cd", "ef")] == [6, 1, 0]
    assert catalogue.decisions_in("ab" * 16) == [entry(0).decision, entry(1).decision]


def test_it_holds_no_title_that_can_be_read_and_is_private(kept: Kept) -> None:
    filled(kept, entry(0, title=b"\x01sealed")).close()
    assert os.stat(os.path.join(kept.store.path, "catalogue.db")).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("damage", ["not a database", "a page", "format", "gone", "another journal", "set back"])
def test_an_index_that_does_not_fit_is_made_anew_and_that_is_said(kept: Kept, tmp_path: Path, damage: str) -> None:
    filled(kept, *VARIED).close()
    path = Path(kept.store.path) / "catalogue.db"
    if damage == "not a database":
        path.write_bytes(b"no database at all" * 100)
    elif damage == "a page":
        data = bytearray(path.read_bytes())
        for at in range(4096, len(data)):
            data[at] ^= 0xFF
        path.write_bytes(bytes(data))
    elif damage == "format":
        with sqlite3.connect(path) as base:
            base.execute("UPDATE state SET format = 99")
        base.close()
    elif damage == "gone":
        path.unlink()
    else:
        shutil.rmtree(kept.store.journal)
        os.mkdir(kept.store.journal)
        seal(kept, *(VARIED[:1] if damage == "set back" else [entry(n + 1) for n in range(5)]))
    for write in (True, False):
        if not write and damage in ("another journal", "set back"):
            continue
        copy = tmp_path / f"copy {write}"
        shutil.copytree(kept.store.path, copy)
        catalogue = Catalogue(str(copy), write=write)
        journal = Journal(str(copy / "journal"))
        catalogue.catch_up(journal)
        assert sequences(catalogue) == [record.sequence for record in journal.records()][::-1]
        assert bool(catalogue.repaired) == (damage != "gone")
        assert all("made anew from the journal" in said for said in catalogue.repaired)
        catalogue.close()


def test_a_rebuilt_index_is_the_same(kept: Kept) -> None:
    catalogue = filled(kept, *VARIED)
    rows = catalogue.rows(Query())
    assert catalogue.rebuild(Journal(kept.store.journal)) == 4
    assert catalogue.rows(Query()) == rows


def test_a_store_that_cannot_be_written_is_listed_from_memory(kept: Kept) -> None:
    filled(kept, *VARIED[:2]).close()
    journal = seal(kept, *VARIED[2:])
    before = kept.files()
    catalogue = Catalogue(kept.store.path, write=False)
    assert catalogue.catch_up(journal) == 2  # only what the file did not hold
    assert sequences(catalogue) == [3, 2, 1, 0]
    catalogue.close()
    assert kept.files() == before


def test_where_a_log_waits_to_be_taken_in_the_journal_is_read_instead(kept: Kept, tmp_path: Path) -> None:
    catalogue = filled(kept, *VARIED)  # still open: its write-ahead log is there
    assert os.path.getsize(catalogue.path + "-wal") > 0
    shutil.copytree(kept.store.path, tmp_path / "copy")
    (tmp_path / "copy" / "catalogue.db").write_bytes(b"half of what the log was being taken into")
    reader = Catalogue(str(tmp_path / "copy"), write=False)
    assert reader.catch_up(Journal(kept.store.journal)) == 4
    assert reader.repaired == []
    assert sequences(reader) == [3, 2, 1, 0]


def test_a_damaged_journal_lists_what_lies_before_the_damage(kept: Kept) -> None:
    journal = seal(kept, *VARIED)
    [path] = Path(kept.store.journal).iterdir()
    data = bytearray(path.read_bytes())
    data[list(journal.records())[2].at + 20] ^= 1
    path.write_bytes(bytes(data))
    catalogue = Catalogue(kept.store.path, write=True)
    for _ in range(2):
        with pytest.raises(DamagedStore, match="record 2"):
            catalogue.catch_up(Journal(kept.store.journal))
        assert sequences(catalogue) == [1, 0]
    assert catalogue.repaired == []


def test_several_processes_may_catch_up_at_once(kept: Kept) -> None:
    seal(kept, *[entry(n) for n in range(700)])
    source = (
        "import sys; from tachograph.store.catalogue import Catalogue, Query;"
        "from tachograph.store.journal import Journal;"
        "c = Catalogue(sys.argv[1], write=True); c.catch_up(Journal(sys.argv[1] + '/journal')); print(c.count(Query()))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", source, kept.store.path], stdout=subprocess.PIPE) for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0] for process in running] == [b"700\n"] * 3

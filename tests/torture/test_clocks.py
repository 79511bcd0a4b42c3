"""Row 7: a clock that is set back while a program is recorded moves nothing: frames are ordered by the monotonic clock.

The wall clock is asked once per process, and only the first process's answer dates the run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.library import Store
from tachograph.model.identity import mint
from tachograph.store.location import StoreFolder, open_store
from tachograph.store.spool import Spool
from tests.torture.kept import Kept

NOON_NS = 1_790_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
MONOTONIC_NS = 5_000_000_000_000


@pytest.fixture
def folder(quick: Path) -> StoreFolder:
    """A fresh store."""
    return open_store(str(quick / "store"), create=True, environ=os.environ)


def begun(folder: StoreFolder, run_id: str, name: str, *, kind: int, wall_ns: int, after_ns: int) -> Spool:
    """The spool file of a process that began at a wall-clock time, so long after the first one."""
    spool = Spool(folder.spool, f"{run_id}.{name}", public=folder.intake_public_key)
    facts = {"argv": ["agent.py"], "startedAt": wall_ns, "monotonicNs": MONOTONIC_NS + after_ns, "path": "0", "pid": 7}
    write(spool, kind, after_ns=after_ns, payload=values.encode(facts))
    return spool


def write(spool: Spool, kind: int, *, after_ns: int, payload: bytes, effect: int = 0, path: int = 0) -> None:
    """One frame, so long after the run began."""
    spool.append(fr.Frame(kind, 0, 0, effect, path, 0, MONOTONIC_NS + after_ns, b"", payload).written())


def call(spool: Spool, number: int, *, effect: int, at_ns: int) -> None:
    """A whole call: it starts, is answered after a millisecond and ends after two."""
    url = b"http://127.0.0.1/"
    meta = fr.fields(b"httpx", b"POST", url, fr.pack_headers([]), b"")
    body = json.dumps({"number": number}).encode()
    write(spool, fr.CALL, after_ns=at_ns, payload=meta + body, effect=effect, path=1)
    head = fr.fields(b"200", b"1.1", b"OK", fr.pack_headers([]), b"")
    write(spool, fr.HEAD, after_ns=at_ns + 1_000_000, payload=head, effect=effect, path=1)
    write(spool, fr.CHUNK, after_ns=at_ns + 1_000_000, payload=b"answer", effect=effect, path=1)  # the same nanosecond
    write(spool, fr.END, after_ns=at_ns + 2_000_000, payload=fr.fields(b"eof", b""), effect=effect, path=1)


def test_a_wall_clock_set_back_between_processes_neither_moves_effects_nor_dates_the_run_anew(
    folder: StoreFolder,
) -> None:
    run_id = mint("run", at_ms=NOON_NS // 1_000_000, chance=bytes(10))
    starter = begun(folder, run_id, "1.run", kind=fr.RUN, wall_ns=NOON_NS, after_ns=0)
    first = begun(folder, run_id, "2.a", kind=fr.PROCESS, wall_ns=NOON_NS - HOUR_NS, after_ns=10_000_000)
    second = begun(folder, run_id, "3.b", kind=fr.PROCESS, wall_ns=NOON_NS - 3 * HOUR_NS, after_ns=30_000_000)
    for spool in (first, second):
        write(spool, fr.PATH, after_ns=30_000_000, payload=b"0", path=1)
    call(first, 1, effect=1, at_ns=20_000_000)
    call(second, 2, effect=1, at_ns=40_000_000)
    call(first, 3, effect=2, at_ns=60_000_000)
    for spool in (starter, first, second):
        write(spool, fr.ENDED, after_ns=90_000_000, payload=values.encode({}))
        spool.close()
    Kept(Path(folder.path)).take_in()
    (run,) = Kept(Path(folder.path)).runs().values()
    assert list(run.answers) == [1, 2, 3]
    assert (run.damage, run.tails) == ([], [])
    store = Store(folder.path)
    (row,) = store.decisions()
    assert row.capturedAt == "2026-09-21T14:13:20.000Z"
    timeline = store.show(row.decisionId).timeline
    assert [one.startedMs for one in timeline] == [20.0, 40.0, 60.0]
    assert [one.durationMs for one in timeline] == [2.0, 2.0, 2.0]


def test_the_order_of_frames_is_that_of_their_file_where_the_clock_stands_still(folder: StoreFolder) -> None:
    run_id = mint("run", at_ms=NOON_NS // 1_000_000, chance=bytes(10))
    spool = begun(folder, run_id, "1.a", kind=fr.PROCESS, wall_ns=NOON_NS, after_ns=0)
    write(spool, fr.PATH, after_ns=0, payload=b"0", path=1)
    for number in range(1, 40):
        call(spool, number, effect=number, at_ns=0)
    write(spool, fr.ENDED, after_ns=0, payload=values.encode({}))
    spool.close()
    Kept(Path(folder.path)).take_in()
    (run,) = Kept(Path(folder.path)).runs().values()
    assert list(run.answers) == list(range(1, 40))
    times = [arrival.at_ns for effect in run.log.effects for arrival in effect.arrivals]
    assert len(set(times)) == len(times)


def test_a_run_that_begins_at_an_earlier_time_than_the_last_one_is_a_run_of_its_own(folder: StoreFolder) -> None:
    for number, wall_ns in enumerate((NOON_NS, NOON_NS - HOUR_NS, NOON_NS - HOUR_NS)):
        run_id = mint("run", at_ms=wall_ns // 1_000_000, chance=bytes((number,)) * 10)
        spool = begun(folder, run_id, "1.a", kind=fr.PROCESS, wall_ns=wall_ns, after_ns=0)
        write(spool, fr.PATH, after_ns=0, payload=b"0", path=1)
        call(spool, number, effect=1, at_ns=10)
        write(spool, fr.ENDED, after_ns=20, payload=values.encode({}))
        spool.close()
        assert len(Kept(Path(folder.path)).take_in()) == 1
    kept = Kept(Path(folder.path))
    kept.sealed_once()
    assert [list(run.answers) for run in kept.runs().values()] == [[0], [1], [2]]
    assert len(Store(folder.path).decisions()) == 3

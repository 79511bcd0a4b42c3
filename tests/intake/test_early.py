"""Which decisions of a run that goes on may be sealed, and when it is left alone."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tachograph import Store
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.early import MOST_BYTES, Progress, ended_decisions
from tachograph.intake.gather import gather
from tachograph.intake.waiting import Run
from tachograph.store.location import open_store
from tests.intake.test_gather import SECOND, Process
from tests.seams.driver import RUN


def closed_twice(*, answered: bool) -> Process:
    """Two decisions that are closed, each with a call; that of the second was answered or is under way."""
    one = Process("0")
    for decision, letter in ((1, "V"), (2, "W")):
        one.opens(decision, letter, at=(6 + decision) * SECOND)
        one.call(decision, at=(7 + decision) * SECOND, decision=decision)
        if answered or decision == 1:
            one.add(fr.END, fr.fields(b"eof", b""), at=(8 + decision) * SECOND, effect=decision, decision=decision)
        one.add(fr.CLOSE, values.encode({}), at=20 * SECOND + decision, decision=decision, path=1)
    return one


def sealable(process: Process, *, known: Progress | None = None, without: tuple[int, ...] = ()) -> list[int]:
    gathered = gather([process.reading(without=without)])
    return [log.number for log in ended_decisions(Run(RUN), gathered, known or Progress())]


def test_a_closed_decision_is_sealed_when_nothing_of_it_is_under_way() -> None:
    assert sealable(closed_twice(answered=True)) == [0, 1, 2]
    assert sealable(closed_twice(answered=False)) == [0, 1]


def test_what_is_sealed_already_is_left_out_and_without_any_there_is_nothing() -> None:
    first = next(iter(gather([closed_twice(answered=True).reading()]).decisions.values()))
    assert sealable(closed_twice(answered=True), known=Progress(sealed={first: 0})) == [0, 2]
    assert sealable(closed_twice(answered=False), known=Progress(sealed={first: 0})) == []


def test_nothing_of_a_damaged_run_is_sealed_before_its_end() -> None:
    process = closed_twice(answered=True)
    assert sealable(process, without=(len(process.frames) - 1,)) == []


def test_a_running_program_that_has_recorded_much_is_named(own_configuration: Path, tmp_path: Path) -> None:
    folder = open_store(str(tmp_path / "store"), create=True, environ=os.environ)
    store = Store(folder.path)
    with Path(folder.spool, f"{RUN}.1.spool").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as the process does that records
        file.truncate(MOST_BYTES + 1)
        assert store.take_in() == []
    assert [word.split()[0] for word in store.left] == [RUN]
    assert "sealed when it ends" in store.left[0]

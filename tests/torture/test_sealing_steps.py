"""Intake stopped between any two of its steps, and half way through any write: the next one finishes, nothing twice.

Steps are those of `store.disk.Disk`: writes, syncs, cuts, renames, removals. At each of them in turn the process stops
(`kill -9` in a process of its own), or the machine does (and takes what no sync had made durable with it).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from tachograph.intake import waiting
from tachograph.intake.sealing import BATCH
from tachograph.store import spool
from tachograph.store.disk import Disk
from tachograph.store.location import open_store
from tests.store.kept import PowerCut, StoppingDisk
from tests.torture.harness import PROGRAMS
from tests.torture.kept import Kept
from tests.torture.waiting_runs import answer_of, wait_in


class _NoSync(Disk):
    def sync(self, fd: int) -> None:
        """The test's time is its own."""


NUMBERS = {"plain": [1, 2, 3], "decided": [11, 12, 13, 14], "forked": [21, 22]}


@pytest.fixture
def prepared(quick: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which three runs wait; its keys and anchors are where this process's environment says."""
    monkeypatch.setenv("TACHO_ANCHOR", str(quick / "anchors"))
    folder = open_store(str(quick / "prepared"), create=True, environ=os.environ)
    wait_in(folder, label="before", processes=([91],), per_decision=1)
    Kept(Path(folder.path)).take_in()
    wait_in(folder, label="plain", processes=([1, 2, 3],), ended=False)
    wait_in(folder, label="decided", processes=([11, 12, 13], [14]), per_decision=2)
    wait_in(folder, label="forked", processes=([21], [22]))
    shutil.copytree(quick / "anchors", quick / "anchors.prepared")
    return Path(folder.path)


def copy_of(prepared: Path) -> Path:
    """The same store, to be tormented, with what is kept of it elsewhere."""
    for source, name in ((prepared, "store"), (prepared.with_name("anchors.prepared"), "anchors")):
        target = prepared.with_name(name)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    return prepared.with_name("store")


def finished(store: Path) -> None:
    """The next take-in finishes what was begun: everything once, and a third one changes nothing."""
    kept = Kept(store)
    kept.take_in()
    kept.sealed_once()
    found = {run.argv[-1]: run for run in kept.runs().values()}
    for label, numbers in NUMBERS.items():
        run = found[f'{{"label": "{label}"}}']
        assert run.answers == {number: [sha256(answer_of(number)).hexdigest()] for number in numbers}
        assert run.damage == []
        assert bool(run.tails) == (label == "plain")
    kept.vouched_for()
    kept.unchanged_by_another_take_in()


def every_step(prepared: Path, stop: Callable[[Path, int], bool]) -> int:
    """Stop at step 1, 2, 3 ... until it comes to its end; the number of steps."""
    for step in range(1, 1000):
        store = copy_of(prepared)
        ended = stop(store, step)
        finished(store)
        if ended:
            return step
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("batch", [BATCH, 1])
def test_the_process_stops_at_any_step_and_nothing_is_lost_or_sealed_twice(prepared: Path, batch: int) -> None:
    assert every_step(prepared, lambda store, step: _stopped(store, StoppingDisk(step), batch)) > 30


def test_the_machine_stops_at_any_step_and_nothing_is_lost_or_sealed_twice(prepared: Path) -> None:
    def cut(store: Path, step: int) -> bool:
        disk = StoppingDisk(step)
        ended = _stopped(store, disk)
        disk.cut_power()
        return ended

    assert every_step(prepared, cut) > 30


def test_the_first_sealing_of_a_store_stops_at_any_step_and_its_log_begins_with_its_keys(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TACHO_ANCHOR", str(quick / "anchors"))
    os.mkdir(quick / "anchors.prepared")
    folder = open_store(str(quick / "prepared"), create=True, environ=os.environ)
    wait_in(folder, label="plain", processes=([1, 2],))
    step, ended = 0, False
    while not ended:
        step += 1
        store = copy_of(Path(folder.path))
        for name in ("signer.key", "log.key"):
            Path(folder.keyring(os.environ).path(name)).unlink(missing_ok=True)
        disk = StoppingDisk(step)
        ended = _stopped(store, disk)
        disk.cut_power()
        kept = Kept(store)
        kept.take_in()
        kept.sealed_once()
        kept.vouched_for()
    assert step > 30


def test_it_stops_again_while_it_makes_good_what_the_first_stop_left(prepared: Path) -> None:
    stop_twice(prepared, Random(1), 8)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 10))
def test_it_stops_twice_at_any_two_steps(prepared: Path, seed: int) -> None:
    stop_twice(prepared, Random(seed), 60)


def stop_twice(prepared: Path, chance: Random, count: int) -> None:
    """Stop at a step, and again amid the repair; each time the machine or only the process."""
    for _ in range(count):
        store = copy_of(prepared)
        for most in (70, 40):
            disk = StoppingDisk(chance.randrange(1, most))
            _stopped(store, disk)
            if chance.random() < 0.5:
                disk.cut_power()
        finished(store)


def _stopped(store: Path, disk: StoppingDisk, batch: int = BATCH) -> bool:
    try:
        Kept(store).take_in(disk=disk, batch=batch)
    except PowerCut:
        return False
    return True


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_a_killed_process_at_any_step_lets_go_of_the_lock_and_the_next_one_finishes(prepared: Path) -> None:
    assert every_step(prepared, killed_at) > 30


@pytest.mark.parametrize("step", [5, 17, 29])
def test_a_killed_process_lets_go_of_the_lock_and_the_next_one_finishes(prepared: Path, step: int) -> None:
    assert not killed_at(prepared, step)
    finished(prepared)


def killed_at(store: Path, step: int) -> bool:
    """Seal in a process of its own that kills itself at a step; whether it came to its end before that."""
    words = (sys.executable, str(PROGRAMS / "sealing.py"), str(store), "0", str(step))
    ended = subprocess.run(words, check=False, capture_output=True, timeout=60)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode == 0


def test_a_stop_amid_the_destruction_of_a_runs_files_does_not_seal_what_is_left_of_them(quick: Path) -> None:
    """What is left of the files alone looks like another run: one that opened no decision."""
    kept = Kept(Path(open_store(str(quick / "store"), create=True, environ=os.environ).path))
    wait_in(kept.folder, label="decided", processes=([11, 12],), per_decision=1)
    shutil.copytree(kept.folder.spool, quick / "spool")
    assert len(kept.take_in()) == 2
    for file in (quick / "spool").glob("*.run.*"):
        shutil.copy(file, kept.folder.spool)
    assert kept.take_in() == []
    kept.sealed_once()
    kept.unchanged_by_another_take_in()


def test_a_key_that_is_destroyed_and_its_file_not_yet_is_no_run_that_waits_for_ever(quick: Path) -> None:
    kept = Kept(Path(open_store(str(quick / "store"), create=True, environ=os.environ).path))
    wait_in(kept.folder, label="decided", processes=([11, 12],), per_decision=1)
    shutil.copytree(kept.folder.spool, quick / "spool")
    kept.take_in()
    for file in (quick / "spool").glob("*.spool"):
        shutil.copy(file, kept.folder.spool)
    assert kept.take_in() == []
    assert waiting.runs(kept.folder.spool) == []


def test_a_process_that_begins_to_record_when_its_run_was_sealed_is_kept_and_says_so(quick: Path) -> None:
    """A program that starts a Python child and ends at once: the child opens its spool a moment too late."""
    kept = Kept(Path(open_store(str(quick / "store"), create=True, environ=os.environ).path))
    first = wait_in(kept.folder, label="early", processes=([1, 2],), per_decision=1)
    kept.take_in()
    wait_in(kept.folder, label="late", processes=([3],), run_id=first, run_file=False)
    shutil.copytree(kept.folder.spool, quick / "spool")
    assert len(kept.take_in()) == 1
    runs = kept.runs()
    (late,) = (run for run_id, run in runs.items() if run_id != first)
    assert list(late.answers) == [3]
    assert first in late.tails[0]
    assert sorted(runs[first].answers) == [1, 2]
    shutil.copytree(quick / "spool", kept.folder.spool, dirs_exist_ok=True)  # a crash before its files were destroyed
    assert kept.take_in() == []
    kept.unchanged_by_another_take_in()
    kept.sealed_once()


def test_a_file_whose_process_was_killed_before_its_first_byte_is_no_damage(quick: Path) -> None:
    kept = Kept(Path(open_store(str(quick / "store"), create=True, environ=os.environ).path))
    run_id = wait_in(kept.folder, label="plain", processes=([1],))
    empty = Path(kept.folder.spool, f"{run_id}.1.aa.spool")
    empty.touch()
    assert len(kept.take_in()) == 1
    assert kept.take_in() == []
    (run,) = kept.runs().values()
    assert run.damage == []
    assert len(run.tails) == 1


def test_a_sealer_that_looks_just_when_a_spool_file_is_made_does_not_stop_the_recording(quick: Path) -> None:
    folder = open_store(str(quick / "store"), create=True, environ=os.environ)
    made: list[int] = []
    looking = subprocess.Popen(
        (sys.executable, str(PROGRAMS / "looking.py"), folder.spool), stdout=subprocess.PIPE, text=True
    )
    try:
        assert looking.stdout is not None
        assert looking.stdout.readline() == "looks\n"
        for number in range(2000):
            one = spool.Spool(folder.spool, f"file-{number % 5}", public=folder.intake_public_key)
            made.append(one.append(b"frame"))
            one.close()
            spool.destroy(one.path, disk=_NoSync())
    finally:
        looking.kill()
        looking.communicate()
    assert all(made)


def test_sealers_that_work_at_the_same_time_seal_everything_once(quick: Path) -> None:
    folder = open_store(str(quick / "store"), create=True, environ=os.environ)
    for number in range(12):
        wait_in(folder, label=f"run {number}", processes=([number],), per_decision=number % 2)
    words = (sys.executable, str(PROGRAMS / "sealing.py"), folder.path, "0")
    sealers = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    said = [sealer.communicate(timeout=60) for sealer in sealers]
    assert [sealer.returncode for sealer in sealers] == [0] * 4, said
    assert sum(int(out) for out, _ in said) == 12
    kept = Kept(Path(folder.path))
    kept.sealed_once()
    assert len(kept.runs()) == 12
    kept.vouched_for()
    kept.unchanged_by_another_take_in()


def test_a_run_that_is_still_recorded_is_left_alone(quick: Path) -> None:
    folder = open_store(str(quick / "store"), create=True, environ=os.environ)
    run_id = wait_in(folder, label="live", processes=([1],), run_file=False)
    live = spool.Spool(folder.spool, f"{run_id}.9.live", public=folder.intake_public_key)
    kept = Kept(Path(folder.path))
    assert kept.take_in() == []
    live.close()
    assert len(kept.take_in()) == 1

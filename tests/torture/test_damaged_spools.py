"""Row 9: a spool file whose tail is cut, or of which a byte was changed: the rest loads, and the damage is named.

Nothing that is whole in the file is lost, nothing that is not is invented, and the other runs are not touched.
"""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import pytest

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.library import Store
from tachograph.store.location import open_store
from tachograph.store.spool import HEADER_SIZE, Spool
from tachograph.store.spool_reading import read_spool
from tests.torture.kept import Kept, SealedRun
from tests.torture.waiting_runs import answer_of, wait_in

NUMBERS = [5, 6, 7, 8]


@pytest.fixture
def spooled(quick: Path) -> tuple[Path, Path]:
    """A store in which a run of one process waits beside another run; and that process's file."""
    folder = open_store(str(quick / "sound"), create=True, environ=os.environ)
    wait_in(folder, label="other", processes=([1],))
    run_id = wait_in(folder, label="damaged", processes=(NUMBERS,))
    (file,) = [path for path in Path(folder.spool).glob(f"{run_id}.*.spool") if not path.name.endswith("run.spool")]
    return Path(folder.path), file


def a_copy(path: Path) -> Kept:
    """One of several copies, with anchors of its own: a store that is sealed twice from one state was set back."""
    anchors = mkdtemp(prefix="anchors-", dir=path.parent)
    return Kept(path, {**os.environ, "XDG_STATE_HOME": anchors})


def taken_in(store: Path, name: str, data: bytes) -> tuple[Kept, SealedRun]:
    """Take in a copy of the store in which that spool file holds these bytes; the damaged run."""
    target = store.with_name("store")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store, target)
    (target / "spool" / name).write_bytes(data)
    kept = a_copy(target)
    assert len(kept.take_in()) == 2
    kept.sealed_once()
    runs = {run.argv[-1]: run for run in kept.runs().values()}
    other = runs['{"label": "other"}']
    assert (other.damage, other.tails, list(other.answers)) == ([], [], [1])
    return kept, runs['{"label": "damaged"}']


def whole(run: SealedRun) -> list[int]:
    """The numbers whose answers ended well and are right."""
    found = []
    for effect, (number, digests) in zip(run.log.effects, run.answers.items(), strict=True):
        if effect.ended == "eof" and digests == [sha256(answer_of(number)).hexdigest()]:
            found.append(number)
    return found


def test_a_cut_tail_costs_what_lay_in_it_and_is_named(spooled: tuple[Path, Path]) -> None:
    store, file = spooled
    data, chance = file.read_bytes(), Random(9)
    seen, whole_records, at = set(), set(), HEADER_SIZE
    while at < len(data):
        whole_records.add(at)
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    for size in sorted({*(chance.randrange(len(data)) for _ in range(25)), 0, 21, 25, len(data) - 1}):
        print(f"cut to {size} of {len(data)} bytes", flush=True)
        kept, run = taken_in(store, file.name, data[:size])
        seen.add(len(whole(run)))
        assert whole(run) == NUMBERS[: len(whole(run))]
        assert len(run.answers) - len(whole(run)) in (0, 1)  # the one that was under way
        assert run.tails or run.damage
        assert bool(run.damage) == (size not in whole_records and size >= HEADER_SIZE)
        shown = Store(kept.folder.path).show(run.entries[0].decision)
        assert shown.damage == run.damage
        assert shown.coverage["tails"] == run.tails
        assert shown.decision.captureLevel == ("damaged" if run.damage else "full")
    assert seen >= {0, 1, 4}


def test_a_changed_byte_costs_its_record_alone_and_is_named(spooled: tuple[Path, Path]) -> None:
    store, file = spooled
    key = (file.parent / file.name.replace(".spool", ".key")).read_bytes()
    sound = read_spool(str(file), private=Kept(store).folder.keyring(os.environ).intake)
    data, chance = file.read_bytes(), Random(10)
    for at in sorted({*(chance.randrange(21, len(data)) for _ in range(25)), 22, 24, len(data) - 1}):
        print(f"byte {at} of {len(data)}", flush=True)
        changed = data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]
        _, run = taken_in(store, file.name, changed)
        assert any(file.name in word for word in run.damage), run.damage
        assert len(whole(run)) >= len(NUMBERS) - 1
        assert run.entries[0].summary.level == "damaged"
    assert (sound.damage, len(key)) == ([], 85)


def test_a_file_whose_header_or_key_was_changed_is_kept_and_the_rest_of_its_run_loads(
    spooled: tuple[Path, Path],
) -> None:
    store, file = spooled
    for changed in (file, file.with_name(file.name.replace(".spool", ".key"))):
        sound = changed.read_bytes()
        target = store.with_name("store")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(store, target)
        (target / "spool" / changed.name).write_bytes(sound[:7] + bytes((sound[7] ^ 4,)) + sound[8:])
        kept = a_copy(target)
        assert len(kept.take_in()) == 2
        (run,) = [run for run in kept.runs().values() if run.argv[-1] == '{"label": "damaged"}']
        assert run.answers == {}
        assert any(file.name in word for word in run.damage), run.damage
        assert run.stdout == b"done\n"
        kept.sealed_once()
        left = {name for name in kept.files() if name.startswith("spool/")}
        assert len(left) == 2  # nothing is destroyed that was not sealed
        assert kept.take_in() == []
        assert {name for name in kept.files() if name.startswith("spool/")} == left


@pytest.mark.parametrize("seed", range(3))
def test_a_program_that_writes_nonsense_into_its_spool_keeps_no_other_run_waiting(quick: Path, seed: int) -> None:
    """It holds its file's key: what it seals decrypts, and may still be anything."""
    folder = open_store(str(quick / "store"), create=True, environ=os.environ)
    chance = Random(seed)
    kinds = [*fr.NAMES, 99]
    for number in range(40):
        run_id = wait_in(folder, label="nonsense", processes=([number],))
        nonsense = Spool(folder.spool, f"{run_id}.9.bad", public=folder.intake_public_key)
        for _ in range(chance.randrange(1, 4)):
            payload = chance.choice((b"", b"\xff\xfe", chance.randbytes(40), values.encode({}), values.encode([1])))
            numbers = [chance.choice((0, 1, 77)) for _ in range(4)]
            frame = fr.Frame(
                chance.choice(kinds), chance.choice((0, 1, 9)), *numbers, chance.getrandbits(40), b"", payload
            )
            nonsense.append(frame.written() if chance.random() < 0.9 else payload)
        nonsense.close()
    wait_in(folder, label="other", processes=([500],))
    store = Store(folder.path)
    taken = store.take_in()
    assert len(taken) + len(store.left) == 41
    assert len(store.decisions(limit=100)) == len(taken)
    assert [500] in [list(run.answers) for run in sane(Kept(Path(folder.path)))]
    for name in taken:
        store.show(name)
    assert (store.take_in(), len(store.left)) == ([], 41 - len(taken))


def test_a_decision_that_is_opened_twice_is_sealed_once(quick: Path) -> None:
    folder = open_store(str(quick / "store"), create=True, environ=os.environ)
    run_id = wait_in(folder, label="twice", processes=([1],), per_decision=1)
    kept = Kept(Path(folder.path))
    minted = next(
        values.decode(frame.payload)["id"]
        for path in Path(folder.spool).glob("*.spool")
        for data in read_spool(str(path), private=folder.keyring(os.environ).intake).frames
        if (frame := fr.read_frame(data)).kind == fr.OPEN
    )
    again = Spool(folder.spool, f"{run_id}.9.again", public=folder.intake_public_key)
    again.append(fr.Frame(fr.OPEN, 0, 1, 0, 0, 0, 1 << 50, b"", values.encode({"id": minted})).written())
    again.close()
    assert kept.take_in() == [minted]
    kept.sealed_once()
    (run,) = kept.runs().values()
    assert any("opened twice" in word for word in run.damage)


def sane(kept: Kept) -> list[SealedRun]:
    """The runs that nobody wrote nonsense into."""
    return [run for run in kept.runs().values() if run.argv[-1:] == ['{"label": "other"}']]

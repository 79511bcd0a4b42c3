"""Row 9: whatever byte of a store is changed on disk: what is served is what was written, or it is refused by name.

In this process, through the same library as the commands: a list, every decision in full, the exact bytes of every
answer. Each is either the one of the sound store or a `DamagedStore` (exit code 4) that names the file; a changed key
of the keyring may also read as another key (exit code 3). Through the commands themselves a few times.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tachograph.errors import DamagedStore, KeyMissing, NotFound, TachographError
from tachograph.library import Store
from tachograph.store.keyring import keys_folder
from tachograph.store.location import open_store
from tachograph.store.segment_file import read_identity
from tachograph.testing.scripted import ScriptedServer, stream
from tests.gauntlet.answers import DONE, piece
from tests.gauntlet.harness import Recorded, record, tacho
from tests.torture.kept import Kept
from tests.torture.waiting_runs import wait_in

Served = dict[str, Any]


def served(store: Path) -> Served:
    """Everything that a store gives, by what was asked for; a refusal as its class and message."""
    opened = Store(store)
    found: Served = {"list": _or_refusal(lambda: [row.model_dump_json() for row in opened.decisions(limit=100)])}
    for name in DECISIONS:
        answer = _or_refusal(lambda name=name: opened.show(name).model_dump_json())  # type: ignore[misc]
        found[name] = answer
        if isinstance(answer, str):
            for one in json.loads(answer)["timeline"]:
                number = one["effect"]
                found[f"{name} {number}"] = _or_refusal(lambda name=name, number=number: opened.bytes(name, number))  # type: ignore[misc]
    return found


def _or_refusal(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (DamagedStore, KeyMissing, NotFound) as fault:
        return fault


DECISIONS: list[str] = []


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with sealed and open segments, decisions of several sessions, and a run that is its own decision."""
    folder = open_store(str(tmp_path_factory.mktemp("sound") / "store"), create=True, environ=os.environ)
    kept = Kept(Path(folder.path))
    for number in range(3):
        wait_in(folder, label="plain", processes=([10 * number + 1, 10 * number + 2],))
        wait_in(folder, label="decided", processes=([10 * number + 5, 10 * number + 6],), per_decision=1)
        kept.take_in()
    DECISIONS[:] = [entry.decision for entry in kept.entries() if entry.decision.startswith("dec_")]
    return Path(folder.path)


@pytest.fixture
def store(sound: Path, quick: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(sound, quick / "store"))


def evidence(store: Path) -> list[Path]:
    """The files that are no index: what they hold cannot be made anew."""
    return sorted([*store.glob("segments/*.seg"), *store.glob("journal/*"), store / "keys"])


def refused_or_right(good: Served, now: Served, changed: Path) -> int:
    """Assert it of everything asked for; how much was refused."""
    refusals = 0
    for what, answer in now.items():
        if isinstance(answer, Exception):
            refusals += 1
            assert isinstance(answer, (DamagedStore, KeyMissing)), (what, answer)
            assert str(changed) in str(answer) or changed.name in str(answer), (what, answer)
        else:
            assert answer == good[what], what
    return refusals


def changes(data: bytes, chance: Random, count: int) -> Iterator[tuple[int, bytes]]:
    """Single-bit changes at random places, the first and last 48 bytes among them."""
    places = {*range(min(48, len(data))), *range(max(0, len(data) - 48), len(data))} if count >= 96 else set()
    places |= {chance.randrange(len(data)) for _ in range(count - len(places))}
    for at in sorted(places):
        yield at, data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]


def flip(store: Path, files: list[Path], count: int, seed: int) -> int:
    """Change `count` bytes of each file in turn, one at a time; how many changes were refused."""
    good = served(store)
    assert not any(isinstance(answer, Exception) for answer in good.values())
    found, chance = 0, Random(seed)
    for file in files:
        data = file.read_bytes()
        for at, changed in changes(data, chance, count):
            print(f"seed {seed}, {file.name}, byte {at}: {data[at]:#x} to {changed[at]:#x}", flush=True)
            file.write_bytes(changed)
            found += bool(refused_or_right(good, served(store), file))
        file.write_bytes(data)
    assert served(store) == good
    return found


def test_a_changed_byte_of_segment_journal_or_key_table_is_refused_by_name(store: Path) -> None:
    files = evidence(store)
    assert len(files) > 8
    # A reader looks at what it needs: a byte that no answer depends on is the sealer's and `verify`'s to find.
    assert flip(store, files, 4, 1) > 3 * len(files)


def test_a_changed_byte_of_the_catalogue_changes_no_answer(store: Path) -> None:
    flip(store, [store / "catalogue.db"], 60, 2)


def test_a_changed_description_is_refused_and_nothing_is_sealed_to_a_key_that_nobody_has(store: Path) -> None:
    sound = open_store(str(store), environ=os.environ)
    file, chance = store / "store.json", Random(3)
    data = file.read_bytes()
    for at in range(len(data)):
        file.write_bytes(data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :])
        try:
            opened = open_store(str(store), environ=os.environ)
        except TachographError:
            continue
        assert (opened.store_id, opened.intake_public_key) == (sound.store_id, sound.intake_public_key), at


def test_a_changed_key_reads_nothing(store: Path) -> None:
    folder = Path(keys_folder(open_store(str(store), environ=os.environ).store_id, os.environ))
    good = served(store)
    epoch = folder / "epoch.key"
    data = epoch.read_bytes()
    try:
        epoch.write_bytes(bytes((data[0] ^ 1,)) + data[1:])
        now = served(store)
        assert all(isinstance(answer, KeyMissing) for answer in now.values())
    finally:
        epoch.write_bytes(data)
    assert served(store) == good


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_of_evidence_are_refused_by_name(store: Path, seed: int) -> None:
    assert flip(store, evidence(store), 24, seed)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_every_byte_of_heads_and_tails_is_refused_by_name(store: Path) -> None:
    by_kind = {read_identity(str(file), file.read_bytes())[0].kind: file for file in store.glob("segments/*.seg")}
    assert len(by_kind) == 2  # an open one and a sealed one
    flip(store, [*by_kind.values(), store / "keys", *store.glob("journal/*")], 128, 99)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_of_the_catalogue_change_no_answer(store: Path, seed: int) -> None:
    flip(store, [store / "catalogue.db"], 100, seed)


@pytest.mark.parametrize("how", ["cut", "zeros", "emptied", "gone", "exchanged"])
def test_evidence_that_is_cut_or_gone_is_refused_or_missed_and_never_served_wrong(store: Path, how: str) -> None:
    good, chance = served(store), Random(how)
    for file in evidence(store):
        data = file.read_bytes()
        if how == "cut":
            file.write_bytes(data[: chance.randrange(1, len(data))])
        elif how == "zeros":
            size = chance.randrange(1, len(data))
            file.write_bytes(data[:size] + bytes(len(data) - size))
        elif how == "emptied":
            file.write_bytes(b"")
        elif how == "exchanged":
            others = [other for other in evidence(store) if other.parent == file.parent and other != file]
            if not others:
                continue
            file.write_bytes(chance.choice(others).read_bytes())
        else:
            file.unlink()
        print(how, file.name, flush=True)
        now = served(store)
        wrong = {
            what: answer for what, answer in now.items() if not isinstance(answer, Exception) and answer != good[what]
        }
        # A journal without its end lists fewer; a title whose key is not there is as one that was erased.
        known = [*good["list"], *(json.dumps({**json.loads(row), "title": ""}) for row in good["list"])]
        listed = [json.loads(row) for row in wrong.pop("list", [])]
        assert all(row in map(json.loads, known) for row in listed)
        assert wrong == {}
        assert any(isinstance(answer, Exception) for answer in now.values())
        file.write_bytes(data)
    assert served(store) == good


# --- through the commands ---------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """One call, recorded and sealed."""
    with ScriptedServer([stream([piece("a stored answer"), DONE])]) as server:
        return record(tmp_path, "ask.py", library="httpx", mode="sync", url=server.url, prompts=["a question"], more={})


@pytest.mark.parametrize("part", ["segments", "journal", "keys"])
def test_the_commands_refuse_a_changed_byte_with_id_and_place_and_exit_code_4(recorded: Recorded, part: str) -> None:
    store, decision = recorded.world.store, recorded.decision_id
    file = store / "keys" if part == "keys" else next((store / part).iterdir())
    data = file.read_bytes()
    at = 80 if part == "keys" else len(data) - 60  # in the first entry, the segment's key; in the only record
    file.write_bytes(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
    for words in (("show", decision), ("replay", decision, "--json")):
        ran = tacho(recorded.world, *words)
        said = (ran.stdout + ran.stderr).decode()
        assert ran.exit_code == 4, ran
        assert file.name in said
        assert "byte" in said
        assert "a stored answer" not in said
        if part == "segments":
            assert decision in said
    assert tacho(recorded.world, "doctor").exit_code == (0 if part == "segments" else 4)
    file.write_bytes(data)
    assert tacho(recorded.world, "replay", decision).exit_code == 0

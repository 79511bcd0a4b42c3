"""A store that somebody changed: `verify` finds each fault, names it, says where it is, and never falls over it.

What the store alone shows: any changed byte, records swapped, dropped or written anew by whoever has not its keys.
What only a checkpoint kept elsewhere shows: a tail cut off, the whole store set back, the log written anew by whoever
has its keys; without one, `anchor` says `not checked` and nothing says more.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tachograph.canonical import canonical
from tachograph.errors import TachographError
from tachograph.formats.answers import VerifyAnswer
from tachograph.intake import signed
from tachograph.library import Store
from tachograph.store.entry import CAPTURE, RUN, Entry
from tachograph.store.keyring import keys_folder
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import open_store
from tests.torture.kept import Kept
from tests.torture.tampered import (
    answer,
    failures,
    fresh_keys,
    origin_of,
    own_keys,
    resigned,
    rewrite_journal,
    rewrite_tiles,
    states,
)
from tests.torture.waiting_runs import wait_in

BYTES_PER_FILE = 4


@dataclass(frozen=True)
class Tampered:
    """A store to be changed, its older copy, and the folders beside it that count as elsewhere."""

    path: Path
    older: Path
    keys: Path
    anchors: Path
    signer: str

    def entries(self) -> list[Entry]:
        return Kept(self.path).entries()

    def captures(self) -> list[int]:
        return [number for number, entry in enumerate(self.entries()) if entry.kind == CAPTURE]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and decisions of several sessions, sealed in three batches; `older` is the store after the second."""
    base = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(base / "config"))
        patch.setenv("TACHO_ANCHOR", str(base / "anchors"))
        folder = open_store(str(base / "store"), create=True, environ=os.environ)
        for number in range(3):
            wait_in(folder, label="plain", processes=([10 * number + 1, 10 * number + 2],))
            wait_in(folder, label="decided", processes=([10 * number + 5, 10 * number + 6],), per_decision=1)
            Kept(Path(folder.path)).take_in()
            if number == 1:
                shutil.copytree(base / "store", base / "older")
    return base


@pytest.fixture
def store(sound: Path, quick: Path, monkeypatch: pytest.MonkeyPatch) -> Tampered:
    """A copy to be changed, with keys and anchors of its own; sound as it is."""
    base = Path(shutil.copytree(sound, quick / "all"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    monkeypatch.setenv("TACHO_ANCHOR", str(base / "anchors"))
    path = base / "store"
    folder = open_store(str(path), environ=os.environ)
    signer = own_keys(path)[0].public.did_key()
    found = answer(path, signer)
    assert failures(found) == []
    assert {state for state, _ in states(found, "identity")} == {"ok"}
    assert {state for state, _ in states(found, "anchor")} == {"ok"}
    return Tampered(path, base / "older", Path(keys_folder(folder.store_id, os.environ)), base / "anchors", signer)


def without_anchor(store: Tampered, monkeypatch: pytest.MonkeyPatch) -> VerifyAnswer:
    """What is said of the same store by somebody who has no checkpoint of it."""
    monkeypatch.setenv("TACHO_ANCHOR", str(store.anchors.with_name("none")))
    found = answer(store.path)
    assert isinstance(found, VerifyAnswer), found
    return found


# --- single bytes -----------------------------------------------------------------------------------------------------


def evidence(store: Tampered) -> list[Path]:
    """Every file that is no index and no lock."""
    inside = [file for file in store.path.rglob("*") if not file.name.startswith((".", "catalogue", "sealer"))]
    beside = [*store.keys.iterdir(), *store.anchors.iterdir()]
    return sorted(file for file in [*inside, *beside] if file.is_file())


def says_the_same(file: Path, data: bytes, changed: bytes) -> bool:
    """X25519 takes no notice of five bits of a private key (RFC 7748, 5); JSON has room beside what it says."""
    if file.suffix == ".json":
        said = []
        for one in (changed, data):
            file.write_bytes(one)
            try:
                found = open_store(str(file.parent), environ=os.environ)
                said.append((found.store_id, found.intake_public_key))
            except TachographError:
                return False
        return said[0] == said[1]
    if file.name != "intake.key":
        return False
    return all(a & mask == b & mask for a, b, mask in zip(data, changed, [248, *[255] * 30, 127 & 63], strict=True))


def test_any_changed_byte_of_any_file_is_found_and_its_file_named(store: Tampered) -> None:
    flip(store, 1, BYTES_PER_FILE)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 10))
def test_many_changed_bytes_of_any_file_are_found_and_their_file_named(store: Tampered, seed: int) -> None:
    flip(store, seed, 24)


def flip(store: Tampered, seed: int, count: int) -> None:
    """Change so many bytes of each file, one at a time, the first and the last among them."""
    chance, kinds = Random(seed), set()
    for file in evidence(store):
        data = file.read_bytes()
        for at in {0, len(data) - 1, *(chance.randrange(len(data)) for _ in range(count))}:
            changed = data[:at] + bytes((data[at] ^ 1 << chance.randrange(8),)) + data[at + 1 :]
            if says_the_same(file, data, changed):
                continue
            file.write_bytes(changed)
            found = " ".join(failures(answer(store.path)))
            named = file.parent.parent.parent.parent if "tile" in file.parts else file
            assert str(named) in found, (seed, file, at, found)
        kinds.add(file.suffix or file.name)
        file.write_bytes(data)
    assert {".seg", ".journal", ".key", ".json", ".origins", "keys", "origin", "checkpoint"} <= kinds
    assert failures(answer(store.path)) == []


def test_a_changed_key_that_no_record_needs_is_found_too(store: Tampered) -> None:
    folder = open_store(str(store.path), environ=os.environ)
    table = KeyTable(folder.path, folder.keyring(os.environ), write=True)
    table.add(SECRET, b"a run that a crash kept from the journal", bytes(16), bytes(32))
    table.commit()
    table.close()
    assert failures(answer(store.path)) == []
    file = store.path / "keys"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))
    (found,) = failures(answer(store.path))
    assert str(file) in found


@pytest.mark.parametrize("how", ["cut", "zeros", "emptied", "gone"])
def test_a_file_that_is_cut_or_gone_is_found_and_never_a_crash(store: Tampered, how: str) -> None:
    chance = Random(how)
    for file in evidence(store):
        data = file.read_bytes()
        size = chance.randrange(1, len(data))
        if how == "gone":
            file.unlink()
        else:
            file.write_bytes({"cut": data[:size], "zeros": data[:size] + bytes(len(data) - size), "emptied": b""}[how])
        found = answer(store.path)
        if how == "gone" and file.parent in (store.keys, store.anchors):
            assert isinstance(found, TachographError) or found.failed == 0
            if file.parent == store.anchors and file.suffix != ".origins":
                assert states(found, "anchor") == {("not_checked", "anchor: none")}
        elif file.suffix != ".origins":  # a list that is shorter is an older one
            assert failures(found), (how, file)
        file.write_bytes(data)
    assert failures(answer(store.path)) == []


def test_what_is_done_to_the_catalogue_changes_no_check(store: Tampered) -> None:
    good = Store(store.path).verify()
    database = sqlite3.connect(store.path / "catalogue.db")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if not table.startswith("sqlite_"):
            database.execute(f"DELETE FROM {table}")
    database.commit()
    database.close()
    assert Store(store.path).verify() == good
    for file in store.path.glob("catalogue*"):
        file.write_bytes(b"another file")
    assert Store(store.path).verify() == good


# --- records ----------------------------------------------------------------------------------------------------------


def edited(entry: Entry, change: Callable[[dict[str, Any]], Any], *, digest: bool) -> Entry:
    """Change what the journal keeps of a payload; with the digest that would fit what is kept."""
    payload = signed.skeleton_of(entry)
    change(payload)
    kept = canonical(payload)
    return replace(entry, payload=kept, payload_digest=sha256(kept).digest() if digest else entry.payload_digest)


@pytest.mark.parametrize("tiles", ["kept", "rewritten"])
def test_two_captures_that_were_swapped_are_both_named(store: Tampered, tiles: str) -> None:
    entries, (first, *_, last) = store.entries(), store.captures()
    names = [entries[number].decision for number in (first, last)]
    entries[first], entries[last] = (
        replace(entries[last], leaf=entries[first].leaf), replace(entries[first], leaf=entries[last].leaf),
    )  # fmt: skip
    rewrite_journal(store.path, entries)
    if tiles == "rewritten":
        rewrite_tiles(store.path, entries)
    found = failures(answer(store.path))
    for name in names:
        assert any(word.startswith(f"{name}: sequence: its number is") for word in found), found
    assert any(("leaf" if tiles == "kept" else "its root at size") in word and "/log" in word for word in found)


def test_captures_that_only_changed_places_are_found_by_their_numbers(store: Tampered) -> None:
    entries, (first, *_, last) = store.entries(), store.captures()
    entries[first], entries[last] = entries[last], entries[first]
    rewrite_journal(store.path, entries)
    found = failures(answer(store.path))
    assert any(entries[first].decision in word and "missing, moved or stands twice" in word for word in found), found


@pytest.mark.parametrize("tiles", ["kept", "rewritten"])
def test_a_record_deleted_from_the_middle_is_missed_at_its_number(store: Tampered, tiles: str) -> None:
    entries = store.entries()
    gone = store.captures()[2]
    after = entries[gone + 1].decision
    del entries[gone]
    rewrite_journal(store.path, entries)
    if tiles == "rewritten":
        rewrite_tiles(store.path, entries)
    found = failures(answer(store.path))
    assert any(f"({after}) has number {gone + 1}" in word and f"and {gone} would follow" in word for word in found)
    wanted = f"leaf {gone} has no record" if tiles == "kept" else "its root at size"
    assert any(wanted in word for word in found), found
    assert len([word for word in found if "would follow" in word]) == 1


def test_a_record_that_stands_twice_is_found(store: Tampered) -> None:
    entries, number = store.entries(), store.captures()[1]
    entries.insert(number, entries[number])
    rewrite_journal(store.path, entries)
    found = failures(answer(store.path))
    assert any(f"{entries[number].decision}: sequence: its number is {number}" in word for word in found), found


@pytest.mark.parametrize("digest", [False, True])
@pytest.mark.parametrize("tiles", ["kept", "rewritten"])
def test_an_edited_payload_whose_chain_was_made_right_again_is_named(store: Tampered, digest: bool, tiles: str) -> None:
    entries, number = store.entries(), store.captures()[1]
    entries[number] = edited(entries[number], lambda payload: payload.update(captureLevel="damaged"), digest=digest)
    entries[number] = replace(entries[number], summary=replace(entries[number].summary, level="damaged"))
    rewrite_journal(store.path, entries)
    if tiles == "rewritten":
        rewrite_tiles(store.path, entries)
    found = failures(answer(store.path))
    assert any(word.startswith(f"{entries[number].decision}: content: ") for word in found), found
    if digest:
        wanted = "its root at size" if tiles == "rewritten" else f"leaf {number} is not that of"
        assert any(wanted in word for word in found), found


def test_another_key_in_a_payload_signed_with_it_is_no_key_of_the_log(store: Tampered) -> None:
    entries, number = store.entries(), store.captures()[1]
    other = fresh_keys()[0]
    reference = other.public.reference()
    named = {"publicKeyRef": reference, "algorithm": "ed25519", "keyDigest": other.public.key_digest()}
    changed = edited(entries[number], lambda payload: payload["sealing"].update(signer=named), digest=False)
    entries[number] = replace(changed, signature=other.sign(b"anything"))
    rewrite_journal(store.path, entries)
    found = failures(answer(store.path, store.signer, other.public.did_key()))
    assert f"{changed.decision}: key: no leaf of the log registers {reference}" in found
    assert any(f"leaf {number} is not that of {changed.decision}" in word for word in found), found


@pytest.mark.parametrize(
    "summary", [{"agent": "somebody"}, {"level": "damaged"}, {"failed": True}], ids=lambda said: next(iter(said))
)
def test_the_list_s_facts_beside_a_payload_are_held_against_it(store: Tampered, summary: dict[str, Any]) -> None:
    entries, number = store.entries(), store.captures()[1]
    entries[number] = replace(entries[number], summary=replace(entries[number].summary, **summary))
    rewrite_journal(store.path, entries)
    (found,) = failures(answer(store.path))
    assert found.startswith(f"{entries[number].decision}: format: the list's facts beside the payload say")


@pytest.mark.parametrize("member", ["decision", "run"])
def test_a_record_under_another_name_is_found(store: Tampered, member: str) -> None:
    entries, (number, *_, other) = store.entries(), store.captures()
    entries[number] = replace(entries[number], **{member: getattr(entries[other], member)})
    rewrite_journal(store.path, entries)
    assert failures(answer(store.path))
    run = next(number for number, entry in enumerate(entries) if entry.kind == RUN)
    entries = store.entries()
    entries[run] = replace(entries[run], decision=entries[number].run)
    rewrite_journal(store.path, entries)
    assert failures(answer(store.path))


STRANGE = [
    b"", b"[]", b"{}", b"null", b'"text"', b"\xff\xfe", b'{"sealing": 1}', b"[" * 100_000,
    b'{"sealing": {"signer": []}}',
    b'{"sealing": {"tenantId": {}, "signer": {}, "sequence": 1, "after": {"treeSize": 1}}}',
    b'{"sealing": {"tenantId": "default", "signer": {"publicKeyRef": "x"}, "sequence": 0, "origin": 1, "sealedAt": 1,'
    b' "after": {"treeSize": 99999}}, "evidenceStates": 5, "runtime": 7}',
]  # fmt: skip


@pytest.mark.parametrize("payload", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("kind", ["capture", "statement"])
def test_a_payload_that_no_sealer_wrote_is_a_failed_check_and_no_crash(
    store: Tampered, payload: bytes, kind: str
) -> None:
    entries, number = store.entries(), store.captures()[1] if kind == "capture" else 1
    entries[number] = replace(entries[number], payload=payload)
    rewrite_journal(store.path, entries)
    found = failures(answer(store.path))
    assert any(entries[number].decision in word for word in found), found
    entries[number] = replace(entries[number], leaf=None)
    rewrite_journal(store.path, entries)
    assert failures(answer(store.path))


# --- what only an anchor shows ----------------------------------------------------------------------------------------


def cut_tail(store: Tampered) -> None:
    """Put journal and log back, together, to where they were; what they referred to stays."""
    for part in ("journal", "log"):
        shutil.rmtree(store.path / part)
        shutil.copytree(store.older / part, store.path / part)


def set_back(store: Tampered) -> None:
    """Put the whole store back to an older copy."""
    shutil.rmtree(store.path)
    shutil.copytree(store.older, store.path)


def written_anew(store: Tampered) -> None:
    """What the key's holder can do: another history, all of it signed and logged under the same name."""
    resigned(
        store.path, origin_of(store.path), own_keys(store.path), lambda payload: payload.update(capturedAt="never")
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut_tail, "cut, or set back"),
        (set_back, "cut, or set back"),
        (written_anew, "is not the anchored one: rewritten"),
    ],
)
def test_only_an_anchor_shows_it_and_without_one_nothing_claims_to_have_looked(
    store: Tampered, monkeypatch: pytest.MonkeyPatch, change: Callable[[Tampered], None], words: str
) -> None:
    change(store)
    found = answer(store.path, store.signer)
    assert {state for state, _ in states(found, "anchor")} == {"failed"}
    assert any(words in word and str(store.anchors) in word for word in failures(found))
    alone = without_anchor(store, monkeypatch)
    assert states(alone, "anchor") == {("not_checked", "anchor: none")}
    assert failures(alone) == []


@pytest.mark.parametrize("name", ["same", "other"])
def test_a_log_made_anew_with_fresh_keys_is_nobody_s_and_not_the_anchored_one(
    store: Tampered, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    origin = origin_of(store.path) if name == "same" else f"tachograph/{'ab' * 16}/default/0"
    resigned(store.path, origin, fresh_keys(), lambda payload: payload.update(capturedAt="never"))
    found = answer(store.path, store.signer)
    assert {state for state, _ in states(found, "identity")} == {"not_checked"}
    assert {state for state, _ in states(found, "anchor")} == {"failed"}
    words = failures(found)
    assert any(str(store.anchors) in word for word in words)
    assert any(str(store.keys / "signer.key") in word for word in words)
    assert {state for state, _ in states(without_anchor(store, monkeypatch), "identity")} == {"not_checked"}


def test_what_lies_behind_the_anchored_checkpoint_is_not_checked_against_it(store: Tampered) -> None:
    (newest,) = (file for file in store.anchors.iterdir() if file.suffix != ".origins")
    newest.write_bytes((store.older / "log" / "checkpoint").read_bytes())
    found = answer(store.path)
    assert failures(found) == []
    assert {state for state, _ in states(found, "anchor")} == {"ok", "not_checked"}


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_says_what_failed_and_ends_with_1_or_4_and_never_with_a_traceback(store: Tampered) -> None:
    def said() -> tuple[int, str]:
        words = (sys.executable, "-m", "tachograph", "verify", "--all", "--store", str(store.path))
        ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in ran.stderr, ran.stderr
        return ran.returncode, ran.stdout + ran.stderr

    assert said()[0] == 0
    segment = next(store.path.glob("segments/*.seg"))
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))
    code, text = said()
    assert code == 1
    assert "FAILED" in text
    assert str(segment) in text
    segment.write_bytes(data)
    (store.path / "log" / "origin").write_text("another\n")
    code, text = said()
    assert code == 4
    assert "log/origin" in text

"""What is kept elsewhere of a log is never taken back, and a store that is older than it is sealed into no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.intake.anchor import Anchor, OlderThanAnchor
from tachograph.intake.vouching import origins
from tachograph.library import Store
from tachograph.signing import note
from tachograph.signing.keys import SigningKey
from tachograph.signing.merkle import leaf_hash, root_of
from tachograph.store.location import StoreFolder, open_store
from tests.torture.kept import Kept
from tests.torture.waiting_runs import wait_in

ORIGIN = f"tachograph/{'0' * 32}/default/0"
HASHES = [leaf_hash(b"%d" % number) for number in range(8)]
KEY = SigningKey.from_bytes(b"k" * 32)


def checkpoint(size: int, hashes: list[bytes] = HASHES) -> bytes:
    said = note.Checkpoint(origin=ORIGIN, size=size, root=root_of(hashes[:size]))
    return note.sign(said.body(), [note.Signer(ORIGIN, KEY)])


def keep(anchor: Anchor, size: int, hashes: list[bytes] = HASHES) -> str | None:
    anchor.keep("store", ORIGIN, checkpoint(size, hashes), lambda size: root_of(hashes[:size]))
    return anchor.fault


def test_a_larger_checkpoint_that_continues_it_takes_the_place_of_the_one_kept(tmp_path: Path) -> None:
    anchor = Anchor({"TACHO_ANCHOR": str(tmp_path)})
    for size in (2, 5, 5, 8):
        assert keep(anchor, size) is None
        assert anchor.kept(ORIGIN) == checkpoint(size)
    assert anchor.origins("store") == [ORIGIN]


def test_of_the_list_of_logs_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    """Whoever changes one into what another reader takes for an end must not go unnoticed."""
    anchor = Anchor({"TACHO_ANCHOR": str(tmp_path)})
    assert keep(anchor, 2) is None
    (tmp_path / "store.origins").write_bytes(ORIGIN.encode() + b"\x0b")
    assert anchor.origins("store") == [ORIGIN + "\x0b"]


def test_a_smaller_one_is_not_kept_and_why_is_said(tmp_path: Path) -> None:
    anchor = Anchor({"TACHO_ANCHOR": str(tmp_path)})
    keep(anchor, 5)
    fault = keep(anchor, 4)
    assert anchor.kept(ORIGIN) == checkpoint(5)
    assert fault is not None
    assert anchor.path(ORIGIN) in fault
    assert "over 5 leaves was anchored, and the log has 4" in fault


@pytest.mark.parametrize("size", [5, 8])
def test_one_of_another_history_is_not_kept_however_large(tmp_path: Path, size: int) -> None:
    anchor = Anchor({"TACHO_ANCHOR": str(tmp_path)})
    keep(anchor, 5)
    fault = keep(anchor, size, [leaf_hash(b"another"), *HASHES[1:]])
    assert anchor.kept(ORIGIN) == checkpoint(5)
    assert fault is not None
    assert "root at size 5 is not the anchored one" in fault


def test_what_is_kept_and_does_not_parse_is_not_written_over(tmp_path: Path) -> None:
    anchor = Anchor({"TACHO_ANCHOR": str(tmp_path)})
    keep(anchor, 5)
    Path(anchor.path(ORIGIN)).write_bytes(b"damaged")
    assert "does not parse" in str(keep(anchor, 8))
    assert anchor.kept(ORIGIN) == b"damaged"


# --- the store --------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreFolder:
    """A store with one run sealed, a copy of it as `older`, and one more run sealed since."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TACHO_ANCHOR", str(tmp_path / "anchors"))
    folder = open_store(str(tmp_path / "store"), create=True, environ=os.environ)
    seal_one(folder, "first")
    shutil.copytree(folder.path, tmp_path / "older")
    seal_one(folder, "second")
    return folder


def seal_one(folder: StoreFolder, label: str) -> None:
    wait_in(folder, label=label, processes=([1],))
    assert len(Kept(Path(folder.path)).take_in()) == 1


def set_back(folder: StoreFolder) -> None:
    shutil.rmtree(folder.path)
    shutil.copytree(Path(folder.path).with_name("older"), folder.path)


def anchored(folder: StoreFolder) -> bytes | None:
    (origin,) = origins(folder).values()
    return Anchor(os.environ).kept(origin)


def test_a_store_that_was_set_back_keeps_what_waits_and_seals_nothing(folder: StoreFolder) -> None:
    before = anchored(folder)
    set_back(folder)
    run = wait_in(folder, label="third", processes=([3],))
    with pytest.raises(OlderThanAnchor, match="journal older than the anchor"):
        Kept(Path(folder.path)).take_in()
    store = Store(folder.path)
    assert store.take_in() == []
    assert "journal older than the anchor" in store.warnings[0]
    assert any(run in name for name in os.listdir(folder.spool))
    assert len(store.decisions()) == 1  # it is read as before
    assert anchored(folder) == before


def test_a_log_that_only_lost_what_the_journal_gives_again_is_mended_and_sealed_into(folder: StoreFolder) -> None:
    shutil.rmtree(Path(folder.log, "tile"))
    Path(folder.log, "checkpoint").unlink()
    store = Store(folder.path)
    assert store.take_in() == []
    assert store.warnings == []
    assert store.verify().failed == 0
    seal_one(folder, "third")
    assert store.verify().failed == 0


def test_a_log_whose_name_is_gone_is_not_begun_anew(folder: StoreFolder) -> None:
    shutil.rmtree(folder.log)
    os.mkdir(folder.log)
    wait_in(folder, label="third", processes=([3],))
    with pytest.raises(DamagedStore, match="origin is gone"):
        Kept(Path(folder.path)).take_in()


def test_a_store_set_back_to_before_its_first_log_is_not_begun_anew(folder: StoreFolder) -> None:
    shutil.rmtree(folder.path)
    for name in ("", "spool", "segments", "journal", "log"):
        os.mkdir(Path(folder.path, name))
    shutil.copy(Path(folder.path).with_name("older") / "store.json", folder.path)
    wait_in(folder, label="third", processes=([3],))
    with pytest.raises(OlderThanAnchor, match="that log is gone"):
        Kept(Path(folder.path)).take_in()


@pytest.mark.parametrize("name", ["signer.key", "log.key"])
def test_nothing_is_sealed_with_another_key_than_before(folder: StoreFolder, name: str) -> None:
    key = Path(folder.keyring(os.environ).path(name))
    key.write_bytes(os.urandom(32))
    wait_in(folder, label="third", processes=([3],))
    with pytest.raises(DamagedStore, match=name):
        Kept(Path(folder.path)).take_in()


def test_a_checkpoint_that_was_not_kept_is_kept_with_the_next_look(folder: StoreFolder) -> None:
    kept = anchored(folder)
    shutil.rmtree(Anchor(os.environ).folder)
    assert Kept(Path(folder.path)).take_in() == []
    assert anchored(folder) == kept


def test_a_folder_that_cannot_be_written_is_one_line_and_no_error(
    folder: StoreFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TACHO_ANCHOR", str(tmp_path / "file" / "anchors"))
    wait_in(folder, label="third", processes=([3],))
    store = Store(folder.path)
    assert len(store.take_in()) == 1
    (line,) = store.warnings
    assert line.startswith("anchor: none (")
    (checked,) = {one.checks.anchor.reason for one in store.verify().captures}
    assert checked == "anchor: none"


def command(*words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, "-m", "tachograph", *words)
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_every_command_says_first_that_a_store_was_set_back_and_programs_still_run(folder: StoreFolder) -> None:
    set_back(folder)
    for words in (("ls",), ("show", "last"), ("verify", "--all")):
        ran = command(*words, "--store", folder.path)
        assert ran.stderr.splitlines()[0].startswith(f"{folder.path}: journal older than the anchor: "), ran
        assert ran.returncode == (1 if words[0] == "verify" else 0), ran
    ran = command("run", "--store", folder.path, "--", sys.executable, "-c", "print('as ever')")
    assert ran.returncode == 0, ran
    assert ran.stdout == "as ever\n"
    assert "journal older than the anchor" in ran.stderr
    assert os.listdir(folder.spool)

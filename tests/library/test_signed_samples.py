"""Every signed store that an earlier version wrote still verifies, and gives the same payloads and documents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tachograph.library import Store
from tachograph.store.location import open_store
from tests.library.signed_sample import documents, payloads, surroundings
from tests.torture.kept import Kept
from tests.torture.waiting_runs import wait_in

SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_signed_store_of_that_version_verifies_and_gives_the_same_bytes(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(sample, tmp_path / "copy"))
    (folder / "store" / "spool").mkdir()
    for name, value in surroundings(folder).items():
        monkeypatch.setenv(name, value)
    found = Store(folder / "store").verify()
    assert (found.failed, found.faults) == (0, [])
    assert {one.checks.anchor.state for one in found.captures} == {"ok"}
    for name, made in (("payloads", payloads(folder)), ("documents", documents(folder))):
        assert {f"{decision}.json": data for decision, data in made.items()} == {
            file.name: file.read_bytes() for file in (sample / name).iterdir()
        }
    store = open_store(str(folder / "store"), environ=os.environ)
    wait_in(store, label="one more", processes=([7],))
    assert len(Kept(Path(store.path)).take_in()) == 1
    Kept(Path(store.path)).vouched_for()

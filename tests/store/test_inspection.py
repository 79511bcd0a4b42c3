"""An inspection counts what is there, names what was left behind, and changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tachograph.store.catalogue import Catalogue
from tachograph.store.inspection import inspect
from tachograph.store.journal import Journal
from tests.store.kept import OTHER_DOMAIN, Kept, conversation, entry


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_every_byte_of_the_store_belongs_to_a_part(kept: Kept) -> None:
    kept.put(*conversation(3))
    kept.put(*conversation(3), domain=OTHER_DOMAIN, seal=True)
    Journal(kept.store.journal, write=True).append_batch([entry(0)])
    catalogue = Catalogue(kept.store.path, write=True)
    catalogue.catch_up(Journal(kept.store.journal))
    (Path(kept.store.spool) / "run.1.a.spool").write_bytes(b"frames")
    before = kept.files()
    found = inspect(kept.store, environ=kept.environ)
    counts = {name: part.files for name, part in found.parts.items()}
    assert counts["segments open"] == counts["segments sealed"] == counts["journal"] == counts["keys"] == 1
    assert counts["spool"] == 1
    described = sum(len(before[name]) for name in ("store.json", ".gitignore"))
    assert found.size == sum(map(len, before.values())) - described
    assert (found.leftovers, found.faults) == ([], [])
    assert kept.files() == before


def test_what_interrupted_steps_left_is_named(kept: Kept, tmp_path: Path) -> None:
    names = [os.path.join(kept.store.segments, "x.seg.1.new"), os.path.join(kept.store.path, "keys.new")]
    for name in names:
        Path(name).write_bytes(b"")
    (tmp_path / ".tachograph.abcd.new").mkdir()
    assert sorted(inspect(kept.store, environ=kept.environ).leftovers) == sorted(
        [*names, str(tmp_path / ".tachograph.abcd.new")]
    )


def test_what_needs_attention_is_named(kept: Kept) -> None:
    (Path(kept.store.segments) / "00.seg").write_bytes(b"no segment")
    (Path(kept.store.spool) / "run.1.a.gap.key").write_bytes(b"")
    os.chmod(kept.store.path, 0o755)
    os.chmod(kept.store.keyring(kept.environ).path("tag.key"), 0o644)
    faults = inspect(kept.store, environ=kept.environ).faults
    assert len(faults) == 4
    for word in ("00.seg", "gap.key", "tag.key may be read by others", ".tachograph may be read by others"):
        assert any(word in fault for fault in faults), word

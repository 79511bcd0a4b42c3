"""Every store that an earlier version wrote is still read, to the byte."""

from __future__ import annotations

import json
import shutil
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from tachograph.store.catalogue import Catalogue, Query
from tachograph.store.entry import CAPTURE
from tachograph.store.journal import Journal
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import open_store
from tachograph.store.segments import ContentStore, Place
from tachograph.store.summary import open_title


def _vouched(journal: Journal, segment: str) -> int:
    return journal.vouched().get(segment, 0)


SAMPLES = sorted((Path(__file__).parent / "samples").iterdir())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_store_of_that_version_is_read_and_gone_on_with(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path / "copy")
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "copy" / "config")}
    store = open_store(str(tmp_path / "copy" / "store"), environ=environ)
    expected = json.loads((sample / "expected.json").read_text())
    for write in (False, True):
        keys = KeyTable(store.path, store.keyring(environ), write=write)
        journal = Journal(store.journal, write=write)
        content = ContentStore(store.segments, keys, vouched=partial(_vouched, journal))
        records = list(journal.records())
        assert [record.entry.decision for record in records] == [one["decision"] for one in expected]
        for record, one in zip(records, expected, strict=True):
            assert record.entry.payload.decode() == one["payload"]
            assert list(record.entry.places[0]) == one["place"]
            assert sha256(content.read(Place(*one["place"]))).hexdigest() == one["log"]
            secret = keys.get(SECRET, one["decision"].encode())
            assert open_title(secret, one["decision"], record.entry.summary.title) == one["title"]
        assert records[2].entry.signature == b"s" * 64
        assert records[2].entry.leaf == 2
    place = content.append(records[-1].entry.domain, b"one more", [])
    content.commit()
    assert place.segment == expected[-1]["place"][0]
    assert content.read(place) == b"one more"
    catalogue = Catalogue(store.path, write=True)
    catalogue.catch_up(journal)
    listed = [one["decision"] for one in expected if one["kind"] == CAPTURE]
    assert [row.decision for row in catalogue.rows(Query())] == listed[::-1]

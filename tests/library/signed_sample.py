"""`python -m tests.library.signed_sample FOLDER` writes a small signed store as this version does, and what it gives.

Done once per format; the result is committed under `tests/library/samples/` and never changed again.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tachograph.canonical import canonical
from tachograph.intake.sealing import Sealer
from tachograph.library import Store
from tachograph.library.store import _Opened
from tachograph.store.location import open_store
from tests.torture.waiting_runs import wait_in


def surroundings(folder: Path) -> dict[str, str]:
    """Where a sample's keys and anchors are."""
    return {"XDG_CONFIG_HOME": str(folder / "config"), "TACHO_ANCHOR": str(folder / "anchors")}


def payloads(folder: Path) -> dict[str, bytes]:
    """Every record's payload as it was signed, put together from what the store keeps."""
    store = open_store(str(folder / "store"), environ=os.environ)
    found = {}
    with _Opened(store, store.keyring(os.environ)) as opened:
        verifier = opened.verifier(store, os.environ)
        for record in verifier.records:
            found[record.entry.decision] = verifier.rebuilt(record.entry).payload
    return found


def documents(folder: Path) -> dict[str, bytes]:
    """Every decision's document."""
    store = Store(folder / "store")
    return {one.decisionId: canonical(store.document(one.decisionId)) for one in store.verify().captures}


def write(folder: Path) -> None:
    """Write the store, its keys, its anchor, and what it gives."""
    os.environ.update(surroundings(folder))
    store = open_store(str(folder / "store"), create=True, environ=os.environ)
    for number in range(2):
        wait_in(store, label="plain", processes=([10 * number + 1],))
        wait_in(store, label="decided", processes=([10 * number + 5, 10 * number + 6],), per_decision=1)
        with Sealer(store, environ=os.environ) as sealer:
            sealer.take_in()
    for name, made in (("payloads", payloads(folder)), ("documents", documents(folder))):
        os.mkdir(folder / name)
        for decision, data in made.items():
            (folder / name / f"{decision}.json").write_bytes(data)
    for file in (
        *(folder / "store").glob("catalogue*"),
        folder / "store" / "sealer.lock",
        folder / "store" / ".gitignore",
    ):
        file.unlink()
    shutil.rmtree(folder / "store" / "spool")


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())

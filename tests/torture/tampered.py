"""Ways to change a store behind its back: as an attacker without its keys would, and as their holder could.

The journal's chain has no key: whoever can write it can write it anew, with every digest right. What he cannot make is
a signature, the log's checkpoint, and what was kept elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tachograph.errors import TachographError
from tachograph.formats import capture_v1
from tachograph.formats.answers import VerifyAnswer
from tachograph.formats.answers.verify import Checks
from tachograph.intake import signed
from tachograph.intake.rebuilding import content_of
from tachograph.intake.vouching import origins
from tachograph.library import Store
from tachograph.signing import dsse, note
from tachograph.signing.keys import SigningKey
from tachograph.signing.log import TileLog
from tachograph.signing.merkle import EMPTY, leaf_hash
from tachograph.store.disk import DISK
from tachograph.store.entry import STATEMENT, Entry
from tachograph.store.journal import Journal
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import open_store
from tachograph.store.segments import ContentStore
from tests.torture.kept import Kept

Edit = Callable[[dict[str, Any]], None]


def answer(store: Path, *trust: str) -> VerifyAnswer | TachographError:
    """What `verify` says of a whole store: an answer or a typed error, never anything else."""
    try:
        return Store(store).verify(trust=trust)
    except TachographError as fault:
        return fault


def failures(found: VerifyAnswer | TachographError) -> list[str]:
    """Everything that failed, in words with its place; empty where nothing did."""
    if isinstance(found, TachographError):
        return [f"{found.code}: {found}"]
    words = list(found.faults)
    for one in found.captures:
        for name in Checks.model_fields:
            check = getattr(one.checks, name)
            if check.state == "failed":
                words.append(f"{one.decisionId}: {name}: {check.reason}")
    assert bool(words) == bool(found.failed)
    return words


def states(found: VerifyAnswer | TachographError, name: str) -> set[tuple[str, str | None]]:
    """State and reason of one check, over all captures."""
    assert isinstance(found, VerifyAnswer), found
    return {(getattr(one.checks, name).state, getattr(one.checks, name).reason) for one in found.captures}


def rewrite_journal(store: Path, entries: Iterable[Entry]) -> None:
    """Put other records in the journal, numbered and chained as its own would be."""
    folder = open_store(str(store), environ=os.environ)
    shutil.rmtree(folder.journal)
    os.mkdir(folder.journal)
    journal = Journal(folder.journal, write=True)
    journal.append_batch(list(entries))
    journal.close()


def rewrite_tiles(store: Path, entries: Sequence[Entry]) -> None:
    """Make the log's tiles anew from other records; its checkpoint stays: it takes a key."""
    folder = open_store(str(store), environ=os.environ)
    shutil.rmtree(Path(folder.log, "tile"))
    log = TileLog(folder.log, disk=DISK, write=True)
    log.append([leaf_hash(signed.leaf(entry, signed.type_of(entry))) for entry in entries], at=0)
    log.close()


def resigned(store: Path, origin: str, keys: tuple[SigningKey, SigningKey], edit: Edit) -> None:
    """Write journal and log anew with a changed payload in every record, all of it signed with these keys."""
    signer, log_key = keys
    kept = Kept(store)
    table = KeyTable(kept.folder.path, kept.folder.keyring(os.environ))
    content = ContentStore(kept.folder.segments, table)
    made: list[Entry] = []
    previous = signed.ZEROS
    for number, entry in enumerate(kept.entries()):
        payload = signed.skeleton_of(entry)
        payload["sealing"].update(origin=origin, signer=_named(signer))
        if payload.get("type") == "key":
            of = signer if payload["body"]["role"] == "signer" else log_key
            payload["body"].update(_named(of))
        else:
            edit(payload)
        statement = entry.kind == STATEMENT
        secret = bytes(32) if statement else table.get(SECRET, entry.decision.encode())
        items = content_of(entry, [content.read(place) for place in entry.places])
        changed = replace(entry, payload=signed.kept(payload), leaf=number)
        whole = signed.whole(
            changed, previous=previous, root="sha256:" + EMPTY.hex(),
            commitments=capture_v1.commitments(list(items.values()), secret),
        )  # fmt: skip
        type = signed.STATEMENT_TYPE if statement else dsse.CAPTURE_TYPE
        signature = signer.sign(dsse.pae(type, whole))
        made.append(replace(changed, payload_digest=sha256(whole).digest(), signature=signature))
        previous = "sha256:" + sha256(whole).hexdigest()
    content.close()
    table.close()
    rewrite_journal(store, made)
    Path(kept.folder.log, "checkpoint").unlink()
    Path(kept.folder.log, "origin").write_text(origin + "\n")
    rewrite_tiles(store, made)
    log = TileLog(kept.folder.log, disk=DISK, write=True)
    said = note.Checkpoint(origin=origin, size=log.size, root=log.root())
    log.publish(note.sign(said.body(), [note.Signer(origin, log_key)]))
    log.close()


def own_keys(store: Path) -> tuple[SigningKey, SigningKey]:
    """The store's own keys, as their holder has them."""
    ring = open_store(str(store), environ=os.environ).keyring(os.environ)
    return SigningKey.from_bytes(ring.signer), SigningKey.from_bytes(ring.log)


def fresh_keys() -> tuple[SigningKey, SigningKey]:
    """Keys that anybody can draw."""
    return SigningKey.from_bytes(os.urandom(32)), SigningKey.from_bytes(os.urandom(32))


def origin_of(store: Path) -> str:
    """The name of the store's log."""
    (origin,) = origins(open_store(str(store), environ=os.environ)).values()
    return origin


def _named(key: SigningKey) -> dict[str, str]:
    public = key.public
    return {"algorithm": "ed25519", "publicKeyRef": public.reference(), "keyDigest": public.key_digest()}

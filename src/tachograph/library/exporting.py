"""`tacho export`: captures packed with everything that a stranger needs to check them offline.

The statement that says what was given to whom is signed and logged before the bytes are released. What a capture's
headers held as credentials never entered it; where such a value stands in a body all the same, the item is withheld,
and EXPORT says so.
"""

from __future__ import annotations

import getpass
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tachograph.canonical import canonical
from tachograph.errors import DamagedStore, Refused
from tachograph.formats.bundle.writing import write_bundle
from tachograph.formats.capture_v1 import BLOB, TREE, Item, fill, salt_of
from tachograph.intake import signed
from tachograph.intake.masking import Credentials
from tachograph.intake.rebuilding import Rebuilt
from tachograph.library.verifying import StoreVerifier
from tachograph.signing import dsse, note
from tachograph.signing.keys import PublicKey, from_reference
from tachograph.store.entry import CAPTURE, STATEMENT
from tachograph.store.journal import Record

SCOPES = ("operator", "regulator", "counterparty")
CREDENTIAL = "credential"

State = Callable[[str, dict[str, Any]], tuple[Any, bytes]]
"""Seals a statement; returns its record and the payload that was signed."""


@dataclass(frozen=True)
class Exported:
    """A bundle's bytes, and what was left out of it: (decision, pointer, reason)."""

    data: bytes
    withheld: tuple[tuple[str, str, str], ...]


def export(
    verifier: StoreVerifier, records: Sequence[Record], *, scope: str, masking_of: Callable[[Record], Credentials],
    secret_of: Callable[[str], bytes], state: State,
) -> Exported:  # fmt: skip
    """Return a bundle of captures. Raises Refused for a scope that is not built, DamagedStore for what is not whole."""
    if scope != "operator":
        raise Refused(
            f"--scope {scope} leaves content out with all that carries it, which is not built yet; operator is",
            reason="not_built",
        )
    members: dict[str, bytes] = {}
    withheld: list[tuple[str, str, str]] = []
    keys: set[PublicKey] = set()
    for record in records:
        rebuilt = _whole(verifier, record, keep_bytes=True)
        masking = masking_of(record)
        left_out = {pointer for pointer, item in rebuilt.items.items() if _holds_credential(item, masking)}
        withheld += [(record.entry.decision, pointer, CREDENTIAL) for pointer in sorted(left_out)]
        members |= _capture(rebuilt, left_out, secret_of(record.entry.decision))
        members |= _vouched(verifier, record, rebuilt.payload)
        keys.add(_signer(rebuilt))
    for record in verifier.records:
        if record.entry.kind == STATEMENT and signed.skeleton_of(record.entry).get("type") == "key":
            statement = _whole(verifier, record)
            members |= _vouched(verifier, record, statement.payload)
            keys.add(_signer(statement))
            registered = from_reference(signed.skeleton_of(record.entry)["body"]["publicKeyRef"])
            members[f"keys/{registered.key_digest()[7:]}.pem"] = registered.pem()  # the log's, too
    members |= _keys(keys)
    members["log/checkpoint"] = verifier.checkpoint_of(records[0])
    named = sorted(record.entry.decision for record in records)

    def stated(manifest: str) -> bytes:
        body = {
            "scope": scope, "captures": named, "manifest": manifest, "person": _person(),
            "withheld": [{"decisionId": one, "pointer": place, "reason": why} for one, place, why in withheld],
        }  # fmt: skip
        entry, payload = state("export", body)
        key = from_reference(signed.skeleton_of(entry)["sealing"]["signer"]["publicKeyRef"])
        return dsse.envelope(signed.STATEMENT_TYPE, payload, [(key.reference(), entry.signature)])

    return Exported(write_bundle(members, export=stated), tuple(withheld))


def _whole(verifier: StoreVerifier, record: Record, *, keep_bytes: bool = False) -> Rebuilt:
    if not record.entry.signature:
        raise Refused(f"{record.entry.decision} was sealed before this store signed", reason="not_signed")
    rebuilt = verifier.rebuilt(record.entry, keep_bytes=keep_bytes)
    if not rebuilt.whole:
        raise DamagedStore(f"{record.entry.decision}: what is kept does not give what was signed; see `tacho verify`")
    return rebuilt


def _holds_credential(item: Item, masking: Credentials) -> bool:
    return item.kind != TREE and masking.masked(item.data) != item.data


def _capture(rebuilt: Rebuilt, left_out: set[str], secret: bytes) -> dict[str, bytes]:
    given = {pointer: item for pointer, item in rebuilt.items.items() if pointer not in left_out}
    document = fill(json.loads(rebuilt.payload), given)
    signer = document["sealing"]["signer"]
    document["salts"] = {pointer: salt_of(secret, pointer) for pointer in given}
    document["signature"] = {
        "algorithm": signer["algorithm"], "publicKeyRef": signer["publicKeyRef"],
        "signatureBytes": "base64:" + b64encode(rebuilt.entry.signature).decode(),
    }  # fmt: skip
    members = {f"captures/{rebuilt.entry.decision}.json": canonical(document)}
    for item in given.values():
        if item.kind == BLOB:
            members[f"blobs/{item.digest[7:]}"] = item.data
    return members


def _vouched(verifier: StoreVerifier, record: Record, payload: bytes) -> dict[str, bytes]:
    """Return envelope, bytes for a check by hand, and proof of one record."""
    entry, name = record.entry, record.entry.decision
    kind = dsse.CAPTURE_TYPE if entry.kind == CAPTURE else signed.STATEMENT_TYPE
    reference = signed.skeleton_of(entry)["sealing"]["signer"]["publicKeyRef"]
    proof = verifier.proof_of(record)
    assert entry.leaf is not None
    return {
        f"envelopes/{name}.dsse.json": dsse.envelope(kind, payload, [(reference, entry.signature)]),
        f"signed/{name}.pae": dsse.pae(kind, payload),
        f"signed/{name}.sig": entry.signature,
        f"log/proofs/{name}.tlog-proof": note.Proof(entry.leaf, tuple(proof), verifier.checkpoint_of(record)).data(),
    }  # fmt: skip


def _signer(rebuilt: Rebuilt) -> PublicKey:
    return from_reference(signed.skeleton_of(rebuilt.entry)["sealing"]["signer"]["publicKeyRef"])


def _keys(keys: Iterable[PublicKey]) -> dict[str, bytes]:
    known = sorted(keys, key=lambda key: key.raw)
    members = {f"keys/{key.key_digest()[7:]}.pem": key.pem() for key in known}
    methods = [
        {"id": key.reference(), "type": "Multikey", "controller": key.did_key(), "publicKeyMultibase": key.multibase()}
        for key in known
    ]
    members["keys/did.json"] = canonical(
        {"verificationMethod": methods, "assertionMethod": [one["id"] for one in methods]}
    )  # fmt: skip
    return members


def _person() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"

"""What is signed of a record, and what of it the journal need not keep (capture-v1 rules 3 and 4).

A payload is the skeleton with `sealing` and `commitments`. The journal keeps the skeleton; `sealing.previous` is the
digest of the record before, `sealing.after.rootHash` is the log's own root at that size, and commitments are made again
from content and secret: all bit for bit, so that the digest of the payload, which is kept, proves it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tachograph.canonical import canonical
from tachograph.store.entry import ADDENDUM, CAPTURE, RUN, STATEMENT, Entry

ZEROS = "sha256:" + "0" * 64
STATEMENT_TYPE = "application/vnd.tachograph.statement.v1+json"
ADDENDUM_NAME = "addendum"


def kept(payload: Mapping[str, Any]) -> bytes:
    """Return what the journal keeps of a payload."""
    sealing = {name: member for name, member in payload["sealing"].items() if name != "previous"}
    sealing["after"] = {"treeSize": sealing["after"]["treeSize"]}
    rest = {name: member for name, member in payload.items() if name != "commitments"}
    return canonical({**rest, "sealing": sealing})


def skeleton_of(entry: Entry) -> dict[str, Any]:
    """Return what the journal kept of a record's payload."""
    read: dict[str, Any] = json.loads(entry.payload)
    return read


def whole(entry: Entry, *, previous: str, root: str, commitments: Mapping[str, str]) -> bytes:
    """Return a record's payload as it was signed. Whether it is that, its digest says."""
    read = skeleton_of(entry)
    read["sealing"]["previous"] = previous
    read["sealing"]["after"]["rootHash"] = root
    return canonical({**read, "commitments": {**commitments, **entry.committed}})


def leaf(entry: Entry, type: str) -> bytes:
    """Return a record's entry in the log: the RFC 8785 form of type and digests (evidence.md, "Log")."""
    signature = "sha256:" + sha256(entry.signature).hexdigest()
    return canonical({"payload": "sha256:" + entry.payload_digest.hex(), "signature": signature, "type": type})


def type_of(entry: Entry) -> str:
    """Return the type of a record's log entry."""
    if entry.kind == CAPTURE:
        return "capture"
    if entry.kind in (RUN, ADDENDUM):
        return ADDENDUM_NAME
    assert entry.kind == STATEMENT
    return str(skeleton_of(entry)["type"])

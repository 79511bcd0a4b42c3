"""The signed document of a decision, put together from what the store holds."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from tachograph.errors import DamagedStore, Refused
from tachograph.formats.capture_v1 import fill
from tachograph.library.verifying import StoreVerifier
from tachograph.store.journal import Record


def document(verifier: StoreVerifier, record: Record) -> dict[str, Any]:
    """Return the document with its commitments and signature. Raises DamagedStore, Refused."""
    entry = record.entry
    if not entry.signature:
        raise Refused(f"{entry.decision} was sealed before this store signed: it has no document", reason="not_signed")
    rebuilt = verifier.rebuilt(entry)
    if not rebuilt.whole:
        raise DamagedStore(f"{entry.decision}: what is kept does not give what was signed; `tacho verify` says more")
    made = fill(json.loads(rebuilt.payload), rebuilt.items)
    signature = "base64:" + b64encode(entry.signature).decode()
    signer = made["sealing"]["signer"]
    made["signature"] = {
        "algorithm": signer["algorithm"], "publicKeyRef": signer["publicKeyRef"], "signatureBytes": signature
    }  # fmt: skip
    return made

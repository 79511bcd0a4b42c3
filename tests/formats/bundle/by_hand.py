"""A whole bundle made with a few lines of its own: a key, two captures, the log that has them and its checkpoint.

Nothing of `tachograph.signing` or `tachograph.formats.capture_v1` is used, so that what the published text and the
independent verifier are tried on was made by neither of them, only from the contracts.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import digest as hmac_digest
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tachograph.formats.bundle.writing import write_bundle

CAPTURE_TYPE = "application/vnd.tachograph.replay.v1+json"
STATEMENT_TYPE = "application/vnd.tachograph.statement.v1+json"
ORIGIN = "tachograph/00112233445566778899aabbccddeeff/default/0"
IDS = ("dec_01HZY3X5Q8R7W6V5T4S3R2Q1P0", "dec_01HZY3X5Q8R7W6V5T4S3R2Q1P1")
KEY_ID = "stm_01HZY3X5Q8R7W6V5T4S3R2Q1P0"
"""Leaf 0: the statement that registers the log's key. The captures are leaves 1 and 2."""
REQUEST = b'{"amount": 1.10}'
TEXT = 'Be kind to \u00e9v\u00e9ryone, "always".'


def canonical(value: Any) -> bytes:
    """RFC 8785 of what is used here: ASCII keys, no number but small integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def hashed(data: bytes) -> str:
    return "sha256:" + sha256(data).hexdigest()


def pae(kind: str, payload: bytes) -> bytes:
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)


@dataclass
class Made:
    """What a bundle is made of. Change it before `data` to make another one."""

    key: Ed25519PrivateKey = field(default_factory=lambda: Ed25519PrivateKey.from_private_bytes(b"s" * 32))
    log_key: Ed25519PrivateKey = field(default_factory=lambda: Ed25519PrivateKey.from_private_bytes(b"l" * 32))
    members: dict[str, bytes] = field(default_factory=dict)

    def data(self) -> bytes:
        return write_bundle(self.members, export=self.export)

    def export(self, manifest: str) -> bytes:
        return envelope(STATEMENT_TYPE, self.statement("export", {"manifest": manifest}, 3), self.key)

    def statement(self, kind: str, body: dict[str, Any], number: int) -> bytes:
        """A statement's payload."""
        return canonical({
            "version": "statement/v1", "statementId": KEY_ID[:-1] + str(number), "type": kind, "body": body,
            "sealing": {"sequence": number, "origin": ORIGIN, "signer": signer(self.key)},
        })  # fmt: skip

    def register(self) -> bytes:
        """Add the statement that registers the log's key; return its log entry."""
        return self.add_record(KEY_ID, self.statement("key", {"role": "log", **signer(self.log_key)}, 0), "key")

    def add(self, id: str, payload: bytes, document: dict[str, Any]) -> bytes:
        """Add a signed capture; return its log entry."""
        signature = self.key.sign(pae(CAPTURE_TYPE, payload))
        document["signature"] = {
            "algorithm": "ed25519", "publicKeyRef": signer(self.key)["publicKeyRef"],
            "signatureBytes": "base64:" + b64encode(signature).decode(),
        }  # fmt: skip
        self.members[f"captures/{id}.json"] = json.dumps(document, ensure_ascii=False).encode()
        return self.add_record(id, payload, "capture")

    def add_record(self, id: str, payload: bytes, type: str) -> bytes:
        kind = CAPTURE_TYPE if type == "capture" else STATEMENT_TYPE
        signature = self.key.sign(pae(kind, payload))
        self.members[f"envelopes/{id}.dsse.json"] = envelope(kind, payload, self.key)
        self.members[f"signed/{id}.pae"] = pae(kind, payload)
        self.members[f"signed/{id}.sig"] = signature
        return canonical({"payload": hashed(payload), "signature": hashed(signature), "type": type})

    def add_log(self, entries: list[bytes]) -> None:
        """Add the checkpoint over three entries, and their proofs."""
        one, two, three = (sha256(b"\0" + entry).digest() for entry in entries)
        pair = sha256(b"\1" + one + two).digest()
        root = sha256(b"\1" + pair + three).digest()
        text = f"{ORIGIN}\n3\n{b64encode(root).decode()}\n".encode()
        name = sha256(ORIGIN.encode() + b"\n\1" + raw(self.log_key)).digest()[:4]
        line = f"\u2014 {ORIGIN} {b64encode(name + self.log_key.sign(text)).decode()}\n"
        checkpoint = text + b"\n" + line.encode()
        self.members["log/checkpoint"] = checkpoint
        for number, (id, path) in enumerate(zip((KEY_ID, *IDS), ((two, three), (one, three), (pair,)), strict=True)):
            lines = ["c2sp.org/tlog-proof@v1", f"index {number}", *(b64encode(step).decode() for step in path), "", ""]
            self.members[f"log/proofs/{id}.tlog-proof"] = "\n".join(lines).encode() + checkpoint


def raw(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signer(key: Ed25519PrivateKey) -> dict[str, str]:
    """`sealing.signer`. The text of the DID is of no account here: keys are found by their digest."""
    return {"algorithm": "ed25519", "keyDigest": hashed(raw(key)), "publicKeyRef": "did:web:example.org#k"}


def envelope(kind: str, payload: bytes, key: Ed25519PrivateKey) -> bytes:
    signature = b64encode(key.sign(pae(kind, payload))).decode()
    made = {
        "payload": b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": "", "sig": signature}],
    }
    return canonical(made)


def commitment(kind: str, pointer: str, salt: str, digest: str) -> str:
    line = f"tachograph-commit-v1 {kind} {pointer} {salt} {digest}"
    return f"{kind} {hashed(line.encode())}"


def set_head(entries: list[dict[str, Any]]) -> bytes:
    """`contextSetHash` of up to two entries (capture-v1 rule 2)."""
    leaves = [
        sha256(b"\0" + canonical({n: e[n] for n in ("contextPosition", "entryId", "renderedContentHash")})).digest()
        for e in entries
    ]
    return leaves[0] if len(leaves) == 1 else sha256(b"\1" + leaves[0] + leaves[1]).digest()


def capture(
    key: Ed25519PrivateKey, number: int, previous: bytes | None
) -> tuple[bytes, dict[str, Any], dict[str, bytes]]:
    """Return a payload, its document, and blobs by name."""
    entries = [
        {"entryId": f"e{n}", "tier": "hot", "contextPosition": n, "renderedContent": text, "renderedContentHash":
         hashed(text.encode())} for n, text in enumerate(("old", "older"))
    ]  # fmt: skip
    head = set_head(entries)
    skeleton: dict[str, Any] = {
        "version": "replay/v1", "decisionId": IDS[number], "agentId": "billing",
        "input": {}, "agentConfiguration": {"modelIdentifier": "small"},
        "memoryState": {"workingSetEntries": [{"tier": "hot", "contextPosition": n} for n in (0, 1)]},
        "executionTrace": {"stopReason": "end_turn", "toolCalls": [{"sequence": 0, "toolName": "refund"}]},
        "sealing": {"sequence": number + 1, "origin": ORIGIN, "signer": signer(key),
                    "previous": "sha256:" + "0" * 64 if previous is None else hashed(previous)},
    }  # fmt: skip
    items: dict[str, tuple[str, Any, bytes | None]] = {
        "/input/requestPayload": ("blob", hashed(REQUEST), REQUEST),
        "/agentConfiguration/systemPromptText": ("text", TEXT, TEXT.encode()),
        "/memoryState/contextSetHash": ("tree", "sha256:" + head.hex(), None),
        "/executionTrace/toolCalls/0/input": ("json", {"b": [1, None, 0.5], "a": "\u2028"},
                                              '{"a":"\u2028","b":[1,null,0.5]}'.encode()),
        "/executionTrace/toolCalls/0/output": ("json", False, b"false"),
    }  # fmt: skip
    for n, entry in enumerate(entries):
        at = f"/memoryState/workingSetEntries/{n}"
        items[f"{at}/entryId"] = ("text", entry["entryId"], entry["entryId"].encode())
        items[f"{at}/renderedContent"] = ("text", entry["renderedContent"], entry["renderedContent"].encode())
    document = json.loads(json.dumps(skeleton))
    document["commitments"], document["salts"] = {}, {}
    for pointer, (kind, shown, data) in items.items():
        salt = hmac_digest(b"x" * 32, pointer.encode(), "sha256")[:16].hex()
        said = f"sha256:{head.hex()}" if data is None else hashed(data)
        document["salts"][pointer] = salt
        document["commitments"][pointer] = commitment(kind, pointer, salt, said)
        put(document, pointer, shown)
    for place, name, data in (
        ("/input", "requestPayloadHash", REQUEST), ("/agentConfiguration", "systemPromptHash", TEXT.encode()),
        ("/executionTrace/toolCalls/0", "inputHash", items["/executionTrace/toolCalls/0/input"][2]),
        ("/executionTrace/toolCalls/0", "outputHash", b"false"),
        ("/memoryState/workingSetEntries/0", "renderedContentHash", b"old"),
        ("/memoryState/workingSetEntries/1", "renderedContentHash", b"older"),
    ):  # fmt: skip
        assert data is not None
        put(document, f"{place}/{name}", hashed(data))
    put(document, "/input/hashOf", "bytes")
    payload = canonical({**skeleton, "commitments": document["commitments"]})
    return payload, document, {f"blobs/{hashed(REQUEST)[7:]}": REQUEST}


def put(document: Any, pointer: str, value: Any) -> None:
    *path, name = pointer.split("/")[1:]
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document.setdefault(part, {})
    document[name] = value


def made() -> Made:
    """Return what a sound bundle is made of."""
    out = Made()
    entries, previous = [out.register()], None
    for number, id in enumerate(IDS):
        payload, document, blobs = capture(out.key, number, previous)
        out.members |= blobs
        entries.append(out.add(id, payload, document))
        previous = payload
    out.add_log(entries)
    for key in (out.key, out.log_key):
        out.members[f"keys/{sha256(raw(key)).hexdigest()}.pem"] = pem(key)
    return out

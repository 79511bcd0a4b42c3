"""DSSE envelopes: what is signed is the type and the bytes together (PAE), and the bytes that were verified are parsed.

A key id in an envelope is a hint and decides nothing: signer and key stand in the signed payload (capture-v1 rule 4).
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass

from tachograph.canonical import NotCanonical, canonical, read_exact
from tachograph.errors import FormatError

CAPTURE_TYPE = "application/vnd.tachograph.replay.v1+json"


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding (DSSE v1): what a signature covers."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class Envelope:
    """A payload with its type, and signatures as (key id, bytes)."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def envelope(payload_type: str, payload: bytes, signatures: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an envelope's JSON, in its canonical form."""
    made = [{"keyid": key, "sig": b64encode(signature).decode()} for key, signature in signatures]
    return canonical({"payload": b64encode(payload).decode(), "payloadType": payload_type, "signatures": made})


def read_envelope(data: bytes) -> Envelope:
    """Read an envelope. Raises FormatError where it is not one, or names one key twice."""
    try:
        read = read_exact(data)
    except NotCanonical as fault:
        raise FormatError(f"no DSSE envelope: {fault.reason}") from None
    try:
        if set(read) != {"payload", "payloadType", "signatures"} or not read["signatures"]:
            raise ValueError("payload, payloadType and signatures, and nothing else")
        signatures = []
        for one in read["signatures"]:
            if not {"sig"} <= set(one) <= {"sig", "keyid"} or not isinstance(one.get("keyid", ""), str):
                raise ValueError("a signature is sig and keyid")
            signatures.append((one.get("keyid", ""), _decoded(one["sig"])))
        if len({key for key, _ in signatures}) != len(signatures):
            raise ValueError("two signatures of one key")
        if not isinstance(read["payloadType"], str):
            raise ValueError("payloadType is text")
        return Envelope(read["payloadType"], _decoded(read["payload"]), tuple(signatures))
    except (TypeError, ValueError, KeyError, AttributeError, Base64Error) as fault:
        raise FormatError(f"no DSSE envelope: {fault}") from None


def _decoded(text: str) -> bytes:
    """Decode base64 of either alphabet, padded; anything else raises ValueError."""
    data = urlsafe_b64decode(text.replace("+", "-").replace("/", "_").encode("ascii"))
    if b64encode(data).decode() != text.replace("-", "+").replace("_", "/"):
        raise ValueError("base64 that is not written as it is read")
    return data

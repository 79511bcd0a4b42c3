"""DSSE: the published vectors, and envelopes that are refused."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from tachograph.errors import FormatError
from tachograph.signing.dsse import envelope, pae, read_envelope
from tachograph.signing.keys import SigningKey


def test_published_encodings_and_a_signature_over_one(shared: Path) -> None:
    said = json.loads((shared / "vectors/dsse/dsse.json").read_text())
    for one in said["published"]:
        assert pae(one["payloadType"], one["serializedBody"].encode()) == one["pae"].encode()
        assert read_envelope(json.dumps(one["envelope"]).encode()).payload == one["serializedBody"].encode()
    for one in said["derived_ed25519"]:
        made = pae(one["payloadType"], b64decode(one["payload_b64"]))
        assert SigningKey.from_bytes(bytes.fromhex(one["seed"])).public.verify(_signature_of(one), made)


def _signature_of(one: dict[str, Any]) -> bytes:
    return b64decode(one["sig_b64"]) if "sig_b64" in one else bytes.fromhex(one["sig"])


def test_an_envelope_is_read_back_in_both_alphabets() -> None:
    data = envelope("t/x", b"\xfb\xff?>", [("k", b"\xfb\xff" * 32)])
    read = read_envelope(data)
    assert (read.payload_type, read.payload, read.signatures) == ("t/x", b"\xfb\xff?>", (("k", b"\xfb\xff" * 32),))
    other = json.loads(data)
    other["payload"] = urlsafe_b64encode(b"\xfb\xff?>").decode()
    assert read_envelope(json.dumps(other).encode()) == read


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("payload"), lambda one: one.update(more=1), lambda one: one.update(signatures=[]),
        lambda one: one.update(payload="!"), lambda one: one.update(payload="QQ"),
        lambda one: one.update(payload="QR=="),
        lambda one: one.update(signatures=one["signatures"] * 2), lambda one: one.update(payloadType=5),
        lambda one: one["signatures"][0].update(sig=5), lambda one: one["signatures"][0].update(more=5),
        lambda one: one.update(signatures=5),
    ],
)  # fmt: skip
def test_an_odd_envelope_is_refused(change: object) -> None:
    one = json.loads(envelope("t/x", b"payload", [("k", b"s" * 64)]))
    change(one)  # type: ignore[operator]
    with pytest.raises(FormatError):
        read_envelope(json.dumps(one).encode())


def test_a_key_twice_in_the_text_is_refused() -> None:
    data = envelope("t/x", b"payload", [("k", b"s" * 64)])
    twice = data[:-1] + b',"payload":"' + b64encode(b"other") + b'"}'
    with pytest.raises(FormatError, match="twice"):
        read_envelope(twice)

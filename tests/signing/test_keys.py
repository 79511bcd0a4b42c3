"""Ed25519: the published vectors, and the keys and signatures that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tachograph.signing.keys import KeyRefused, PublicKey, SigningKey


def test_rfc_8032(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/rfc8032/ed25519.json").read_text())
    vectors = vectors if isinstance(vectors, list) else vectors.get("tests") or vectors["vectors"]
    for one in vectors:
        key = SigningKey.from_bytes(bytes.fromhex(one.get("seed") or one["secret"]))
        message, signature = bytes.fromhex(one.get("msg", "")), bytes.fromhex(one["sig"])
        assert key.public.raw.hex() == one["public"]
        assert key.sign(message) == signature
        assert key.public.verify(signature, message)
        assert not key.public.verify(signature, message + b"x")


def test_wycheproof(shared: Path) -> None:
    (path,) = (shared / "vectors/wycheproof").glob("ed25519*.json")
    count = 0
    for group in json.loads(path.read_text())["testGroups"]:
        key = PublicKey(bytes.fromhex(group["publicKey"]["pk"]))
        for one in group["tests"]:
            assert key.verify(bytes.fromhex(one["sig"]), bytes.fromhex(one["msg"])) is (one["result"] == "valid"), one
            count += 1
    assert count == 151


def test_of_the_edge_points_no_key_of_low_order_and_no_odd_encoding_is_taken(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/ed25519-cctv/ed25519vectors.json").read_text())
    refused, accepted = set(), set()
    for one in vectors:
        flags = set(one["flags"] or ())
        try:
            key = PublicKey(bytes.fromhex(one["key"]))
        except (KeyRefused, ValueError):
            refused.add(one["number"])
            continue
        assert not flags & {"low_order_A", "non_canonical_A"}, one
        if key.verify(bytes.fromhex(one["sig"]), one["msg"].encode()):
            accepted.add(one["number"])
            assert not flags & {"low_order_R", "non_canonical_R"}, one
    assert len(refused) > 300
    assert len(accepted) > 0


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (bytes(32), "low order"), (bytes([1]) + bytes(31), "low order"), (b"\xff" * 32, "canonically"),
        ((2**255 - 19).to_bytes(32, "little"), "canonically"), (b"x" * 31, "32 bytes"),
        ((2**255 - 20).to_bytes(32, "little"), "low order"), (bytes([2]) + bytes(31), "no point"),
    ],
)  # fmt: skip
def test_a_hostile_key_is_refused_by_name(raw: bytes, why: str) -> None:
    with pytest.raises(KeyRefused, match=why):
        PublicKey(raw)


def test_a_key_s_names_and_its_private_bytes_that_appear_nowhere() -> None:
    key = SigningKey.from_bytes(bytes(range(32)))
    assert key.public.reference() == f"{key.public.did_key()}#{key.public.did_key()[8:]}"
    assert key.public.did_key().startswith("did:key:z6Mk")
    assert PublicKey.from_pem(key.public.pem()) == key.public
    assert key.private_bytes().hex() not in repr(key)
    with pytest.raises(KeyRefused):
        SigningKey.from_bytes(b"secret")
    with pytest.raises(KeyRefused, match="PEM"):
        PublicKey.from_pem(b"nothing")


def test_published_did_keys(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/didkey/ed25519-x25519.json").read_text())
    for did, one in vectors.items():
        assert SigningKey.from_bytes(bytes.fromhex(one["seed"])).public.did_key() == did

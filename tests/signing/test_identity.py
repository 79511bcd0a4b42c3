"""Names of signers: what resolves, what never does, and against whose pins an identity is ok."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import base58
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import UsageError
from tachograph.signing import identity
from tachograph.signing.identity import FetchRefused, Identity, Pins, Resolved, Unresolved, resolve
from tachograph.signing.keys import KeyRefused, PublicKey, SigningKey

KEY, OTHER, THIRD = (SigningKey.from_bytes(bytes([n]) * 32).public for n in (1, 2, 3))
WEB = "did:web:agents.example.com:refunds"
LOW_ORDER = "z" + base58.b58encode(b"\xed\x01" + bytes(32)).decode()


def reason(found: Resolved | Unresolved | PublicKey) -> str:
    """Why a name was not resolved."""
    assert isinstance(found, Unresolved), found
    return found.reason


def served(data: bytes) -> Callable[[str], bytes]:
    """A fetch of one document."""
    return lambda url: data


def changed(change: Callable[[dict[str, Any]], object], did: str = WEB) -> bytes:
    """Our document of two keys, changed."""
    said = json.loads(identity.document([KEY, OTHER], did=did))
    change(said)
    return json.dumps(said).encode()


def test_published_did_keys_and_their_documents(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/didkey/ed25519-x25519.json").read_text())
    for did, one in vectors.items():
        key = SigningKey.from_bytes(bytes.fromhex(one["seed"])).public
        found = resolve(did)
        assert found == Resolved(did, {key.reference(): key})
        assert identity.read_document(did, json.dumps(one["didDocument"]).encode()) == found


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("did:armalo:agent:7", "did_method_unknown"), ("did:webvh:x:example.com", "did_method_unknown"),
        ("", "did_method_unknown"), ("did:", "did_method_unknown"), ("agent-7", "did_method_unknown"),
        ("did:key:", "did_unresolved"), ("did:key:z6LSeu9HkTHSfLLeUs2nnzUSNedgDUevfNQgQjQC23ZCit6F", "did_unresolved"),
        ("did:key:z" + "6Mk" * 5000, "did_unresolved"), (f"did:key:{LOW_ORDER}", "key_low_order"),
        (WEB, "did_web_offline"), ("did:web:", "did_web_address"), ("did:web:localhost", "did_web_address"),
        ("did:web:127.0.0.1", "did_web_address"), ("did:web:10.0.0.7", "did_web_address"),
        ("did:web:intranet", "did_web_address"), ("did:web:a.example:..:x", "did_web_address"),
        ("did:web:a.example:%2e%2E", "did_web_address"), ("did:web:a.example:x%2Fy", "did_web_address"),
        ("did:web:a.example/x", "did_web_address"), ("did:web:user@a.example", "did_web_address"),
        ("did:web:a.example%3A", "did_web_address"), ("did:web:a.example%3A99999", "did_web_address"),
        ("did:web:a.example?x", "did_web_address"), ("did:web:a.example:", "did_web_address"),
    ],
)  # fmt: skip
def test_what_stands_for_no_key(reference: str, why: str) -> None:
    assert reason(resolve(reference)) == why


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:a.example", "https://a.example/.well-known/did.json"),
        ("did:web:a.example:user:alice", "https://a.example/user/alice/did.json"),
        ("did:web:a.example%3A3000:u", "https://a.example:3000/u/did.json"),
    ],
)
def test_where_a_document_lies_is_what_the_method_says(did: str, url: str) -> None:
    assert identity.web_url(did) == url
    asked: list[str] = []

    def fetch(url: str) -> bytes:
        asked.append(url)
        return identity.document([KEY], did=did)

    assert resolve(did + "#x", fetch=fetch) == Resolved(did, {f"{did}#{KEY.multibase()}": KEY})
    assert asked == [url]


def test_a_did_url_names_one_of_the_keys_and_no_other() -> None:
    fetch = served(identity.document([KEY, OTHER], did=WEB))
    assert identity.key_of(f"{WEB}#{OTHER.multibase()}", fetch=fetch) == OTHER
    assert reason(identity.key_of(f"{WEB}#key-1", fetch=fetch)) == "key_not_listed"
    assert reason(identity.key_of(WEB, fetch=fetch)) == "key_not_listed"
    assert identity.key_of(KEY.did_key()) == KEY
    assert reason(identity.key_of("did:other:x#y")) == "did_method_unknown"


def test_a_key_outside_assertion_method_signs_for_nobody() -> None:
    data = changed(lambda said: said["assertionMethod"].pop(0))
    assert identity.read_document(WEB, data) == Resolved(WEB, {f"{WEB}#{OTHER.multibase()}": OTHER})
    assert reason(identity.read_document(WEB, changed(lambda said: said.pop("assertionMethod")))) == "key_not_listed"
    moved = changed(lambda said: said.update(authentication=said.pop("assertionMethod")))
    assert reason(identity.read_document(WEB, moved)) == "key_not_listed"


def test_each_way_of_writing_a_key_is_read() -> None:
    x = urlsafe_b64encode(KEY.raw).decode().rstrip("=")
    forms = [
        {"type": "Multikey", "publicKeyMultibase": KEY.multibase()},
        {"type": "Ed25519VerificationKey2020", "publicKeyMultibase": KEY.multibase()},
        {"type": "Ed25519VerificationKey2018", "publicKeyBase58": base58.b58encode(KEY.raw).decode()},
        {"type": "JsonWebKey2020", "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": x}},
    ]
    for form in forms:
        method = {"id": "#k", "controller": WEB, **form}
        embedded = {"id": WEB, "assertionMethod": [method]}
        named = {"id": WEB, "verificationMethod": [method], "assertionMethod": [f"{WEB}#k"]}
        for said in (embedded, named):
            assert identity.read_document(WEB, json.dumps(said).encode()) == Resolved(WEB, {f"{WEB}#k": KEY})


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(id="did:web:b.example"), lambda said: said.pop("id"),
        lambda said: [one.update(controller="did:web:b.example") for one in said["verificationMethod"]],
        lambda said: [one.update(publicKeyMultibase=LOW_ORDER, type="Ed25519VerificationKey2020")
                      for one in said["verificationMethod"]],
        lambda said: said["verificationMethod"].append(dict(said["verificationMethod"][0])),
        lambda said: [one.pop("publicKeyMultibase") for one in said["verificationMethod"]],
        lambda said: [one.update(type="EcdsaSecp256k1VerificationKey2019") for one in said["verificationMethod"]],
        lambda said: [one.update(id="did:web:b.example" + one["id"]) for one in said["verificationMethod"]],
        lambda said: said.update(verificationMethod=5), lambda said: said.update(assertionMethod=5),
        lambda said: said.update(pad="x" * identity.MOST_BYTES),
    ],
)  # fmt: skip
def test_an_odd_document_gives_no_key(change: Callable[[dict[str, Any]], object]) -> None:
    assert isinstance(identity.read_document(WEB, changed(change)), Unresolved)


def test_a_key_of_another_s_document_is_not_taken_over() -> None:
    method = {"id": "did:web:b.example#k", "controller": WEB, "type": "Multikey", "publicKeyMultibase": KEY.multibase()}
    for said in ({"assertionMethod": [method]}, {"verificationMethod": [method], "assertionMethod": [method["id"]]}):
        assert isinstance(identity.read_document(WEB, json.dumps({"id": WEB, **said}).encode()), Unresolved)


def test_a_private_key_or_a_short_one_in_a_document_gives_none() -> None:
    x = urlsafe_b64encode(KEY.raw).decode().rstrip("=")
    for jwk in ({"d": x}, {"crv": "X25519"}, {"kty": "EC"}, {"x": x[:-1]}, {"x": x + "A"}):
        method = {"id": "#k", "controller": WEB, "type": "JsonWebKey2020",
                  "publicKeyJwk": {"kty": "OKP", "crv": "Ed25519", "x": x, **jwk}}  # fmt: skip
        said = {"id": WEB, "assertionMethod": [method]}
        assert isinstance(identity.read_document(WEB, json.dumps(said).encode()), Unresolved)


def test_a_key_twice_in_the_text_of_a_document_is_refused() -> None:
    data = identity.document([KEY], did=WEB)
    assert reason(identity.read_document(WEB, data[:-1] + f',"id":"{WEB}"}}'.encode())) == "did_document"


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_nothing_that_is_served_or_named_raises(data: bytes) -> None:
    assert isinstance(identity.read_document(WEB, data), Unresolved)
    text = data.decode("utf-8", "replace")
    for reference in (text, "did:web:" + text, "did:key:" + text, "did:key:z6Mk" + text):
        assert isinstance(resolve(reference, fetch=served(data)), Unresolved)


def test_a_fetch_that_fails_is_a_reason() -> None:
    for fault in (OSError("no route"), FetchRefused("over 65536 bytes")):

        def fetch(url: str, fault: Exception = fault) -> bytes:
            raise fault

        found = resolve(WEB, fetch=fetch)
        assert reason(found) == "did_web_unreachable"
        assert str(fault) in str(found)


def test_an_identity_is_ok_only_against_a_pin() -> None:
    document = served(identity.document([KEY], did=WEB))
    assert Pins().judge(KEY).state == "not_checked"
    assert Pins().judge(KEY).reason == f"signer not known to you: {KEY.did_key()}"
    assert Pins(frozenset([KEY])).judge(KEY) == Identity("ok", KEY.did_key())
    assert Pins(frozenset([OTHER])).judge(KEY).state == "not_checked"
    assert Pins(frozenset([OTHER])).judge(KEY, line=[THIRD]).state == "not_checked"
    by_line = Pins(frozenset([OTHER])).judge(KEY, line=[THIRD, OTHER])
    assert by_line == Identity("ok", f"{KEY.did_key()}, of one line with {OTHER.did_key()}")
    named = Pins.brought([WEB], fetch=document)
    assert named.judge(KEY) == Identity("ok", f"{WEB}, {KEY.did_key()}")
    assert named.judge(OTHER, line=[KEY]).state == "ok"
    assert named.judge(OTHER).state == "not_checked"
    offline = Pins.brought([WEB]).judge(KEY)
    assert offline.state == "not_checked"
    assert "nothing is fetched here" in offline.reason


def test_pins_are_read_from_names_and_files(tmp_path: Path) -> None:
    pem, listed, document = tmp_path / "key.pem", tmp_path / "keys", tmp_path / "did.json"
    pem.write_bytes(KEY.pem())
    listed.write_text(f"{KEY.did_key()}\n\n{WEB}\n")
    document.write_bytes(identity.document([KEY, OTHER], did=WEB))
    assert Pins.brought([KEY.did_key(), WEB + "#x"]) == Pins(frozenset([KEY]), (resolve(WEB),))
    assert Pins.brought([str(pem)]) == Pins(frozenset([KEY]))
    assert Pins.brought([str(listed)]) == Pins(frozenset([KEY]), (resolve(WEB),))
    assert Pins.brought([str(document)]) == Pins(frozenset([KEY, OTHER]))


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{}", b'{"id":"did:web:a.example"}', b"-----BEGIN NOTHING", b"\xff\xfe", b"did:other:x\n",],
)  # fmt: skip
def test_a_pin_that_names_no_key_is_a_wrong_call(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    for named in (str(tmp_path / "file"), str(tmp_path / "nothing"), "did:other:x", "did:key:zzz"):
        with pytest.raises(UsageError, match="--trust"):
            Pins.brought([named])


def test_a_file_of_keys_is_small(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"{KEY.did_key()}\n" * 2000)
    with pytest.raises(UsageError, match="at most"):
        Pins.brought([str(tmp_path / "file")])


def test_a_document_says_what_it_is_asked_to() -> None:
    said = json.loads(identity.document([KEY, OTHER], events=[{"event": "rotate"}]))
    assert said["id"] == KEY.did_key()
    assert said["keyEvents"] == [{"event": "rotate"}]
    assert said["assertionMethod"] == [f"{KEY.did_key()}#{one.multibase()}" for one in (KEY, OTHER)]


def test_multibase_of_another_kind_is_refused() -> None:
    for text in ("", "m" + "A" * 46, "z0OIl", "z6LSeu9HkTHSfLLeUs2nnzUSNedgDUevfNQgQjQC23ZCit6F"):
        with pytest.raises(KeyRefused):
            identity.from_multibase(text)

"""A spool key opens for intake's private key and the file it belongs to, and for nothing else."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store import sealedbox

FILE = b"file-id-16-bytes"
KEY = bytes(range(32))
INTAKE = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"intake").digest())
PRIVATE = INTAKE.private_bytes_raw()
PUBLIC = INTAKE.public_key().public_bytes_raw()


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16))
def test_a_wrapped_key_comes_back(key: bytes, file_id: bytes) -> None:
    blob = sealedbox.wrap(key, file_id=file_id, public=PUBLIC)
    assert len(blob) == sealedbox.WRAPPED_SIZE
    assert sealedbox.unwrap(blob, file_id=file_id, private=PRIVATE) == key
    assert key not in blob


def test_two_wrappings_of_one_key_have_nothing_in_common() -> None:
    one, other = (sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC) for _ in range(2))
    head = len(sealedbox.MAGIC)
    assert one[head : head + 32] != other[head : head + 32], "the ephemeral key is a fresh one"
    assert one[head + 32 :] != other[head + 32 :]


def test_another_private_key_is_refused() -> None:
    blob = sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC)
    with pytest.raises(DamagedStore, match="does not open"):
        sealedbox.unwrap(blob, file_id=FILE, private=X25519PrivateKey.generate().private_bytes_raw())


def test_a_key_moved_beside_another_file_is_refused() -> None:
    blob = sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC)
    with pytest.raises(DamagedStore, match="another file"):
        sealedbox.unwrap(blob, file_id=FILE[::-1], private=PRIVATE)


def test_one_flipped_bit_anywhere_in_a_key_file_is_refused() -> None:
    """Even the highest bit of the ephemeral key, which X25519 itself ignores (RFC 7748): the salt holds it."""
    blob = sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC)
    for bit in range(8 * len(blob)):
        broken = bytearray(blob)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedStore):
            sealedbox.unwrap(bytes(broken), file_id=FILE, private=PRIVATE)


@given(st.integers(0, sealedbox.WRAPPED_SIZE - 1))
def test_a_key_file_cut_short_is_refused(size: int) -> None:
    with pytest.raises(DamagedStore, match="damaged"):
        sealedbox.unwrap(sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC)[:size], file_id=FILE, private=PRIVATE)


def test_the_form_is_the_documented_one() -> None:
    """Ephemeral-static X25519, HKDF-SHA256 with both public keys as salt, AES-256-GCM bound to the file id."""
    blob = sealedbox.wrap(KEY, file_id=FILE, public=PUBLIC)
    assert blob[:5] == b"TKEY\x01"
    ephemeral, sealed = blob[5:37], blob[37:]
    shared = INTAKE.exchange(X25519PublicKey.from_public_bytes(ephemeral))
    kdf = HKDF(algorithm=hashes.SHA256(), length=32, salt=ephemeral + PUBLIC, info=b"tachograph spool key v1")
    assert AESGCM(kdf.derive(shared)).decrypt(bytes(12), sealed, b"TKEY\x01" + FILE) == KEY


def test_fresh_keys_are_32_bytes_and_differ() -> None:
    keys = {sealedbox.fresh_key() for _ in range(50)}
    assert len(keys) == 50
    assert {len(key) for key in keys} == {32}

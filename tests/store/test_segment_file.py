"""A segment file says what it is, and nothing encrypted for one place opens at another."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore
from tachograph.store.records import preamble
from tachograph.store.segment_file import MAGIC, OPEN, SEALED, Identity, decrypt, encrypt, read_identity
from tests.store.kept import DOMAIN, OTHER_DOMAIN

ONE = Identity(OPEN, b"s" * 16, 0, DOMAIN)


def test_the_identity_is_read_back() -> None:
    data = ONE.preamble()
    assert read_identity("f", data + b"records") == (ONE, len(data))


@pytest.mark.parametrize("header", [b"", b"\x03" + ONE.pack()[1:], ONE.pack()[:-1], ONE.pack() + b"x"])
def test_another_header_is_no_segments(header: bytes) -> None:
    with pytest.raises(DamagedStore, match="header"):
        read_identity("f", preamble(MAGIC, 1, header))


def test_a_record_opens_only_at_its_place_in_its_segment() -> None:
    cipher = AESGCM(b"k" * 32)
    body = encrypt(cipher, b"plain", ONE, 3, 100)
    assert decrypt(cipher, body, ONE, 3, 100) == b"plain"
    assert body != encrypt(cipher, b"plain", ONE, 3, 100)
    others = [
        (ONE._replace(kind=SEALED), 3, 100),
        (ONE._replace(segment=b"t" * 16), 3, 100),
        (ONE._replace(generation=1), 3, 100),
        (ONE._replace(domain=OTHER_DOMAIN), 3, 100),
        (ONE, 4, 100),
        (ONE, 3, 101),
    ]
    for identity, number, at in others:
        with pytest.raises(InvalidTag):
            decrypt(cipher, body, identity, number, at)


def test_each_generation_has_a_key_of_its_own() -> None:
    assert ONE.key_id != ONE._replace(generation=1).key_id

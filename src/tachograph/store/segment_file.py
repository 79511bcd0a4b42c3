"""What every segment file says of itself, and what binds its records to their places.

A segment holds one domain under one random key (contracts/evidence.md, "At rest"). Its file is a record file whose
preamble names kind, segment, which of the segment's keys, and domain. Invariants:

- all of that, the format and a record's number and place are associated data of every record: nothing encrypted for one
  place opens at another, and a changed preamble opens nothing;
- the domain's id is an HMAC over tenant, subject and session, so that it names the tenant without telling it.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore
from tachograph.store.domains import ID_SIZE
from tachograph.store.records import preamble, read_preamble

MAGIC, FORMAT = b"TACHOSEG", 1
OPEN, SEALED = 1, 2
SEGMENT_ID = 16
NONCE, TAG = 12, 16


class Identity(NamedTuple):
    """What a segment file says of itself in its preamble; all of it is associated data of every record."""

    kind: int
    segment: bytes
    generation: int  # which of the segment's keys: a re-encoding under a new key counts up
    domain: bytes

    def pack(self) -> bytes:
        """Return the preamble's header."""
        return bytes((self.kind,)) + self.segment + bytes((self.generation,)) + self.domain

    def preamble(self) -> bytes:
        """Return the first bytes of the file."""
        return preamble(MAGIC, FORMAT, self.pack())

    @property
    def key_id(self) -> bytes:
        """Under which id the key table keeps the key."""
        return self.segment + bytes((self.generation,))


def read_identity(path: str, data: bytes) -> tuple[Identity, int]:
    """Return a segment file's identity and where its records begin. Raises DamagedStore."""
    _, header, at = read_preamble(path, data, magic=MAGIC, newest=FORMAT)
    if len(header) != 2 + SEGMENT_ID + ID_SIZE or header[0] not in (OPEN, SEALED):
        raise DamagedStore(f"{path}: the file header (byte 0) is not a segment's; restore it from a backup")
    return Identity(header[0], header[1 : 1 + SEGMENT_ID], header[1 + SEGMENT_ID], header[2 + SEGMENT_ID :]), at


def associated(identity: Identity, number: int, at: int) -> bytes:
    """Return the associated data of a record: format, segment, key, domain (which names the tenant), and its place."""
    place = number.to_bytes(4, "little") + at.to_bytes(8, "little")
    return b"tachograph segment " + bytes((FORMAT,)) + identity.pack() + place


def encrypt(cipher: AESGCM, plain: bytes, identity: Identity, number: int, at: int) -> bytes:
    """Return a record's body: a random nonce, then the encrypted bytes."""
    nonce = os.urandom(NONCE)
    return nonce + cipher.encrypt(nonce, plain, associated(identity, number, at))


def decrypt(cipher: AESGCM, body: bytes, identity: Identity, number: int, at: int) -> bytes:
    """Undo `encrypt`. Raises InvalidTag where anything is not what it was, ValueError for less than a nonce."""
    return cipher.decrypt(body[:NONCE], body[NONCE:], associated(identity, number, at))

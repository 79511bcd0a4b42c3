"""Ed25519 keys: sign, verify strictly, and the names by which a key is known.

Two honest verifiers must agree on hostile keys, so a key is refused where it is of low order or not canonically
encoded, when it is registered and again when it verifies (evidence.md, "Keys and names"); a signature with a scalar or
a point outside the canonical range is refused as well. No private byte appears in a repr or an error.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256

import base58
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from tachograph.errors import Refused

SIZE = 32
_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_MULTICODEC = b"\xed\x01"
# The y coordinates of the eight points of small order, sign bit apart (RFC 8032's curve; computed once, see the tests).
_LOW = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_LOW_ORDER = frozenset((0, 1, _P - 1, _LOW, _P - _LOW))


class KeyRefused(Refused):
    """This key may vouch for nothing."""

    code = "key_refused"

    def __init__(self, message: str, *, reason: str = "key_refused") -> None:
        super().__init__(message, reason=reason)


def _y(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & ((1 << 255) - 1)


@lru_cache(maxsize=256)  # 100 us; of the records of one store nearly all name the same key
def _on_curve(y: int) -> bool:
    """Whether -x^2 + y^2 = 1 + d x^2 y^2 has an x: whether (y^2 - 1) / (d y^2 + 1) is a square (Euler's criterion)."""
    square = y * y % _P
    return pow((square - 1) * (_D * square + 1), (_P - 1) // 2, _P) == 1  # a/b is a square where ab is


class PublicKey:
    """A public key that may be relied on."""

    __slots__ = ("_key", "raw")

    def __init__(self, raw: bytes) -> None:
        """Raises KeyRefused for a wrong length, a point that is none, a non-canonical encoding, or one of low order."""
        if len(raw) != SIZE:
            raise KeyRefused(f"an Ed25519 public key has {SIZE} bytes, not {len(raw)}")
        y = _y(raw)
        if y >= _P:
            raise KeyRefused("this public key is not canonically encoded", reason="key_not_canonical")
        if y in _LOW_ORDER:
            raise KeyRefused("this public key is of low order: anybody can sign for it", reason="key_low_order")
        if not _on_curve(y):
            raise KeyRefused("these 32 bytes are no point of the curve", reason="key_no_point")
        self.raw = bytes(raw)
        self._key = Ed25519PublicKey.from_public_bytes(self.raw)

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Whether this key signed the bytes (RFC 8032, 5.1.7; no scalar or point out of its range)."""
        if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= _ORDER:
            return False
        y = _y(signature[:32])
        if y >= _P or y in _LOW_ORDER:
            return False
        try:
            self._key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def pem(self) -> bytes:
        """Return the key as PEM (SubjectPublicKeyInfo), as openssl reads it."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @classmethod
    def from_pem(cls, data: bytes) -> PublicKey:
        """Read a PEM file. Raises KeyRefused where it holds no Ed25519 public key."""
        try:
            loaded = load_pem_public_key(data)
        except ValueError as fault:
            raise KeyRefused(f"no PEM public key: {fault}") from None
        if not isinstance(loaded, Ed25519PublicKey):
            raise KeyRefused("the key is not an Ed25519 one")
        return cls(loaded.public_bytes_raw())

    def did_key(self) -> str:
        """Return the key's `did:key` (multicodec ed25519-pub, base58btc)."""
        return "did:key:" + self.multibase()

    def multibase(self) -> str:
        """Return the key as multibase text."""
        return "z" + base58.b58encode(_MULTICODEC + self.raw).decode()

    def reference(self) -> str:
        """Return the DID URL that names this key (contract, `publicKeyRef`)."""
        return f"{self.did_key()}#{self.multibase()}"

    def key_digest(self) -> str:
        """Return `sha256:` and the digest of the 32 raw bytes."""
        return "sha256:" + sha256(self.raw).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"PublicKey({self.did_key()})"


def from_reference(text: str) -> PublicKey:
    """Return the key that a `did:key`, or a DID URL of one, names. Raises KeyRefused."""
    did, _, fragment = text.partition("#")
    multibase = did.removeprefix("did:key:")
    if not did.startswith("did:key:z") or fragment not in ("", multibase):
        raise KeyRefused(f"{text[:200]!r} is no did:key of one key", reason="did_unresolved")
    return from_multibase(multibase)


def from_multibase(text: str) -> PublicKey:
    """Return the key of multibase text (`z`, base58btc, multicodec ed25519-pub). Raises KeyRefused."""
    try:
        data = base58.b58decode(text[1:]) if text[:1] == "z" and len(text) < 100 else b""
    except ValueError:
        raise KeyRefused(f"{text[:200]!r} is not base58btc", reason="did_unresolved") from None
    if data[:2] != _MULTICODEC:
        raise KeyRefused(f"{text[:200]!r} names no Ed25519 key", reason="did_unresolved")
    return PublicKey(data[2:])


class SigningKey:
    """A private key. Its bytes leave it by `private_bytes` alone."""

    __slots__ = ("_key", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._key = private
        self.public = PublicKey(private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> SigningKey:
        """Draw a new key."""
        return cls.from_bytes(os.urandom(SIZE))

    @classmethod
    def from_bytes(cls, seed: bytes) -> SigningKey:
        """Return the key of 32 raw private bytes. Raises KeyRefused for another number of them."""
        if len(seed) != SIZE:
            raise KeyRefused(f"an Ed25519 private key has {SIZE} bytes")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def sign(self, data: bytes) -> bytes:
        """Return the 64-byte signature."""
        return self._key.sign(data)

    def private_bytes(self) -> bytes:
        """Return the 32 raw private bytes, to be kept in a key file and nowhere else."""
        return self._key.private_bytes_raw()

    def __repr__(self) -> str:
        return f"SigningKey(of {self.public.did_key()})"

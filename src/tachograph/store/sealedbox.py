"""Spool keys: a recorded program can write evidence and read none.

Every spool file has a fresh AES-256 key. Its *wrapped* form lies in a file beside it, sealed to intake's X25519 public
key: ephemeral-static ECDH, HKDF-SHA256 (RFC 5869), AES-256-GCM. The ephemeral private key is dropped at once, so what
the program holds afterwards can encrypt further frames of this one file and nothing else. Invariants:

- the wrapped key is bound to the file id: a key file moved beside another spool file does not open;
- nothing here reads intake's private key: `unwrap` is handed it.

Runs inside recorded programs: the standard library and the AES-GCM and X25519 of `cryptography`, nothing else. The
compiled module is imported directly where it is (10 ms instead of 25 at start-up, measured), elsewhere by its public
names.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import digest
from os import urandom

from tachograph.errors import DamagedStore

TYPE_CHECKING = False  # not from typing: that import costs a recorded program 7 ms
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

try:
    from cryptography.hazmat.bindings._rust import openssl as _openssl

    _aes_gcm = _openssl.aead.AESGCM
    _new_private = _openssl.x25519.generate_key
    _from_private = _openssl.x25519.from_private_bytes
    _from_public = _openssl.x25519.from_public_bytes
except (ImportError, AttributeError):  # another version of cryptography: the documented names, slower to import
    from cryptography.hazmat.primitives.asymmetric import x25519 as _x25519
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM as _aes_gcm

    _new_private = _x25519.X25519PrivateKey.generate
    _from_private = _x25519.X25519PrivateKey.from_private_bytes
    _from_public = _x25519.X25519PublicKey.from_public_bytes

MAGIC = b"TKEY\x01"
_INFO = b"tachograph spool key v1"
WRAPPED_SIZE = len(MAGIC) + 32 + 32 + 16


def cipher(key: bytes) -> AESGCM:
    """Return AES-256-GCM under a 32-byte key."""
    return _aes_gcm(key)


def _derive(shared: bytes, ephemeral: bytes, public: bytes) -> bytes:
    # HKDF-SHA256, RFC 5869, one block: extract with both public keys as salt, expand with the purpose.
    return digest(digest(ephemeral + public, shared, sha256), _INFO + b"\x01", sha256)


def wrap(key: bytes, *, file_id: bytes, public: bytes) -> bytes:
    """Seal a 32-byte spool key to intake's X25519 public key (32 raw bytes) and bind it to `file_id`."""
    ephemeral = _new_private()
    ephemeral_public = ephemeral.public_key().public_bytes_raw()
    secret = _derive(ephemeral.exchange(_from_public(public)), ephemeral_public, public)
    # One key, one message: the zero nonce is used once under `secret` and never again.
    return MAGIC + ephemeral_public + _aes_gcm(secret).encrypt(bytes(12), key, MAGIC + file_id)


def unwrap(blob: bytes, *, file_id: bytes, private: bytes) -> bytes:
    """Open a wrapped spool key with intake's private key (32 raw bytes). Raises DamagedStore if it does not open."""
    if len(blob) != WRAPPED_SIZE or not blob.startswith(MAGIC):
        raise DamagedStore("a spool key file is damaged or of another format")
    ephemeral_public = blob[len(MAGIC) : len(MAGIC) + 32]
    own: X25519PrivateKey = _from_private(private)
    shared = own.exchange(_from_public(ephemeral_public))
    secret = _derive(shared, ephemeral_public, own.public_key().public_bytes_raw())
    try:
        return _aes_gcm(secret).decrypt(bytes(12), blob[len(MAGIC) + 32 :], MAGIC + file_id)
    except Exception as fault:
        raise DamagedStore("a spool key does not open: it was changed, or belongs to another file or store") from fault


def fresh_key() -> bytes:
    """Return 32 random bytes."""
    return urandom(32)

"""The keys of a store, kept apart from it: `<config>/tachograph/stores/<store id>/`, mode 0600.

`epoch.key` wraps every key of the key table; `intake.key` is the X25519 private key that spool keys are sealed to;
`tag.key` makes the tags by which credentials, users and domains are told apart without being kept; `signer.key` signs
what is sealed and `log.key` the log's checkpoints. A copy of the store without this folder can be read by nobody.
Invariants:

- a key file is written whole or not at all, and never replaced but by a change of epoch;
- a change of epoch is finished or taken back at the next start, whichever the key table on disk was written under;
- no key appears in an error or a log line: messages name files.

The standard library and the X25519 of `cryptography`; a recorder that has to create a store comes through here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.disk import DISK, Disk

try:  # the compiled module where it is: 10 ms instead of 43 at a recorded program's start (as in sealedbox)
    from cryptography.hazmat.bindings._rust import openssl as _openssl

    _new_private = _openssl.x25519.generate_key
except (ImportError, AttributeError):
    from cryptography.hazmat.primitives.asymmetric import x25519 as _x25519

    _new_private = _x25519.X25519PrivateKey.generate

SIZE = 32
EPOCH, NEXT_EPOCH, INTAKE, TAG = "epoch.key", "epoch.next.key", "intake.key", "tag.key"
SIGNER, LOG = "signer.key", "log.key"  # Ed25519, drawn when something is first sealed: no recorded process sees them


def keys_folder(store_id: str, environ: Mapping[str, str]) -> str:
    """Return where the keys of a store lie: under $XDG_CONFIG_HOME, else under ~/.config."""
    config = environ.get("XDG_CONFIG_HOME") or ""
    if not os.path.isabs(config):  # the XDG base directory specification: a relative path is to be ignored
        home = environ.get("HOME") or os.path.expanduser("~")
        config = os.path.join(home, ".config")
    return os.path.join(config, "tachograph", "stores", store_id)


class Keyring:
    """The keys of one store on this machine, read when first asked for."""

    def __init__(self, store_id: str, environ: Mapping[str, str], *, disk: Disk = DISK) -> None:
        self.store_id = store_id
        self.folder = keys_folder(store_id, environ)
        self._disk = disk
        self._held: dict[str, bytes] = {}

    @classmethod
    def create(cls, store_id: str, environ: Mapping[str, str], *, disk: Disk = DISK) -> tuple[Keyring, bytes]:
        """Draw and keep the keys of a new store. Returns the keyring and intake's public key. Raises OSError."""
        ring = cls(store_id, environ, disk=disk)
        os.makedirs(ring.folder, mode=0o700, exist_ok=True)
        private = _new_private()
        for name, key in ((EPOCH, os.urandom(SIZE)), (TAG, os.urandom(SIZE)), (INTAKE, private.private_bytes_raw())):
            disk.create(os.path.join(ring.folder, name), key)
        return ring, bytes(private.public_key().public_bytes_raw())

    def forget(self) -> None:
        """Remove the keys again: the store they were drawn for was created by somebody else first."""
        for name in (EPOCH, TAG, INTAKE):
            self._disk.remove(self.path(name))
        os.rmdir(self.folder)

    def path(self, name: str) -> str:
        """Return the file of one key; a recorder is handed that of the tag key."""
        return os.path.join(self.folder, name)

    @property
    def epoch(self) -> bytes:
        """The key under which the key table's keys are wrapped. Raises KeyMissing, DamagedStore."""
        return self._key(EPOCH)

    @property
    def intake(self) -> bytes:
        """Intake's X25519 private key, 32 raw bytes. Raises KeyMissing, DamagedStore."""
        return self._key(INTAKE)

    @property
    def tag(self) -> bytes:
        """The key of credential, user, session and domain tags. Raises KeyMissing, DamagedStore."""
        return self._key(TAG)

    @property
    def signer(self) -> bytes:
        """The working key's 32 raw bytes. Raises KeyMissing, DamagedStore."""
        return self._key(SIGNER)

    @property
    def log(self) -> bytes:
        """The log's own key, 32 raw bytes. Raises KeyMissing, DamagedStore."""
        return self._key(LOG)

    def draw(self, *names: str) -> None:
        """Draw those of these keys that are not there yet. Raises OSError."""
        for name in names:
            if not os.path.exists(self.path(name)):
                self._disk.create(self.path(name), os.urandom(SIZE))

    def next_epoch(self) -> bytes | None:
        """Return the epoch key that a change of epoch was about to put in place, if one was interrupted."""
        try:
            with open(self.path(NEXT_EPOCH), "rb") as file:
                key = file.read(SIZE)
        except FileNotFoundError:
            return None
        return key if len(key) == SIZE and any(key) else None  # zeros: it was being dropped

    def reread(self) -> None:
        """Forget the keys read so far: the sealer may have changed the epoch since."""
        self._held.clear()

    def begin_epoch(self) -> bytes:
        """Draw the next epoch key and keep it durably beside the present one. Raises OSError."""
        key = os.urandom(SIZE)
        self._disk.create(self.path(NEXT_EPOCH), key)
        return key

    def finish_epoch(self) -> None:
        """Put the next epoch key in place of the present one, which is overwritten and gone. Raises OSError."""
        self._overwrite(EPOCH)
        self._disk.replace(self.path(NEXT_EPOCH), self.path(EPOCH))
        self._held.clear()

    def abandon_epoch(self) -> None:
        """Drop a next epoch key under which nothing was written. Raises OSError."""
        self._overwrite(NEXT_EPOCH)
        self._disk.remove(self.path(NEXT_EPOCH))

    def _overwrite(self, name: str) -> None:
        # As far as the file system goes: what a flash disk or a backup keeps is the residual that a tombstone states.
        fd = os.open(self.path(name), os.O_WRONLY | os.O_CLOEXEC)
        try:
            self._disk.write(fd, bytes(SIZE))
            self._disk.sync(fd)
        finally:
            os.close(fd)

    def _key(self, name: str) -> bytes:
        held = self._held.get(name)
        if held is not None:
            return held
        path = self.path(name)
        try:
            with open(path, "rb") as file:
                key = file.read(SIZE + 1)
        except FileNotFoundError:
            raise KeyMissing(
                f"the key {path} is not on this machine, and without it nothing in store {self.store_id} can be read; "
                "copy the folder of that name from the machine and account that recorded"
            ) from None
        except PermissionError:
            raise KeyMissing(f"{path}: this account may not read that key; use the account that recorded") from None
        if len(key) != SIZE or not any(key):
            raise DamagedStore(f"the key {path} is damaged; restore it from a backup")
        self._held[name] = key
        return key

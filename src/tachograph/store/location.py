"""Where a store is, and that it is one.

A store is a folder `.tachograph`, found upwards from the working folder like `.git`. It holds `spool/`, `segments/`,
`journal/`, `log/` and `store.json`; its keys lie elsewhere (keyring). Invariants:

- a store comes into being whole: built under another name and renamed, so that of two processes that create it at once
  one wins and both use the winner's;
- the folder is private (mode 0700) and keeps itself out of version control (a `.gitignore` of `*`);
- a folder that is no store, or one of a newer format, is refused with the reason, never written into.

Imported inside recorded programs: the standard library, and through the keyring X25519.
"""

from __future__ import annotations

import errno
import os
from binascii import crc32
from collections.abc import Mapping

from tachograph.errors import DamagedStore, Refused, UsageError
from tachograph.store.disk import DISK, Disk
from tachograph.store.keyring import Keyring

FORMAT = 1
NAME = ".tachograph"
VARIABLE = "TACHO_STORE"
SPOOL, SEGMENTS, JOURNAL, LOG = "spool", "segments", "journal", "log"
_DESCRIPTION = "store.json"
_DESCRIBED = '{\n "format": %d,\n "storeId": "%s",\n "intakePublicKey": "%s",\n "check": "%08x"\n}\n'


class StoreFolder:
    """A store that exists: its paths, its id, and the public key that spool keys are sealed to."""

    __slots__ = ("intake_public_key", "path", "store_id")

    def __init__(self, path: str, *, store_id: str, intake_public_key: bytes) -> None:
        self.path = path
        self.store_id = store_id
        self.intake_public_key = intake_public_key

    def __repr__(self) -> str:
        return f"StoreFolder({self.path!r}, store_id={self.store_id!r})"

    @property
    def spool(self) -> str:
        """Where frames lie first."""
        return os.path.join(self.path, SPOOL)

    @property
    def segments(self) -> str:
        """Where content lies."""
        return os.path.join(self.path, SEGMENTS)

    @property
    def journal(self) -> str:
        """Where the order of what was sealed lies."""
        return os.path.join(self.path, JOURNAL)

    @property
    def log(self) -> str:
        """Where the transparency log lies."""
        return os.path.join(self.path, LOG)

    @property
    def writable(self) -> bool:
        """Whether this process may write into the store."""
        return os.access(self.path, os.W_OK | os.X_OK)

    def keyring(self, environ: Mapping[str, str], *, disk: Disk = DISK) -> Keyring:
        """Return the store's keys on this machine; a missing one raises KeyMissing when it is asked for."""
        return Keyring(self.store_id, environ, disk=disk)


def find_store(start: str, explicit: str | None = None, *, environ: Mapping[str, str]) -> str:
    """Return the path of the store to use, whether or not it exists yet.

    `explicit` (the option `--store`) goes before `TACHO_STORE`, that before the nearest `.tachograph` in `start` or a
    folder above it, and that before `start`'s own.
    """
    named = explicit or environ.get(VARIABLE)
    if named:
        return os.path.abspath(os.path.join(start, named))
    folder = os.path.abspath(start)
    while True:
        candidate = os.path.join(folder, NAME)
        if os.path.isfile(os.path.join(candidate, _DESCRIPTION)):
            return candidate
        above = os.path.dirname(folder)
        if above == folder:
            return os.path.join(os.path.abspath(start), NAME)
        folder = above


def open_store(path: str, *, create: bool = False, environ: Mapping[str, str], disk: Disk = DISK) -> StoreFolder:
    """Return the store at `path`, created with its keys if `create` is asked for and nothing is there.

    Raises UsageError if there is none (or something else is there), Refused if it cannot be created or is of a newer
    format, DamagedStore if its description does not parse.
    """
    path = os.path.abspath(path)
    try:
        with open(os.path.join(path, _DESCRIPTION), encoding="utf-8", errors="replace") as file:
            return _described(path, file.read())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError:
        raise Refused(f"{path}: this account may not read that store", reason="store_unreadable") from None
    if os.path.lexists(path) and not (os.path.isdir(path) and not os.listdir(path)):
        raise UsageError(f"{path} is no store: it has no {_DESCRIPTION}; name another place with --store or {VARIABLE}")
    if not create:
        raise UsageError(
            f"there is no store at {path}; `tacho run` makes one here, --store or {VARIABLE} names one elsewhere"
        )
    try:
        _create(path, environ, disk)
    except OSError as fault:
        raise Refused(
            f"{path}: cannot create a store there: {fault.strerror or fault}; "
            f"name another place with --store or {VARIABLE}",
            reason="store_not_created",
        ) from fault
    return open_store(path, environ=environ, disk=disk)


def _described(path: str, text: str) -> StoreFolder:
    # One flat object that this module wrote, so read without `json`, which costs a recorded program 7 ms to import.
    described = {}
    for pair in text.strip().strip("{}").split(","):
        name, _, value = pair.partition(":")
        described[name.strip().strip('"')] = value.strip().strip('"')
    try:
        version, store_id = int(described["format"]), described["storeId"]
        public = bytes.fromhex(described["intakePublicKey"])
        if len(public) != 32 or len(bytes.fromhex(store_id)) != 16:
            raise ValueError
        if "check" in described and int(described["check"], 16) != _check(store_id, public):
            raise ValueError  # with another public key everything recorded would be sealed to nobody
    except (ValueError, KeyError) as fault:
        raise DamagedStore(f"{path}/{_DESCRIPTION} is not a store's description; restore it from a backup") from fault
    if version > FORMAT:
        raise Refused(
            f"{path}: this store has format {version}, this tachograph reads up to {FORMAT}; upgrade tachograph",
            reason="newer_format",
        )
    return StoreFolder(path, store_id=store_id, intake_public_key=public)


def _check(store_id: str, public: bytes) -> int:
    return crc32(f"{store_id} {public.hex()}".encode())


def _create(path: str, environ: Mapping[str, str], disk: Disk) -> None:
    parent = os.path.dirname(path)
    os.makedirs(parent, exist_ok=True)
    store_id = os.urandom(16).hex()
    building = os.path.join(parent, f"{os.path.basename(path)}.{store_id}.new")
    os.mkdir(building, 0o700)
    ring = None
    try:
        ring, public = Keyring.create(store_id, environ, disk=disk)
        for name in (SPOOL, SEGMENTS, JOURNAL, LOG):
            os.mkdir(os.path.join(building, name), 0o700)
        disk.create(os.path.join(building, ".gitignore"), b"*\n")
        description = _DESCRIBED % (FORMAT, store_id, public.hex(), _check(store_id, public))
        disk.create(os.path.join(building, _DESCRIPTION), description.encode())
        disk.replace(building, path)  # onto an empty folder or nothing; a store that is there already is not replaced
    except OSError as fault:
        _discard(building, disk)
        if ring is not None:
            ring.forget()
        if fault.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _discard(building: str, disk: Disk) -> None:
    if not os.path.isdir(building):
        return
    for name in (_DESCRIPTION, ".gitignore"):
        disk.remove(os.path.join(building, name))
    for name in (SPOOL, SEGMENTS, JOURNAL, LOG):
        if os.path.isdir(os.path.join(building, name)):
            os.rmdir(os.path.join(building, name))
    os.rmdir(building)

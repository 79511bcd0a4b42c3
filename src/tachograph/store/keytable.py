"""The one table of wrapped keys: of every segment, and of every decision's salts.

Each key is wrapped with AES-256-GCM under the epoch key, which lies apart from the store; what it is for (kind, id,
domain, format, epoch) is associated data, so that no entry can be taken for another. Not SQLite, because pages and
journals of a database keep what was deleted (contracts/evidence.md, "At rest"). Invariants:

- a key that was committed is found again after any crash; a torn tail held only keys that nothing refers to yet;
- entries are chained by a check of the one before: the sealer finds a changed byte when it opens the table, not when
  the key is needed years later. A reader looks up what it needs (a search of the bytes, 3 ms in a table of 100,000
  keys, where reading all of it takes 500) and checks that; where it finds nothing it checks the whole table before it
  says so;
- `rewrite` leaves entries out by writing the whole table anew under a new epoch key and then destroying the old one:
  what was left out cannot be unwrapped from any earlier copy of the table. A crash at any step of it leaves the old
  table with the old key, or the new with the new.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.disk import DISK, Disk
from tachograph.store.domains import ID_SIZE
from tachograph.store.keyring import Keyring
from tachograph.store.records import HEAD, Appender, Scan, length_at, preamble, read_file, read_preamble, scan

NAME = "keys"
SEGMENT, SECRET = 1, 2  # what a key is for: a segment's content; a decision's salts and title
KEY_SIZE = 32

_MAGIC, _FORMAT = b"TACHOKEY", 1
_ENTRY = Struct(f"<BB{ID_SIZE}s12s48s")  # kind, length of the id, domain, nonce, wrapped key; then id and check
_CHECK = 8


class Wrapped(NamedTuple):
    """One entry: what the key is for, and the key as it lies on disk."""

    kind: int
    id: bytes
    domain: bytes
    nonce: bytes
    sealed: bytes


class KeyTable:
    """The key table of a store. Readers open it as it is; the sealer opens it to write, and only the sealer does."""

    def __init__(self, store: str, keyring: Keyring, *, write: bool = False, disk: Disk = DISK) -> None:
        """Open the table in the folder `store`; a writer creates it if need be and cuts a torn tail.

        Raises DamagedStore naming the byte from which the table is not what was written, KeyMissing, OSError.
        """
        self.path = os.path.join(store, NAME)
        self.repaired: list[str] = []
        self._keyring = keyring
        self._disk = disk
        self._known: dict[tuple[int, bytes], Wrapped] | None = None
        self._pending: list[Wrapped] = []
        self._file: Appender | None = None
        if write:
            disk.remove(self.path + ".new")
        if not os.path.exists(self.path):
            if _holds_segments(store):
                raise DamagedStore(f"{self.path} is gone, and the segments' keys with it; restore it from a backup")
            self._epoch = keyring.epoch
            if not write:
                self._state, self._known = (0, 0), {}
                return
            disk.create(self.path, self._preamble())
        self._begin(write=write)
        if write:
            found, _ = self._read_all()
            if found.torn:
                self.repaired.append(found.torn)
            self._file = Appender(self.path, size=found.end, disk=disk)
            self._data = b""

    def _preamble(self) -> bytes:
        return preamble(_MAGIC, _FORMAT, self._first_check())

    def _first_check(self) -> bytes:
        return sha256(b"tachograph epoch v1 " + self._epoch).digest()[:16]

    def _begin(self, *, write: bool) -> None:
        self._state = _state(self.path)
        self._data = read_file(self.path)
        _, epoch_check, self._first = read_preamble(self.path, self._data, magic=_MAGIC, newest=_FORMAT)
        self._settle_epoch(epoch_check, write=write)

    def _read_all(self) -> tuple[Scan, dict[tuple[int, bytes], Wrapped]]:
        """Read and check every entry. Raises DamagedStore."""
        data = self._data
        self._check = self._first_check()
        found = scan(self.path, data, self._first, self._sound)
        if found.damage:
            raise DamagedStore(f"{found.damage}; keys behind it cannot be trusted: restore the key table from a backup")
        entries = [_unpack(data[record.start : record.end]) for record in found.records]
        self._known = {(entry.kind, entry.id): entry for entry in entries}
        return found, self._known

    @property
    def _entries(self) -> dict[tuple[int, bytes], Wrapped]:
        return self._known if self._known is not None else self._read_all()[1]

    def _entry(self, kind: int, id: bytes) -> Wrapped | None:
        """Return the newest entry for an id: looked up, or for certain where that finds none."""
        if self._known is None:
            data, place = self._data, len(self._data)
            while (place := data.rfind(id, self._first, place)) >= 0:
                entry = self._whole_entry(place - _ENTRY.size - HEAD.size)
                if entry is not None and (entry.kind, entry.id) == (kind, id):
                    return entry
                place += len(id) - 1
        return self._entries.get((kind, id))

    def _whole_entry(self, at: int) -> Wrapped | None:
        """Return the entry that begins at a byte, if a whole and unchanged one does."""
        length = length_at(self._data, at)
        if length is None or length < _ENTRY.size + _CHECK:
            return None
        before = self._first_check() if at == self._first else self._data[at - _CHECK : at]
        body = self._data[at + HEAD.size : at + HEAD.size + length]
        return _unpack(body) if _chained(before, body[:-_CHECK]) == body[-_CHECK:] else None

    def refresh(self) -> bool:
        """Read the table again if the sealer has written to it since; say whether it had. Raises as opening does."""
        if self._file is not None or _state(self.path) == self._state:
            return False
        self._known = None
        self._keyring.reread()
        self._begin(write=False)
        return True

    def _settle_epoch(self, epoch_check: bytes, *, write: bool) -> None:
        """Take the epoch key that the table was written under, finishing a change of epoch that was interrupted."""
        upcoming = self._keyring.next_epoch()
        if upcoming is not None:
            self._epoch = upcoming
            if self._first_check() == epoch_check:
                if write:
                    self._keyring.finish_epoch()
                return
            if write:
                self._keyring.abandon_epoch()
        self._epoch = self._keyring.epoch
        if self._first_check() != epoch_check:
            raise KeyMissing(
                f"{self.path} was written under another epoch key than {self._keyring.path('epoch.key')}; "
                "copy the keys from the machine that recorded, or restore table and key from the same backup"
            )

    def _sound(self, number: int, at: int, body: memoryview) -> bool:
        if len(body) < _ENTRY.size + _CHECK:
            return False
        check = _chained(self._check, bytes(body[:-_CHECK]))
        if check != body[-_CHECK:]:
            return False
        self._check = check
        return True

    def add(self, kind: int, id: bytes, domain: bytes, key: bytes) -> None:
        """Wrap a 32-byte key for `id` (at most 255 bytes). It counts once `commit` has returned.

        Raises ValueError if the table was opened to be read.
        """
        if self._file is None:
            raise ValueError("the key table was opened to be read")
        entry = self._wrap(Wrapped(kind, id, domain, os.urandom(12), b""), key)
        self._entries[kind, id] = entry
        self._pending.append(entry)

    def _wrap(self, entry: Wrapped, key: bytes) -> Wrapped:
        sealed = AESGCM(self._epoch).encrypt(entry.nonce, key, self._place(entry))
        return entry._replace(sealed=sealed)

    def _place(self, entry: Wrapped) -> bytes:
        kind = bytes((_FORMAT, entry.kind, len(entry.id)))
        return b"tachograph key table " + kind + entry.id + entry.domain + self._first_check()

    def commit(self) -> None:
        """Write what was added, and return once it is on the disk. Raises OSError: the sealer must stop."""
        if not self._pending or self._file is None:
            return
        bodies = []
        check = self._check
        for entry in self._pending:
            body = _pack(entry)
            check = _chained(check, body)
            bodies.append(body + check)
        self._file.append(bodies)
        self._file.sync()
        self._check = check
        self._pending.clear()

    def get(self, kind: int, id: bytes) -> bytes:
        """Return a key. Raises KeyMissing for none (never kept, or erased), DamagedStore if it does not open."""
        entry = self._entry(kind, id)
        if entry is None:
            raise KeyMissing(f"{self.path} holds no key for {_named(kind, id)}: it was erased, or never committed")
        return self._open(entry)

    def _open(self, entry: Wrapped) -> bytes:
        try:
            return AESGCM(self._epoch).decrypt(entry.nonce, entry.sealed, self._place(entry))
        except InvalidTag:
            raise DamagedStore(f"{self.path}: the key for {_named(entry.kind, entry.id)} was changed") from None

    def check(self) -> None:
        """Check every entry. Raises DamagedStore naming the byte from which the table is not what was written."""
        if self._file is None and self._state != (0, 0):
            self._read_all()

    def __contains__(self, key: tuple[int, bytes]) -> bool:
        return self._entry(*key) is not None

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self, kind: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield (id, domain) of every key of a kind, in the order in which they were added."""
        return ((entry.id, entry.domain) for entry in self._entries.values() if entry.kind == kind)

    def rewrite(self, keep: Callable[[int, bytes, bytes], bool]) -> int:
        """Write the table anew with the entries for which `keep(kind, id, domain)` is true; return how many went.

        New epoch key, new table in its place, old epoch key destroyed, in this order, each step durable. OSError and
        a crash leave either the old state or the new.
        """
        if self._file is None or self._pending:
            raise ValueError("a rewrite takes a table opened to be written, with nothing pending")
        staying = [entry for entry in self._entries.values() if keep(entry.kind, entry.id, entry.domain)]
        kept = [(entry, self._open(entry)) for entry in staying]
        gone = len(self._entries) - len(kept)
        self._epoch = self._keyring.begin_epoch()
        entries = [self._wrap(entry._replace(nonce=os.urandom(12)), key) for entry, key in kept]
        check, parts = self._first_check(), []
        parts.append(self._preamble())
        building = Appender.create(self.path + ".new", parts[0], disk=self._disk)
        try:
            bodies = []
            for entry in entries:
                body = _pack(entry)
                check = _chained(check, body)
                bodies.append(body + check)
            building.append(bodies)
            building.sync()
        finally:
            building.close()
        self._disk.replace(building.path, self.path)
        self._keyring.finish_epoch()
        self._file.close()
        self._file = Appender(self.path, size=building.size, disk=self._disk)
        self._check = check
        self._known = {(entry.kind, entry.id): entry for entry in entries}
        return gone

    def close(self) -> None:
        """Close the file; what is pending is dropped."""
        self._pending.clear()
        if self._file is not None:
            self._file.close()
            self._file = None


def _pack(entry: Wrapped) -> bytes:
    return _ENTRY.pack(entry.kind, len(entry.id), entry.domain, entry.nonce, entry.sealed) + entry.id


def _unpack(body: bytes) -> Wrapped:
    kind, length, domain, nonce, sealed = _ENTRY.unpack_from(body, 0)
    return Wrapped(kind, body[_ENTRY.size : _ENTRY.size + length], domain, nonce, sealed)


def _chained(check: bytes, body: bytes) -> bytes:
    return sha256(check + body).digest()[:_CHECK]


def _state(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return 0, 0
    return status.st_ino, status.st_size


def _holds_segments(store: str) -> bool:
    folder = os.path.join(store, "segments")
    return os.path.isdir(folder) and bool(os.listdir(folder))


def _named(kind: int, id: bytes) -> str:
    if kind == SEGMENT:
        return f"segment {id.hex()}"
    return f"decision {id.decode('utf-8', 'replace')}"

"""Content by place: logs go in, a place comes out, and the place gives the same bytes for ever or a refusal.

The sealer appends logs per erasure domain and commits them in batches; anybody with the keys reads. Deduplication,
parents and dictionaries stay within a segment, and a segment holds one domain. Invariants:

- a place counts once `commit` has returned: keys first, then content, each synced; a failed sync raises, and what was
  appended since the last commit is dropped from memory, since nobody knows what the disk holds;
- what the journal vouches for is never cut or written over: a segment that holds less than the journal says is damaged,
  is kept as it is, and its domain goes on in a new segment;
- reading checks everything (GCM tag, place, SHA-256 of the log): a changed byte is refused with file and item.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tachograph.errors import DamagedStore, KeyMissing
from tachograph.store.disk import DISK, Disk
from tachograph.store.growing import FULL_BYTES, Growing
from tachograph.store.keytable import KEY_SIZE, SEGMENT, KeyTable
from tachograph.store.opened import Content, load
from tachograph.store.records import read_file
from tachograph.store.sealed import Sealed, write_sealed
from tachograph.store.segment_file import OPEN, SEALED, SEGMENT_ID, Identity, read_identity

SUFFIX = ".seg"
_PER_WRITER = 1 << 20  # bytes of memory that writing a segment takes, whatever is added to it


class Place(NamedTuple):
    """Where a log lies: the segment's id (32 hex digits), and which item of it. Sealing does not change it."""

    segment: str
    item: int


class _Held(NamedTuple):
    content: Content | Sealed
    inode: int
    size: int
    changed_ns: int


def nothing_vouched(segment: str) -> int:
    """Return 0 for every segment: for a store whose journal holds nothing yet, and for tests."""
    return 0


class ContentStore:
    """The segments of one store. Not for several threads at once: each takes one of its own."""

    def __init__(
        self, folder: str, keys: KeyTable, *, vouched: Callable[[str], int] = nothing_vouched,
        read_bytes: int = 64 << 20, write_bytes: int = 96 << 20, segment_bytes: int = FULL_BYTES, disk: Disk = DISK,
    ) -> None:  # fmt: skip
        """Use the segments in `folder`.

        `vouched(segment)` says how many items of a segment the journal refers to (its highest item + 1); it is asked
        when a segment is opened to be written or sealed. `read_bytes` and `write_bytes` bound what stays in memory,
        `segment_bytes` what one segment holds, decoded.
        """
        self.findings: list[str] = []
        self._folder = folder
        self._keys = keys
        self._vouched = vouched
        self._read_bytes, self._write_bytes, self._segment_bytes = read_bytes, write_bytes, segment_bytes
        self._disk = disk
        self._writers: OrderedDict[bytes, Growing] = OrderedDict()
        self._full: list[Growing] = []
        self._filled: list[str] = []  # closed, and to be sealed
        self.waiting = 0
        """Roughly how many bytes of memory it takes to commit what was appended since the last commit."""
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._latest: dict[bytes, bytes] | None = None
        self._new_files = False

    def path(self, segment: str) -> str:
        """Return a segment's file."""
        return os.path.join(self._folder, segment + SUFFIX)

    # --- writing: the sealer only -------------------------------------------------------------------------------------

    def append(self, domain: bytes, log: bytes, cuts: Sequence[int]) -> Place:
        """Take a log into its domain; `cuts` are the offsets where its frames and payloads begin.

        The place counts once `commit` has returned. Raises Refused for a log above 1 GiB, OSError.
        """
        writer = self._writers.get(domain)
        if writer is None or writer.is_full(self._segment_bytes):
            writer = self._writer(domain)
        self._writers.move_to_end(domain)
        self.waiting += len(log) + (0 if writer.dirty else _PER_WRITER)
        number = writer.add(log, cuts)
        return Place(_id(writer), number)

    def commit(self) -> None:
        """Return once everything appended, and the keys added to the key table, are on the disk.

        Raises OSError: the sealer must stop (capture-v1 rule 5); what was not committed is still in the spool.
        """
        dirty = [writer for writer in (*self._full, *self._writers.values()) if writer.dirty]
        try:
            self._keys.commit()
            for writer in dirty:
                writer.write()
            for writer in dirty:
                writer.sync()
            if self._new_files:
                self._disk.sync_folder(self._folder)
                self._new_files = False
        except OSError:
            self.close()
            raise
        self.waiting = 0
        for writer in list(self._full):
            self._filled.append(_id(writer))
            self._drop(writer)
        self._evict()

    def discard(self) -> None:
        """Drop what was appended since the last commit."""
        for writer in [writer for writer in (*self._full, *self._writers.values()) if writer.dirty]:
            self._drop(writer)
        self.waiting = 0

    def full_segments(self) -> list[str]:
        """Return the segments written to here that take no more: to be sealed after a commit."""
        writers = (*self._full, *self._writers.values())
        return self._filled + [_id(writer) for writer in writers if writer.is_full(self._segment_bytes)]

    def seal(self, segment: str) -> None:
        """Write an open segment anew, compressed harder, and put it in its own place. Sealed already: nothing to do.

        Raises ValueError if it holds uncommitted logs, DamagedStore if any of it cannot be read, OSError.
        """
        writer = self._writer_of(segment)
        if writer is not None:
            if writer.dirty:
                raise ValueError(f"segment {segment} holds logs that were not committed")
            self._drop(writer)
        if segment in self._filled:
            self._filled.remove(segment)
        path = self.path(segment)
        data = read_file(path)
        identity, key = self._identity(segment, data)
        if identity.kind == SEALED:
            return
        content = load(path, data, key)
        self._check_vouched(segment, content)
        sealed = write_sealed(content, key)
        _check_sealed(Sealed(path, sealed, key), content)
        self._disk.create(path, sealed)
        self._held.pop(segment, None)

    def close(self) -> None:
        """Close every file; what was not committed is dropped."""
        for writer in (*self._full, *self._writers.values()):
            self._drop(writer)
        self._latest = None

    def _writer_of(self, segment: str) -> Growing | None:
        return next((writer for writer in (*self._writers.values(), *self._full) if _id(writer) == segment), None)

    def _drop(self, writer: Growing) -> None:
        writer.close()
        if writer in self._full:
            self._full.remove(writer)
        else:
            del self._writers[writer.content.identity.domain]

    def _writer(self, domain: bytes) -> Growing:
        full = self._writers.pop(domain, None)
        if full is not None:
            self._full.append(full)  # it may hold logs of this batch
        writer = None if full is not None else self._continued(domain)
        if writer is None:
            identity = Identity(OPEN, os.urandom(SEGMENT_ID), 0, domain)
            key = os.urandom(KEY_SIZE)
            self._keys.add(SEGMENT, identity.key_id, domain, key)
            writer = Growing.begin(self.path(identity.segment.hex()), identity, key, disk=self._disk)
            self._segments()[domain] = identity.segment
            self._new_files = True
        self._writers[domain] = writer
        return writer

    def _continued(self, domain: bytes) -> Growing | None:
        """Return the domain's newest segment, opened to go on with it, unless there is none that can be."""
        newest = self._segments().get(domain)
        if newest is None:
            return None
        segment = newest.hex()
        path = self.path(segment)
        if not os.path.exists(path):
            if self._vouched(segment):
                self.findings.append(f"{path} is gone, and the journal refers to it")
            return None
        try:
            data = read_file(path)
            identity, key = self._identity(segment, data)
            if identity.kind == SEALED:
                return None
            content = load(path, data, key)
            if content.damage:
                raise DamagedStore("; ".join(content.damage))
            self._check_vouched(segment, content)
        except DamagedStore as fault:
            self.findings.append(f"{fault}; left as it is, its domain goes on in a new segment")
            return None
        if content.torn:
            self.findings.append(f"{content.torn}; cut off: what it held is still in the spool")
        writer = Growing.reopen(content, key, disk=self._disk)
        if writer.is_full(self._segment_bytes):
            writer.close()
            return None
        return writer

    def _check_vouched(self, segment: str, content: Content) -> None:
        vouched = self._vouched(segment)
        if content.count < vouched:
            raise DamagedStore(
                f"{content.path}: holds {content.count} items and the journal refers to {vouched}"
                + (f" ({content.torn})" if content.torn else "")
            )

    def _segments(self) -> dict[bytes, bytes]:
        if self._latest is None:
            self._latest = {domain: id[:SEGMENT_ID] for id, domain in self._keys.entries(SEGMENT)}
            self._tidy()
        return self._latest

    def _tidy(self) -> None:
        """Remove what a crash left of a segment being sealed: its open form is still in place."""
        for name in os.listdir(self._folder):
            if name.endswith(".new"):
                self._disk.remove(os.path.join(self._folder, name))

    def _evict(self) -> None:
        """Close what was not written to for longest; it is read again from its file when its domain comes back."""
        total = sum(writer.memory for writer in (*self._full, *self._writers.values()))
        for writer in (*self._full, *self._writers.values()):
            if total <= self._write_bytes:
                break
            total -= writer.memory
            if writer.is_full(self._segment_bytes):
                self._filled.append(_id(writer))
            self._drop(writer)

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, place: Place) -> bytes:
        """Return the log at a place, checked.

        Raises DamagedStore naming file and item where any of it is not what was written or is gone, KeyMissing where
        the segment's key is not in the key table (erased) or the store's keys are not on this machine.
        """
        writer = self._writer_of(place.segment)
        return (self._content(place) if writer is None else writer.content).read(place.item)

    def _content(self, place: Place) -> Content | Sealed:
        path = self.path(place.segment)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            raise DamagedStore(f"{path} is gone, and item {place.item} with it; restore it from a backup") from None
        held = self._held.get(place.segment)
        if held is not None and held.inode == status.st_ino:
            same = (held.size, held.changed_ns) == (status.st_size, status.st_mtime_ns)
            if same or (held.size < status.st_size and place.item < held.content.count):
                self._held.move_to_end(place.segment)
                return held.content
        data = read_file(path)
        identity, key = self._identity(place.segment, data)
        content = load(path, data, key) if identity.kind == OPEN else Sealed(path, data, key)
        self._held[place.segment] = _Held(content, status.st_ino, len(data), status.st_mtime_ns)
        self._held.move_to_end(place.segment)
        total = sum(other.content.memory for other in self._held.values())
        while total > self._read_bytes and len(self._held) > 1:
            _, oldest = self._held.popitem(last=False)
            total -= oldest.content.memory
        return content

    def _identity(self, segment: str, data: bytes) -> tuple[Identity, bytes]:
        path = self.path(segment)
        identity, _ = read_identity(path, data)
        if identity.segment.hex() != segment:
            raise DamagedStore(f"{path}: holds segment {identity.segment.hex()}; restore the file from a backup")
        try:
            return identity, self._keys.get(SEGMENT, identity.key_id)
        except KeyMissing:
            if not self._keys.refresh():
                raise
            return identity, self._keys.get(SEGMENT, identity.key_id)

    def segments(self) -> Iterator[tuple[str, Identity]]:
        """Yield (segment, identity) of every segment file, the unreadable ones left out and named in `findings`."""
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(SUFFIX):
                try:
                    with open(os.path.join(self._folder, name), "rb") as file:
                        identity, _ = read_identity(file.name, file.read(256))
                    yield name[: -len(SUFFIX)], identity
                except DamagedStore as fault:
                    self.findings.append(str(fault))


def _id(writer: Growing) -> str:
    return writer.content.identity.segment.hex()


def _check_sealed(sealed: Sealed, content: Content) -> None:
    """Compare what was encoded with what it was made of, before it takes its place. Raises DamagedStore."""
    same = sealed.count == content.count and all(
        sealed.packed(number) == content.items[number] for number in range(content.count)
    )
    if not same or sealed.lanes() != (bytes(content.rope), bytes(content.once)):
        raise DamagedStore(f"{content.path}: its sealed form does not give back its content; it stays open")

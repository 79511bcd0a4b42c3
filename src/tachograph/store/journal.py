"""The journal: what was sealed, in order. Everything else that lists decisions is made from it.

One record per decision, numbered from 0 without a gap, each with a SHA-256 over the record before and its own fields,
in files of about 4 MB. Once `append_batch` has returned, the batch is sealed (capture-v1 rule 5 (c)). Invariants:

- records are only ever added; a record changed, moved, dropped or put in between is found from the journal alone, and
  refused with its place; a tail cut off at a record's end is found only against a checkpoint kept elsewhere;
- a torn last record is cut by the next sealer and reported: its decisions are still in the spool;
- the numbers and digests go on across files, so that no file can be taken out or exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from hashlib import sha256
from typing import NamedTuple

from tachograph.errors import DamagedStore, NotFound
from tachograph.store.disk import DISK, Disk
from tachograph.store.entry import RUN, STATEMENT, Compression, Entry, Fields, Source, pack, unpack
from tachograph.store.records import HEAD, Appender, Found, length_at, preamble, read_file, read_preamble, scan

_MAGIC, _FORMAT = b"TACHOJRN", 1
_DIGEST = 32
_SUFFIX = ".journal"
_ROTATE = 4 << 20  # a sealer reads the last file when it starts: 10,000 records, 50 ms


class Exchanged(DamagedStore):
    """A position that somebody kept is not one of this journal: it was exchanged, or set back."""

    code = "journal_exchanged"


class Position(NamedTuple):
    """How far somebody has read: the file, the byte behind its last record, the next number, the last digest."""

    file: int
    at: int
    sequence: int
    digest: bytes


START = Position(0, 0, 0, bytes(_DIGEST))


class Record(NamedTuple):
    """A journal record that was read and whose digest was checked."""

    file: int
    at: int
    sequence: int
    digest: bytes
    entry: Entry
    end: int

    @property
    def position(self) -> Position:
        """The position behind this record."""
        return Position(self.file, self.end, self.sequence + 1, self.digest)


class _Held(NamedTuple):
    """A file of which single records are read, and what their texts are compressed against."""

    state: tuple[str, int, int] | None
    data: bytes
    compression: Compression


class _File:
    """One journal file, read: its records' places, and the digest before each."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        self.data = read_file(path)
        _, header, self.start = read_preamble(path, self.data, magic=_MAGIC, newest=_FORMAT)
        if len(header) != 8 + _DIGEST or int.from_bytes(header[:8], "little") != number:
            raise DamagedStore(f"{path}: its header names another file; restore the journal from a backup")
        self.previous = header[8:]
        self.digests = [self.previous]
        found = scan(path, self.data, self.start, self._sound, first=number)
        self.records: list[Found] = found.records
        self.end, self.torn, self.damage = found.end, found.torn, found.damage
        self.compression = Compression()
        self._begun = False

    def _sound(self, number: int, at: int, body: memoryview) -> bool:
        if len(body) <= _DIGEST:
            return False
        digest = _chained(self.digests[-1], body[:-_DIGEST])
        if digest != body[-_DIGEST:]:
            return False
        self.digests.append(digest)
        return True

    def fields(self, index: int) -> Fields:
        found = self.records[index]
        fields = unpack(self.data[found.start : found.end - _DIGEST])
        if fields.sequence != self.number + index:
            raise DamagedStore(f"{self.path}: record at byte {found.at} is number {fields.sequence}, not the next one")
        return fields

    def record(self, index: int) -> Record:
        fields = self.fields(index)
        if not self._begun:
            _begin(self.compression, map(self.fields, range(len(self.records))))
            self._begun = True
        found = self.records[index]
        entry = fields.entry(self.compression)
        return Record(self.number, found.at, fields.sequence, self.digests[index + 1], entry, found.end)


class Journal:
    """The journal of one store."""

    def __init__(self, folder: str, *, write: bool = False, disk: Disk = DISK) -> None:
        """Open the journal in `folder`; a writer (the sealer, under its lock) reads the last file and cuts a torn tail.

        Raises DamagedStore naming file and byte where the last file is not what was written; OSError.
        """
        self.repaired: list[str] = []
        self._folder = folder
        self._disk = disk
        self._file: Appender | None = None
        self._cache: dict[int, tuple[int, _File]] = {}
        self._held: _Held | None = None
        if write:
            self._open()

    def _open(self) -> None:
        numbers = self._numbers()
        if not numbers:
            self._begin(0, bytes(_DIGEST))
            return
        last = self._read(numbers[-1])
        if last.damage:
            raise DamagedStore(f"{last.damage}; nothing is sealed behind it: restore the journal from a backup")
        if len(numbers) > 1:
            before = self._path(numbers[-2])  # read as a whole by `records`; here only whether the two fit
            if read_file(before)[-_DIGEST:] != last.previous:
                raise DamagedStore(f"{last.path} does not follow on {before}; restore the journal from a backup")
        if last.torn:
            self.repaired.append(last.torn)
        self._file = Appender(last.path, size=last.end, disk=self._disk)
        self._sequence = last.number + len(last.records)
        self._digest = last.digests[-1]
        self._number = last.number
        self._compression = Compression()
        if last.records:
            last.record(0)
            self._compression = last.compression

    def _begin(self, number: int, previous: bytes) -> None:
        path = self._path(number)
        self._disk.create(path, preamble(_MAGIC, _FORMAT, number.to_bytes(8, "little") + previous))
        if self._file is not None:
            self._file.close()
        self._file = Appender(path, size=os.path.getsize(path), disk=self._disk)
        self._sequence, self._digest, self._number = number, previous, number
        self._compression = Compression()

    def append_batch(self, entries: Sequence[Entry]) -> list[Record]:
        """Number, write and sync a batch; once this returns it is sealed.

        Raises OSError: nothing of the batch counts, and where it was the sync that failed the sealer must stop.
        """
        if self._file is None:
            raise ValueError("the journal was opened to be read")
        if self._file.size >= _ROTATE:
            self._begin(self._sequence, self._digest)
        file = self._file
        digest, bodies, digests = self._digest, [], []
        compression = copy(self._compression)
        for number, entry in enumerate(entries, self._sequence):
            fields = pack(entry, number, self._compression)
            digest = _chained(digest, fields)
            digests.append(digest)
            bodies.append(fields + digest)
        try:
            places = file.append(bodies)
            file.sync()
        except OSError:
            self._compression = compression
            raise
        records = [
            Record(self._number, at, self._sequence + index, digests[index], entry, at + HEAD.size + len(bodies[index]))
            for index, (at, entry) in enumerate(zip(places, entries, strict=True))
        ]
        self._sequence += len(entries)
        self._digest = digest
        return records

    @property
    def next_sequence(self) -> int:
        """The number of the next record."""
        if self._file is not None:
            return self._sequence
        numbers = self._numbers()
        return numbers[-1] + len(self._read(numbers[-1]).records) if numbers else 0

    def __len__(self) -> int:
        return self.next_sequence

    def records(self, after: Position = START) -> Iterator[Record]:
        """Yield the records behind a position, in order, each checked against the one before.

        Raises DamagedStore at the place where the journal is not what was written, after yielding what lies before it;
        also (Exchanged) where the journal does not hold what `after` names. A torn tail is passed over: it belongs to a
        batch that is being written, or that the next sealer will take from the spool again.
        """
        sequence, digest = after.sequence, after.digest
        if after.sequence and self.ends_at(after):
            return
        for file, first in self._files(after):
            if file.digests[first] != digest or file.number + first != sequence:
                raise Exchanged(f"{file.path}: record {sequence} does not follow on the one before")
            for index in range(first, len(file.records)):
                record = file.record(index)
                yield record
                sequence, digest = record.sequence + 1, record.digest
            self._refuse_damage(file)

    def backwards(self) -> Iterator[Record]:
        """Yield the records, newest first. Raises DamagedStore where the journal is not what was written."""
        for number in reversed(self._numbers()):
            file = self._read(number)
            self._refuse_damage(file)
            for index in reversed(range(len(file.records))):
                yield file.record(index)

    def ends_at(self, after: Position) -> bool:
        """Whether a position is the journal's end, told by the last digest alone: what every listing asks first."""
        path = self._path(after.file)
        if os.path.exists(self._path(after.sequence)) or not os.path.exists(path):
            return False
        if os.path.getsize(path) != after.at:
            return False
        with open(path, "rb") as data:
            data.seek(after.at - _DIGEST)
            return data.read() == after.digest

    def _files(self, after: Position) -> Iterator[tuple[_File, int]]:
        """Yield every file from a position on, and the index of the first record behind it."""
        numbers = [number for number in self._numbers() if number >= after.file]
        if after.file not in numbers and (after.sequence or numbers):
            raise Exchanged(f"{self._path(after.file)} is gone; restore the journal from a backup")
        for number in numbers:
            file = self._read(number)
            first = 0
            if number == after.file and after.at:
                ends = [file.start, *(found.end for found in file.records)]
                if after.at not in ends:
                    self._refuse_damage(file)
                    raise Exchanged(f"{file.path}: no record ends at byte {after.at}: exchanged, or cut")
                first = ends.index(after.at)
            yield file, first

    def _refuse_damage(self, file: _File) -> None:
        if file.damage:
            raise DamagedStore(f"{file.damage}; restore the journal from a backup")
        if file.torn and file.number != self._numbers()[-1]:
            raise DamagedStore(f"{file.torn}, in the middle of the journal; restore it from a backup")

    def at(self, file: int, at: int) -> Record:
        """Return the record that begins at a byte of a file, its digest checked against the one before it.

        Raises DamagedStore. Costs the same wherever the record stands; a list asks for many of one file.
        """
        path = self._path(file)
        state = _state(path)
        if self._held is None or self._held.state != state:
            data = read_file(path)
            start = read_preamble(path, data, magic=_MAGIC, newest=_FORMAT)[2]
            compression = Compression()
            _begin(compression, _fields_from(path, data, start))
            self._held = _Held(state, data, compression)
        fields, digest, end = _one(path, self._held.data, at)
        return Record(file, at, fields.sequence, digest, fields.entry(self._held.compression), end)

    def find(self, prefix: str) -> Record:
        """Return the newest record of the decision with that id, or with the one id that begins so.

        Raises NotFound for none or for several ids, DamagedStore if the journal is damaged and it was not found.
        """
        found: dict[str, tuple[_File, int]] = {}
        damage: DamagedStore | None = None
        try:
            for file, _ in self._files(START):
                for index in range(len(file.records)):
                    fields = file.fields(index)
                    decision = fields.decision
                    if fields.kind != STATEMENT and decision.startswith(prefix):
                        found[decision] = file, index
                self._refuse_damage(file)
        except DamagedStore as fault:
            damage = fault
        if prefix in found:
            found = {prefix: found[prefix]}
        if len(found) == 1:
            file, index = next(iter(found.values()))
            return file.record(index)
        if damage is not None:
            raise damage
        if not found:
            raise NotFound(f"no decision has an id that begins with {prefix!r}; `tacho ls` lists them")
        some = ", ".join(sorted(found)[:3])
        raise NotFound(f"{len(found)} decisions have an id that begins with {prefix!r} ({some} ...): give more of it")

    def sources(self, spools: Collection[str]) -> set[Source]:
        """Return which frames of these spool files are sealed with their whole run (a crash came before destruction).

        What only some decisions of a run were made from, while it went on, is none of it.

        Raises DamagedStore: what is sealed cannot be told then, and sealing it twice must not happen.
        """
        sealed: set[Source] = set()
        if spools:
            for file, _ in self._files(START):
                for index in range(len(file.records)):
                    fields = file.fields(index)
                    if fields.sources and _ends_a_run(fields):
                        sealed.update(source for source in fields.sources if source.spool in spools)
                self._refuse_damage(file)
        return sealed

    def vouched(self) -> dict[str, int]:
        """Return for every segment how many items the journal refers to (its highest item + 1). Raises DamagedStore."""
        highest: dict[str, int] = {}
        for file, _ in self._files(START):
            for index in range(len(file.records)):
                for place in file.fields(index).places:
                    highest[place.segment] = max(highest.get(place.segment, 0), place.item + 1)
            self._refuse_damage(file)
        return highest

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _numbers(self) -> list[int]:
        names = [name[: -len(_SUFFIX)] for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:012}{_SUFFIX}")

    def _read(self, number: int) -> _File:
        """Return a file, read again only if it has grown (the last two are kept)."""
        path = self._path(number)
        try:
            size = os.path.getsize(path)
        except FileNotFoundError:
            raise DamagedStore(f"{path} is gone; restore the journal from a backup") from None
        held = self._cache.get(number)
        if held is not None and held[0] == size:
            return held[1]
        file = _File(path, number)
        self._cache[number] = len(file.data), file
        while len(self._cache) > 2:
            self._cache.pop(next(iter(self._cache)))
        return file


def _begin(compression: Compression, records: Iterator[Fields]) -> None:
    """Read what a file's records are compressed against: the first one, and the first of a decision or run."""
    for number, fields in enumerate(records):
        texts = compression.unpack(*fields.texts)
        if not number:
            compression.begin(texts)
        if fields.kind != STATEMENT:
            compression.learn(texts)
            return


def _fields_from(path: str, data: bytes, at: int) -> Iterator[Fields]:
    """Yield the fields of a file's records from a byte on, each checked."""
    while at < len(data):
        fields, _, at = _one(path, data, at)
        yield fields


def _ends_a_run(fields: Fields) -> bool:
    """A run's own record, or its one decision, which has the run's name."""
    return fields.kind == RUN or fields.decision.partition("_")[2] == fields.run.partition("_")[2]


def _state(path: str) -> tuple[str, int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return path, status.st_size, status.st_mtime_ns


def _one(path: str, data: bytes, at: int) -> tuple[Fields, bytes, int]:
    """Read one record by itself. The digest before it is right before it, at a file's start in the preamble."""
    length = length_at(data, at)
    if length is None or length <= _DIGEST:
        raise DamagedStore(
            f"{path}: no whole record begins at byte {at}; `tacho doctor --rebuild` makes the index anew"
        )
    start, end = at + HEAD.size, at + HEAD.size + length
    digest = data[end - _DIGEST : end]
    if _chained(data[at - _DIGEST : at], data[start : end - _DIGEST]) != digest:
        raise DamagedStore(
            f"{path}: the record at byte {at} is not what was written; restore the journal from a backup"
        )
    return unpack(data[start : end - _DIGEST]), digest, end


def _chained(previous: bytes, fields: bytes | memoryview) -> bytes:
    return sha256(previous + bytes(fields)).digest()

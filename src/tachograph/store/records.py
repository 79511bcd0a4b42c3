"""Append-only files of records: the journal, the key table and open segments are all written this way.

A file is a preamble (magic, format number, a header of the owner's) and records: length, check of the length and the
record's place, body. What proves the body is inside it and is the owner's affair (a chained digest, a GCM tag).
Invariants:

- a record's head is bound to its place in the file: none can be moved unseen;
- *torn* is only what a crash can leave: a last record shorter than its length says, or space that was never written
  (zeros) at the end. It is cut by whoever may write, and said;
- anything else that does not fit is *damage*, never cut and never skipped in silence: one changed byte in the last
  record does not read as a torn tail, so that no sealed record can be made to vanish that way.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from tachograph.errors import DamagedStore
from tachograph.store.disk import DISK, Disk

HEAD = Struct("<II")  # length of the body; check
_PREAMBLE = Struct("<8sHHI")  # magic, format, length of the header, check
_UNWRITTEN = bytes(8)

Sound = Callable[[int, int, memoryview], bool]


class Found(NamedTuple):
    """One record: where it begins in the file, and its body's first byte and the byte behind its last."""

    at: int
    start: int
    end: int


class Scan(NamedTuple):
    """What a file holds: its whole records, where they end, what was torn off behind them, and the damage if any."""

    records: list[Found]
    end: int
    torn: str | None
    damage: str | None


def preamble(magic: bytes, version: int, header: bytes) -> bytes:
    """Return the first bytes of a record file. `magic` has 8 bytes, `header` at most 65,535."""
    check = crc32(magic + version.to_bytes(2, "little") + header)
    return _PREAMBLE.pack(magic, version, len(header), check) + header


def read_preamble(path: str, data: bytes | memoryview, *, magic: bytes, newest: int) -> tuple[int, bytes, int]:
    """Return (format, header, first record's place). Raises DamagedStore for another file, or one cut or changed."""
    if len(data) < _PREAMBLE.size:
        raise DamagedStore(f"{path}: {len(data)} bytes are less than a file header; restore it from a backup")
    found, version, length, check = _PREAMBLE.unpack_from(data, 0)
    header = bytes(data[_PREAMBLE.size : _PREAMBLE.size + length])
    if found != magic or len(header) != length or check != crc32(magic + version.to_bytes(2, "little") + header):
        raise DamagedStore(f"{path}: the file header (byte 0) is not what was written; restore the file from a backup")
    if version > newest:
        raise DamagedStore(f"{path}: format {version} is newer than this version reads ({newest}); upgrade tachograph")
    return version, header, _PREAMBLE.size + length


def head(at: int, body: bytes) -> bytes:
    """Return the head of a record that will begin at byte `at`."""
    return HEAD.pack(len(body), _check(at, len(body)))


def _check(at: int, length: int) -> int:
    return crc32(at.to_bytes(8, "little") + length.to_bytes(4, "little"))


def length_at(data: bytes | memoryview, at: int) -> int | None:
    """Return the length of the body of the record that begins at byte `at`, or None if none whole does."""
    if not 0 <= at <= len(data) - HEAD.size:
        return None
    length, check = HEAD.unpack_from(data, at)
    return length if check == _check(at, length) and at + HEAD.size + length <= len(data) else None


def scan(path: str, data: bytes | memoryview, at: int, sound: Sound, *, first: int = 0) -> Scan:
    """Go through the records of `data` from byte `at` on; `sound(number, place, body)` says whether a body is right.

    Stops at the first record that is not whole. `first` is the number of the record at `at`. Never raises.
    """
    records: list[Found] = []
    view, end = memoryview(data), len(data)
    while at < end:
        number = first + len(records)
        rest = end - at
        if rest < HEAD.size:
            return Scan(records, at, f"{path}: {rest} bytes of an unfinished record at byte {at}", None)
        length, check = HEAD.unpack_from(view, at)
        start = at + HEAD.size
        if check != _check(at, length):
            if not any(view[at:end]):
                return Scan(records, at, f"{path}: {rest} bytes that were never written, at byte {at}", None)
            return Scan(records, at, None, f"{path}: record {number} at byte {at} has a changed head")
        if start + length > end:
            return Scan(records, at, f"{path}: record {number} at byte {at} was cut off: {rest} bytes", None)
        if not sound(number, at, view[start : start + length]):
            if start + length == end and view[max(start, end - len(_UNWRITTEN)) : end] == _UNWRITTEN:
                return Scan(records, at, f"{path}: record {number} at byte {at} was not written to its end", None)
            return Scan(records, at, None, f"{path}: record {number} at byte {at} is not what was written")
        records.append(Found(at, start, start + length))
        at = start + length
    return Scan(records, at, None, None)


class Appender:
    """A record file held open by its one writer. Created with its preamble if it is not there."""

    def __init__(self, path: str, *, size: int, disk: Disk = DISK) -> None:
        """Open for appending behind byte `size`; what lies behind it (a torn tail) is cut. Raises OSError."""
        self.path = path
        self.size = size
        self._disk = disk
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(self._fd).st_size > size:
                disk.truncate(self._fd, size)
                disk.sync(self._fd)
            os.lseek(self._fd, size, os.SEEK_SET)
        except OSError:
            self.close()
            raise

    @classmethod
    def create(cls, path: str, first: bytes, *, disk: Disk = DISK) -> Appender:
        """Begin a file with its preamble. Durable once `sync` and its folder's sync have returned.

        Raises FileExistsError, or another OSError.
        """
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            disk.write(fd, first)
        finally:
            os.close(fd)
        return cls(path, size=len(first), disk=disk)

    def append(self, bodies: list[bytes]) -> list[int]:
        """Write records behind one another in one go, not yet synced. Returns where each begins.

        Where that fails (a full disk) the file is cut back to what it was and OSError is raised: nothing was appended.
        """
        places, parts, at = [], [], self.size
        for body in bodies:
            places.append(at)
            parts.append(head(at, body))
            parts.append(body)
            at += HEAD.size + len(body)
        try:
            self._disk.write(self._fd, b"".join(parts))
        except OSError:
            self._disk.truncate(self._fd, self.size)
            os.lseek(self._fd, self.size, os.SEEK_SET)
            raise
        self.size = at
        return places

    def sync(self) -> None:
        """Return once everything appended is on the disk. Raises OSError: nobody knows then, the writer must stop."""
        self._disk.sync(self._fd)

    def close(self) -> None:
        """Close the file. Twice is once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def read_file(path: str) -> bytes:
    """Return a file's bytes. Raises DamagedStore where a file that must be there is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as fault:
        raise DamagedStore(f"{path} is gone; restore it from a backup") from fault

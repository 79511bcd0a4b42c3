"""Spool files read: decrypted by intake, whatever is damaged left out and named.

Invariants:

- a torn tail is left out and named; a record that does not decrypt is left out and named, and the rest loads;
- every record is checked before the first frame is given out;
- memory does not grow with what was recorded: of a file that is larger than what the reader is told to keep, only the
  places of its records stay (16 bytes each), and a frame is read and decrypted again whenever it is asked for.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, overload

from tachograph.errors import DamagedStore
from tachograph.store import sealedbox
from tachograph.store.spool import HEADER_SIZE, MAGIC, TAG_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

_LENGTH = Struct("<I")
_NONCE = Struct("<QI")
_MOST_SEARCHES = 8  # for the record behind a damaged length: each goes through the rest of the file
_WINDOW = 1 << 20  # bytes read at once: records follow one another, whoever reads them
KEPT = 32 << 20  # bytes: what is held of smaller files costs less than reading them again


class Reading:
    """What could be read of a spool file: the frames in order, and the damage, in words, if there is any."""

    __slots__ = ("damage", "file_id", "frames", "gap", "numbers")

    def __init__(
        self, file_id: bytes, frames: Sequence[bytes], damage: list[str], *, gap: bool,
        numbers: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """`numbers` are the places of these frames among the file's records, where some of them could not be read."""
        self.file_id = file_id
        self.frames = frames
        self.damage = damage
        self.gap = gap
        self.numbers = range(len(frames)) if numbers is None else numbers


class _File:
    """A spool file's bytes as they were when it was opened, a window of them in memory."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)
        self._size = os.fstat(self._fd).st_size
        self._at, self._window = 0, b""

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if stop - start > _WINDOW:
            return self._read(start, stop - start)
        if not self._at <= start <= stop <= self._at + len(self._window):
            self._at, self._window = start, self._read(start, _WINDOW)
        return self._window[start - self._at : stop - self._at]

    def _read(self, at: int, length: int) -> bytes:
        parts = []
        while length > 0:
            part = os.pread(self._fd, length, at)
            if not part:
                break  # cut meanwhile: its writer took half a record away
            parts.append(part)
            at, length = at + len(part), length - len(part)
        return b"".join(parts)

    def find(self, what: bytes, start: int) -> int:
        while start < self._size:
            self._at, self._window = start, self._read(start, _WINDOW)
            found = self._window.find(what)
            if found >= 0:
                return start + found
            if not self._window:
                break
            start += len(self._window)
        return -1


class _Frames(Sequence[bytes]):
    """The frames of a large file: where each lies, read when it is asked for."""

    def __init__(self, data: _File, decrypt: Callable[..., bytes], numbers: array[int], places: array[int]) -> None:
        self._data = data
        self._decrypt = decrypt
        self._numbers = numbers
        self._places = places
        self._head = data[:HEADER_SIZE]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        frame = _record(self._data, self._places[place], self._numbers[place], self._decrypt, self._head)[1]
        if frame is None:
            raise DamagedStore(f"record {self._numbers[place]} of a spool file was changed while it was read")
        return frame


def read_spool(path: str, *, private: bytes, growing: bool = False, keep: int = KEPT) -> Reading:
    """Decrypt a spool file with intake's private key.

    A torn tail is left out and named; a record that does not decrypt is left out and named, and the rest loads. In a
    file that is `growing`, a record that is not whole at the end is just being written, and no damage. Of a file of
    more than `keep` bytes the frames are not held in memory.
    Raises DamagedStore when the header or the key cannot be used at all.
    """
    data: bytes | _File = _File(path)
    if len(data) <= keep:
        data = data[:]
    head = data[:HEADER_SIZE]
    if head[: len(MAGIC)] != MAGIC or len(head) < HEADER_SIZE:
        raise DamagedStore(f"{path}: not a spool file, or its header is damaged")
    file_id = head[len(MAGIC) :]
    blob, gap = _key_of(path)
    try:
        decrypt = sealedbox.cipher(sealedbox.unwrap(blob, file_id=file_id, private=private)).decrypt
    except DamagedStore as fault:
        raise DamagedStore(f"{path}: {fault}") from fault
    name, damage, frames = os.path.basename(path), [], []
    numbers, places = array("L"), array("Q")
    at, number, end, searches = HEADER_SIZE, 0, len(data), _MOST_SEARCHES
    while at < end:
        after, frame = _record(data, at, number, decrypt, head)
        if frame is not None:
            numbers.append(number)
            places.append(at)
            if isinstance(data, bytes):
                frames.append(frame)
        else:
            if searches and _record(data, after or end, number + 1, decrypt, head)[1] is None:
                searches -= 1
                after = _found(data, at, number + 1, decrypt, head) or (after if _is_chain(data, after) else 0)
            if after:
                damage.append(f"{name}: record {number} at byte {at} was changed: left out")
            else:
                if not growing:
                    damage.append(f"{name}: record {number} at byte {at} is cut off: {end - at} bytes left out")
                break
        at, number = after, number + 1
    kept = frames if isinstance(data, bytes) else _Frames(data, decrypt, numbers, places)
    return Reading(file_id, kept, damage, gap=gap, numbers=numbers)


def _record(
    data: bytes | _File, at: int, number: int, decrypt: Callable[..., bytes], head: bytes
) -> tuple[int, bytes | None]:  # fmt: skip
    """Return where the record at `at` ends (0 if it does not fit), and its frame if it is record `number`."""
    if at + 4 > len(data):
        return 0, None
    start = at + 4
    after = start + _length(data, at)
    if after > len(data) or after - start < TAG_SIZE:
        return 0, None
    try:
        return after, decrypt(_NONCE.pack(number, 0), data[start:after], head)
    except Exception:  # noqa: BLE001 - InvalidTag: whatever it was, it is not what was written
        return after, None


def _length(data: bytes | _File, at: int) -> int:
    return int.from_bytes(data[at : at + _LENGTH.size], "little")


def _found(data: bytes | _File, at: int, number: int, decrypt: Callable[..., bytes], head: bytes) -> int:
    """Return where record `number` begins behind a damaged one at `at` whose length leads astray; 0 if nowhere."""
    start = at + 4 + TAG_SIZE
    while (start := data.find(b"\0", start + 3) - 3) >= 0:  # the highest byte of each length below 16 MiB
        if _is_chain(data, start) and _record(data, start, number, decrypt, head)[1] is not None:
            return start
        start += 1
    return 0


def _is_chain(data: bytes | _File, at: int) -> bool:
    """Say whether lengths stand here that lead from one to the next: three of them, or up to the file's end."""
    for _ in range(3):
        if at == len(data):
            return True
        if at + 4 + TAG_SIZE > len(data):
            return False
        at += 4 + _length(data, at)
    return at <= len(data)


def _key_of(path: str) -> tuple[bytes, bool]:
    for suffix, gap in ((".key", False), (".gap.key", True)):
        try:
            with open(path[:-6] + suffix, "rb") as file:
                return file.read(), gap
        except FileNotFoundError:
            continue
    raise DamagedStore(f"{path}: its key file is gone, so it cannot be read by anyone")

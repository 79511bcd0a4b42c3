"""The zip structures of a bundle, read by hand: every byte of the file belongs to exactly one thing, or it is refused.

The standard library's reader looks for a directory from the end and believes it; what lies before, between and behind
is then nobody's, and two readers may see two archives. Here the records tile the file (APPNOTE 6.3.10, sections 4.3
and 4.4). Invariants:

- the first local header stands at byte 0, each next one where the content before it ends, then the directory, then the
  end record, and then nothing; no comments, no extra fields, no zip64, no data descriptors, one disk;
- a local header says what the directory says, byte for byte; what stands in the directory alone has one value;
- nothing is inflated here, and nothing is believed: sizes and checksums are compared by `unpacking`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from stat import S_ISDIR, S_ISLNK
from struct import Struct

from tachograph.formats.bundle.names import check_name, check_twins
from tachograph.formats.bundle.refused import BundleRefused

LOCAL = Struct("<4sHHHHHIIIHH")
CENTRAL = Struct("<4sHHHHHHIIIHHHHHII")
END = Struct("<4sHHHHIIH")
LOCAL_MARK, CENTRAL_MARK, END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
STORED, DEFLATED = 0, 8

MADE_BY = 3 << 8 | 20
ATTRIBUTES = 0o600 << 16
"""What a member is made by and its attributes, in the one form in which Python's zipfile, too, writes them on Unix."""

NEEDED = (10, 20)
MOST_MEMBERS = 10_000
MOST_BYTES = 1 << 30
LONGEST_NAME = 128  # the longest of the closed list has 101 bytes
LONGEST_FILE = MOST_BYTES + MOST_MEMBERS * (LOCAL.size + CENTRAL.size + 2 * LONGEST_NAME) + END.size

_UTF8, _DESCRIPTOR, _ENCRYPTED = 0x800, 0x8, 0x1 | 0x40 | 0x2000


@dataclass(frozen=True, slots=True)
class Entry:
    """One member as the headers state it. `at` is its local header's byte, `begins` that of its content."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    at: int
    begins: int


def entries_of(data: bytes) -> list[Entry]:
    """Return the members of a bundle in their order in the file. Raises BundleRefused."""
    begins, ends, count = _directory(data)
    entries = []
    expected, at = 0, begins
    for _ in range(count):
        entry, at = _entry(data, at, ends, expected, begins)
        expected = entry.begins + entry.packed
        entries.append(entry)
    if at != ends:
        raise BundleRefused("the directory has more than it counts", reason="directory", at=at)
    if expected != begins:
        raise BundleRefused("bytes between the last member and the directory", reason="gap", at=expected)
    check_twins((entry.name, entry.at) for entry in entries)
    for entry in entries:
        check_name(entry.name, entry.at)
    if sum(entry.size for entry in entries) > MOST_BYTES:
        raise BundleRefused(f"its members say that they are over {MOST_BYTES} bytes", reason="too_large", at=begins)
    return entries


def _directory(data: bytes) -> tuple[int, int, int]:
    """Return where the directory begins and ends, and how many records it has."""
    if len(data) > LONGEST_FILE:
        raise BundleRefused(f"over {LONGEST_FILE} bytes", reason="too_large", at=LONGEST_FILE)
    ends = len(data) - END.size
    if ends < 0 or data[ends : ends + 4] != END_MARK:
        raise _no_end(data)
    _, disk, first_disk, here, count, size, begins, comment = END.unpack_from(data, ends)
    if comment:
        raise BundleRefused("a comment that is not there", reason="comment", at=ends + 20)
    if data[ends - 20 : ends - 16] == b"PK\x06\x07" or 0xFFFF in (here, count) or 0xFFFFFFFF in (size, begins):
        raise BundleRefused("zip64, which a bundle never needs", reason="zip64", at=ends)
    if disk or first_disk or here != count:
        raise BundleRefused("more than one disk", reason="disks", at=ends + 4)
    if count > MOST_MEMBERS:
        raise BundleRefused(f"over {MOST_MEMBERS} members", reason="too_many", at=ends + 8)
    if begins + size != ends:
        raise _elsewhere(data, begins, size, ends)
    return begins, ends, count


def _no_end(data: bytes) -> BundleRefused:
    """Say why the end record is not at the end."""
    found = data.rfind(END_MARK)
    if found < 0 or found + END.size > len(data):
        return BundleRefused("no zip archive, or cut short", reason="no_end", at=max(found, 0))
    behind = found + END.size
    if END.unpack_from(data, found)[7] == len(data) - behind:
        return BundleRefused("a comment behind the last record", reason="comment", at=behind)
    return BundleRefused("bytes behind the last record", reason="trailing_bytes", at=behind)


def _elsewhere(data: bytes, begins: int, size: int, ends: int) -> BundleRefused:
    """Say why the directory is not where the end record says."""
    if begins + size < ends and data[ends - size : ends - size + 4] == CENTRAL_MARK:
        return BundleRefused("bytes before the first record", reason="leading_bytes", at=0)
    if begins + size < ends:
        return BundleRefused("bytes between the directory and the end record", reason="gap", at=begins + size)
    return BundleRefused("the directory runs into the end record", reason="directory", at=ends + 12)


def _entry(data: bytes, at: int, ends: int, expected: int, directory: int) -> tuple[Entry, int]:
    """Read the directory's record at `at` with its local header; return it and where the next one stands."""
    if at + CENTRAL.size > ends or data[at : at + 4] != CENTRAL_MARK:
        raise BundleRefused("no record of the directory where one is counted", reason="directory", at=at)
    (
        _,
        made_by,
        needed,
        flags,
        method,
        _,
        _,
        crc,
        packed,
        size,
        named,
        extra,
        comment,
        disk,
        internal,
        external,
        local,
    ) = CENTRAL.unpack_from(data, at)
    text = data[at + CENTRAL.size : at + CENTRAL.size + named]
    name = text.decode("utf-8", "backslashreplace")
    for fault, reason, place in _faults(made_by, needed, flags, method, extra, comment, disk, internal, external):
        raise BundleRefused(fault, reason=reason, member=name, at=at + place)
    if 0xFFFFFFFF in (packed, size, local):
        raise BundleRefused("zip64, which a bundle never needs", reason="zip64", member=name, at=at + 20)
    if local < expected:
        raise BundleRefused("it overlaps what stands before it", reason="overlap", member=name, at=local)
    if local > expected:
        reason = "gap" if expected else "leading_bytes"
        raise BundleRefused("bytes before it belong to nothing", reason=reason, member=name, at=expected)
    begins = local + LOCAL.size + named
    _compare(data, at, local, named, name)
    if begins + packed > directory:
        raise BundleRefused("it overlaps the directory", reason="overlap", member=name, at=local)
    return Entry(name, method, crc, packed, size, local, begins), at + CENTRAL.size + named


def _compare(data: bytes, at: int, local: int, named: int, name: str) -> None:
    """Compare a local header with the directory's record: both hold the same fields in the same order."""
    if data[local : local + 4] != LOCAL_MARK:
        raise BundleRefused("no member where the directory says", reason="directory", member=name, at=local)
    if data[local + 28 : local + 30] != b"\0\0":
        raise BundleRefused("an extra field", reason="extra_field", member=name, at=local + 28)
    pairs = ((at + 6, local + 4, LOCAL.size - 4), (at + CENTRAL.size, local + LOCAL.size, named))
    for there, here, length in pairs:
        one, other = data[there : there + length], data[here : here + length]
        if one != other:
            place = next((n for n in range(len(other)) if one[n] != other[n]), len(other))
            what = "its header says otherwise than the directory"
            raise BundleRefused(what, reason="headers_differ", member=name, at=here + place)


def _faults(
    made_by: int, needed: int, flags: int, method: int,
    extra: int, comment: int, disk: int, internal: int, external: int,
) -> Iterator[tuple[str, str, int]]:  # fmt: skip
    """Every fault of a directory record's fixed fields: what, the reason, the byte in it."""
    mode = external >> 16
    if flags & _ENCRYPTED:
        yield "encrypted", "encrypted", 8
    if flags & _DESCRIPTOR:
        yield "sizes in a data descriptor: they belong in the header", "data_descriptor", 8
    if flags & ~_UTF8:
        yield "flags that a bundle does not use", "flags", 8
    if method not in (STORED, DEFLATED):
        yield f"packing method {method}: stored and deflate are read", "method", 10
    if needed not in NEEDED:
        yield "a version of the format that a bundle does not need", "version", 6
    if extra:
        yield "an extra field", "extra_field", 30
    if comment:
        yield "a comment", "comment", 32
    if disk:
        yield "more than one disk", "disks", 34
    if S_ISLNK(mode):
        yield "a link", "link", 38
    if S_ISDIR(mode) or external & 0x10:
        yield "a folder, where only files may stand", "folder", 38
    if made_by != MADE_BY or internal or external != ATTRIBUTES:
        yield "attributes other than a bundle's", "attributes", 4

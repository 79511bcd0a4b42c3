"""A record file tells a torn tail from damage, at every byte."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tachograph.errors import DamagedStore
from tachograph.store.records import HEAD, Appender, Scan, preamble, read_file, read_preamble, scan
from tests.store.kept import FullDisk

FIRST = preamble(b"TESTFILE", 1, b"header")
BODIES = [b"first" + b"\x01", b"", b"third, a longer one", b"\x00\x00"]


def checked(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


def sound(number: int, at: int, body: memoryview) -> bool:
    return len(body) >= 4 and zlib.crc32(body[:-4]).to_bytes(4, "little") == body[-4:]


def file_of(folder: Path, bodies: list[bytes] = BODIES) -> Path:
    path = folder / "records"
    appender = Appender.create(str(path), FIRST)
    appender.append([checked(body) for body in bodies])
    appender.sync()
    appender.close()
    return path


def scanned(data: bytes) -> Scan:
    return scan("records", data, len(FIRST), sound)


def bodies(data: bytes, found: Scan) -> list[bytes]:
    return [data[record.start : record.end - 4] for record in found.records]


def test_what_was_appended_is_found(tmp_path: Path) -> None:
    data = file_of(tmp_path).read_bytes()
    assert read_preamble("records", data, magic=b"TESTFILE", newest=1) == (1, b"header", len(FIRST))
    found = scanned(data)
    assert bodies(data, found) == BODIES
    assert (found.end, found.torn, found.damage) == (len(data), None, None)


def test_cut_at_any_byte_the_whole_records_before_load_and_the_tail_is_torn(tmp_path: Path) -> None:
    data = file_of(tmp_path).read_bytes()
    ends = [len(FIRST), *(record.end for record in scanned(data).records)]
    for size in range(len(FIRST), len(data) + 1):
        found = scanned(data[:size])
        whole = sum(end <= size for end in ends) - 1
        assert bodies(data, found) == BODIES[:whole]
        assert found.damage is None
        assert (found.torn is None) == (size in ends)
        assert found.end == ends[whole]


def test_a_byte_changed_anywhere_is_damage_and_never_a_torn_tail(tmp_path: Path) -> None:
    data = file_of(tmp_path).read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        if at < len(FIRST):
            with pytest.raises(DamagedStore, match="byte 0"):
                read_preamble("records", bytes(changed), magic=b"TESTFILE", newest=1)
            continue
        found = scanned(bytes(changed))
        assert found.torn is None
        assert found.damage is not None
        assert bodies(bytes(changed), found) == BODIES[: len(found.records)]
        assert len(found.records) < len(BODIES)


def test_space_that_was_never_written_is_torn(tmp_path: Path) -> None:
    data = file_of(tmp_path).read_bytes()
    found = scanned(data + bytes(100))
    assert bodies(data, found) == BODIES
    assert found.torn is not None
    last = scanned(data).records[-2]
    unwritten = data[: last.end - 8] + bytes(8)
    found = scanned(unwritten)
    assert found.torn is not None
    assert found.end == last.at


def test_a_record_moved_to_another_place_is_damage(tmp_path: Path) -> None:
    data = file_of(tmp_path).read_bytes()
    first, second, third, _ = scanned(data).records
    swapped = data[: first.at] + data[third.at : third.end] + data[first.at : third.at] + data[third.end :]
    assert scanned(swapped).damage is not None
    without = data[: second.at] + data[second.end :]
    assert scanned(without).damage is not None


def test_a_file_of_another_kind_or_a_newer_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedStore, match="file header"):
        read_preamble("f", preamble(b"OTHERONE", 1, b""), magic=b"TESTFILE", newest=1)
    with pytest.raises(DamagedStore, match="newer"):
        read_preamble("f", preamble(b"TESTFILE", 2, b""), magic=b"TESTFILE", newest=1)
    for size in range(len(FIRST)):
        with pytest.raises(DamagedStore):
            read_preamble("f", FIRST[:size], magic=b"TESTFILE", newest=1)
    with pytest.raises(DamagedStore, match="is gone"):
        read_file(str(tmp_path / "none"))


def test_appending_goes_on_behind_what_is_whole(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    appender = Appender(str(path), size=scanned(data[:-3]).end)
    assert appender.append([checked(b"next")]) == [scanned(data).records[-1].at]
    appender.close()
    appender.close()
    assert bodies(path.read_bytes(), scanned(path.read_bytes())) == [*BODIES[:-1], b"next"]


def test_a_torn_tail_is_cut_whatever_follows_it(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data + data[len(FIRST) : -3])  # longer than what comes next
    appender = Appender(str(path), size=len(data))
    assert path.read_bytes() == data
    appender.append([checked(b"next")])
    appender.close()
    assert bodies(path.read_bytes(), scanned(path.read_bytes())) == [*BODIES, b"next"]


def test_on_a_full_disk_nothing_was_appended(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    data = path.read_bytes()
    for room in range(HEAD.size + len(checked(b"more"))):
        disk = FullDisk(room)
        appender = Appender(str(path), size=len(data), disk=disk)
        with pytest.raises(OSError, match="No space left"):
            appender.append([checked(b"more")])
        assert path.read_bytes() == data
        disk.room = 1000
        appender.append([checked(b"more")])
        appender.close()
        assert bodies(path.read_bytes(), scanned(path.read_bytes())) == [*BODIES, b"more"]
        path.write_bytes(data)


def test_a_file_that_is_there_is_not_begun_again(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    with pytest.raises(FileExistsError):
        Appender.create(str(path), FIRST)

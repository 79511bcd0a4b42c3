"""What is written is read back, the same members give the same bytes, and what no reader takes is not written."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.canonical import digest
from tachograph.formats.bundle import structure
from tachograph.formats.bundle.names import IN_EVERY
from tachograph.formats.bundle.published import VERIFY_TEXT
from tachograph.formats.bundle.reading import read_bundle
from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.bundle.writing import write_bundle
from tests.formats.bundle.by_hand import IDS, made
from tests.formats.bundle.hand_made import CAPTURE, ID, MEMBERS

SAMPLE = Path(__file__).parents[1] / "samples" / "bundle_1.tacho"
NAMES = [CAPTURE, f"signed/{ID}.pae", f"signed/{ID}.sig", "time/checkpoint.tsr", "keys/did.json", "custody.jsonl"]


def export(manifest: str) -> bytes:
    return b'{"manifest":"%s"}' % manifest.encode()


@given(st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=400) | st.binary().map(lambda one: one * 50)))
def test_what_is_written_is_read_back_and_the_same_members_give_the_same_bytes(members: dict[str, bytes]) -> None:
    data = write_bundle(members, export=export)
    assert data == write_bundle(dict(reversed(members.items())), export=export)
    bundle = read_bundle(data)
    assert {name: bundle.read(name) for name in members} == members
    assert set(bundle.names) - members.keys() == {"EXPORT.dsse.json", "MANIFEST.json", "SHA256SUMS", "VERIFY.txt"}
    assert bundle.document("EXPORT.dsse.json") == {"manifest": digest(bundle.read("MANIFEST.json"))}


def test_other_readers_take_it_too() -> None:
    with zipfile.ZipFile(io.BytesIO(write_bundle(MEMBERS, export=export))) as archive:
        assert archive.testzip() is None
        assert archive.read("VERIFY.txt") == VERIFY_TEXT
        assert archive.namelist() == sorted(archive.namelist())


def test_the_manifest_names_every_member_once_with_its_digest_but_itself_and_two() -> None:
    bundle = read_bundle(write_bundle(MEMBERS, export=export))
    listed = bundle.document("MANIFEST.json")["members"]
    assert listed.keys() == set(bundle.names) - {"EXPORT.dsse.json", "MANIFEST.json", "SHA256SUMS"}
    assert {name: one["digest"] for name, one in listed.items()} == {name: bundle.digest(name) for name in listed}
    summed = [line.split("  ")[1] for line in bundle.read("SHA256SUMS").decode().splitlines()]
    assert summed == [name for name in bundle.names if name != "SHA256SUMS"]


def test_content_that_would_pass_for_a_bomb_is_stored() -> None:
    bundle = read_bundle(write_bundle({**MEMBERS, CAPTURE: bytes(1 << 20)}, export=export))
    assert "packed" not in bundle.document("MANIFEST.json")["members"][CAPTURE]
    text = b"".join(b'{"number":%d}' % number for number in range(9000))
    assert len(write_bundle({CAPTURE: text}, export=export)) < len(text) / 3


def test_the_first_bundle_is_read_and_written_back_byte_for_byte() -> None:
    data = SAMPLE.read_bytes()
    bundle = read_bundle(data)
    assert bundle.captures == list(IDS)
    contents = {name: bundle.read(name) for name in bundle.names}
    assert {name: one for name, one in contents.items() if name not in IN_EVERY} == made().members
    written = write_bundle(made().members, export=lambda _: contents["EXPORT.dsse.json"])
    if "ng" in zlib.ZLIB_RUNTIME_VERSION:  # deflates otherwise: the same members, another file
        assert read_bundle(written).names == bundle.names
    else:
        assert written == data


@pytest.mark.parametrize(
    ("name", "reason"),
    [("../x", "path"), ("README.md", "name"), ("time/", "folder"), ("captures/dec_1.json", "name")],
)
def test_a_name_that_no_reader_takes_is_not_written(name: str, reason: str) -> None:
    with pytest.raises(BundleRefused) as raised:
        write_bundle({**MEMBERS, name: b""}, export=export)
    assert raised.value.reason == reason


def test_twins_are_not_written() -> None:
    with pytest.raises(BundleRefused, match="the same name"):
        write_bundle({"time/a.tsr": b"", "time/A.tsr": b""}, export=export)


@pytest.mark.parametrize("name", ["MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS", "VERIFY.txt"])
def test_what_the_bundle_makes_itself_is_not_taken(name: str) -> None:
    with pytest.raises(ValueError, match="made by the bundle itself"):
        write_bundle({name: b""}, export=export)


def test_more_members_than_a_reader_takes_are_not_written() -> None:
    members = {f"time/{number}.tsr": b"" for number in range(structure.MOST_MEMBERS - 4)}
    read_bundle(write_bundle(members, export=export))
    with pytest.raises(ValueError, match="at most 10000 members"):
        write_bundle({**members, "time/more.tsr": b""}, export=export)


def test_more_bytes_than_a_reader_takes_are_not_written() -> None:
    class Long(bytes):
        """Bytes that say of themselves that they are over a gibibyte."""

        def __len__(self) -> int:
            return structure.MOST_BYTES

    with pytest.raises(ValueError, match="at most 1073741824 bytes"):
        write_bundle({CAPTURE: Long(b"x")}, export=export)

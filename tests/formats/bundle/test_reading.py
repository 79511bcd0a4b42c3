"""A bundle that anybody made is read as it was written, or refused with a reason, a member and a byte."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tachograph.formats.bundle.reading import MOST_JSON, Bundle, read_bundle
from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.bundle.structure import ATTRIBUTES, END, LOCAL, LONGEST_FILE, Entry, entries_of
from tachograph.formats.bundle.writing import write_bundle
from tests.formats.bundle.hand_made import (
    BLOB,
    BLOB_NAME,
    CAPTURE,
    ID,
    MEMBERS,
    Piece,
    build,
    deflate,
    listed,
    manifest_of,
    pieces_of,
    sums_of,
    with_piece,
)

PEM = b"time/certs/root.pem"
WHOLE = build(pieces_of(listed()))


def refused(data: bytes) -> BundleRefused:
    with pytest.raises(BundleRefused) as raised:
        read_bundle(data)
    return raised.value


def test_a_bundle_made_by_hand_is_read() -> None:
    bundle = read_bundle(WHOLE)
    assert bundle.captures == [ID]
    assert bundle.blobs == [BLOB_NAME[6:]]
    assert bundle.envelopes == []
    assert bundle.document(CAPTURE) == {"version": "replay/v1"}
    assert bundle.digest(BLOB_NAME) == "sha256:" + sha256(BLOB).hexdigest()
    assert bundle.manifest_digest == "sha256:" + sha256(bundle.read("MANIFEST.json")).hexdigest()
    assert CAPTURE in bundle
    with pytest.raises(KeyError):
        bundle.read("captures/none.json")


def test_a_bundle_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "one.tacho").write_bytes(WHOLE)
    assert read_bundle(tmp_path / "one.tacho").names == read_bundle(WHOLE).names
    assert sorted(tmp_path.iterdir()) == [tmp_path / "one.tacho"], "nothing is unpacked"


def test_what_another_tool_stored_anew_is_the_same_bundle() -> None:
    packed = write_bundle({**MEMBERS, CAPTURE: b'{"a":1}' * 99}, export=lambda _: b"{}")
    anew = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as old, zipfile.ZipFile(anew, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    assert read_bundle(anew.getvalue()).manifest_digest == read_bundle(packed).manifest_digest


def twice(name: str = "time/certs/root.pem") -> bytes:
    whole = listed({**MEMBERS, name: b"one"})
    return build([*pieces_of(whole), Piece(name.encode(), b"one")])


def one_in_another() -> bytes:
    """A second record of the directory whose member lies inside the content of the first."""
    pieces = pieces_of(listed())
    inner = Piece(PEM, b"inner")
    hidden = LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, 33, 0, 5, 5, len(PEM), 0) + PEM + b"inner"
    outer = Piece(b"log/checkpoint", hidden)
    rest = [one for one in pieces if one.name != outer.name]
    inner.at = LOCAL.size + len(outer.name)
    return build([outer, inner, *rest])


def one_for_two() -> bytes:
    """Two records of the directory that lead to one local header."""
    pieces = pieces_of(listed())
    return build([*pieces, Piece(PEM, b"", at=0)])


def a_comment_with_an_end() -> bytes:
    """An archive whose comment holds another whole archive: some readers take the first, some the last."""
    return WHOLE[:-2] + struct.pack("<H", len(WHOLE)) + WHOLE


class Long(bytes):
    """Bytes that say of themselves that they are more than a file may have."""

    def __len__(self) -> int:
        return LONGEST_FILE + 1


def directory_size() -> int:
    return END.unpack(WHOLE[-END.size :])[5]  # type: ignore[no-any-return]


def two_blocks() -> bytes:
    """Deflated bytes, 65,536 of them, which is as many as are inflated at once."""
    half = 32763
    head = struct.pack("<HH", half, half ^ 0xFFFF)
    return b"\0" + head + b"a" * half + b"\1" + head + b"a" * half


def deflated(data: bytes = b"abc" * 50, **how: object) -> bytes:
    return with_piece(Piece(PEM, data, deflated=True, **how))  # type: ignore[arg-type]


STRUCTURE: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "an empty file": (lambda: b"", "no_end", ""),
    "no archive": (lambda: b"not a zip at all" * 9, "no_end", ""),
    "an archive cut short": (lambda: WHOLE[:-30], "no_end", ""),
    "cut inside the end record": (lambda: WHOLE[:-5], "no_end", ""),
    "an end record that begins before the file": (lambda: b"xxPK\5\6xxxxxx", "no_end", ""),
    "a file of over a gibibyte": (lambda: Long(WHOLE), "too_large", ""),
    "an archive without members": (lambda: build([]), "missing", "MANIFEST.json"),
    "bytes before the first record": (lambda: b"#!/bin/sh\n" + WHOLE, "leading_bytes", ""),
    "bytes before, offsets moved": (
        lambda: build([Piece(b"log/checkpoint", b"", before=b"MZ"), *pieces_of(listed())]), "leading_bytes", ""),
    "bytes behind the last record": (lambda: WHOLE + b"more", "trailing_bytes", ""),
    "a comment": (lambda: WHOLE[:-2] + b"\4\0note", "comment", ""),
    "a comment that is an archive": (a_comment_with_an_end, "leading_bytes", ""),
    "a comment that is not there": (lambda: build(pieces_of(listed()), end={"comment": 9}), "comment", ""),
    "bytes before the directory": (lambda: build(pieces_of(listed()), between=b"hidden"), "gap", ""),
    "bytes behind the directory": (lambda: build(pieces_of(listed()), before_end=b"hidden"), "gap", ""),
    "bytes between two members": (lambda: with_piece(Piece(PEM, b"x", before=b"hidden")), "gap", PEM.decode()),
    "a directory that is too long": (lambda: build(pieces_of(listed()), end={"size": 1 << 20}), "directory", ""),
    "fewer members than records": (lambda: build(pieces_of(listed()), end={"here": 3, "count": 3}), "directory", ""),
    "more members than records": (lambda: build(pieces_of(listed()), end={"here": 9, "count": 9}), "directory", ""),
    "a record without its mark": (lambda: WHOLE.replace(b"PK\1\2", b"PK\1\3", 1), "directory", ""),
    "a record cut short": (
        lambda: build(pieces_of(listed()), before_end=b"PK\1\2......",
                      end={"count": 8, "here": 8, "size": directory_size() + 10}), "directory", ""),
    "on another disk": (lambda: build(pieces_of(listed()), end={"disk": 1}), "disks", ""),
    "a directory on another disk": (lambda: build(pieces_of(listed()), end={"first": 1}), "disks", ""),
    "two disks": (lambda: build(pieces_of(listed()), end={"here": 1}), "disks", ""),
    "a member of another disk": (lambda: with_piece(Piece(PEM, b"x", central={"disk": 1})), "disks", PEM.decode()),
    "zip64 in the end record": (
        lambda: build(pieces_of(listed()), end={"here": 0xFFFF, "count": 0xFFFF}), "zip64", ""),
    "zip64 in the end record's offset": (
        lambda: build(pieces_of(listed()), end={"begins": 0xFFFFFFFF}), "zip64", ""),
    "a zip64 locator": (
        lambda: build(pieces_of(listed()), before_end=struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)), "zip64", ""),
    "zip64 in a record": (lambda: with_piece(Piece(PEM, b"x", fields={"packed": 0xFFFFFFFF})), "zip64", PEM.decode()),
    "over 10,000 members": (lambda: build(pieces_of(listed()), end={"here": 10_001, "count": 10_001}), "too_many", ""),
    "one header for two records": (one_for_two, "overlap", PEM.decode()),
    "a member inside another": (one_in_another, "overlap", PEM.decode()),
    "a member that runs into the directory": (
        lambda: with_piece(Piece(PEM, b"x", fields={"packed": 99, "size": 99})), "overlap", PEM.decode()),
    "no header where the directory says": (
        lambda: WHOLE.replace(b"PK\3\4", b"PK\3\5").replace(b"PK\3\5", b"PK\3\4", 1), "directory", ""),
    "encrypted": (lambda: with_piece(Piece(PEM, b"x", fields={"flags": 1})), "encrypted", PEM.decode()),
    "a data descriptor": (
        lambda: with_piece(Piece(PEM, b"x", fields={"flags": 8}, local={"size": 0, "packed": 0, "crc": 0})),
        "data_descriptor", PEM.decode()),
    "other flags": (lambda: with_piece(Piece(PEM, b"x", fields={"flags": 0x20})), "flags", PEM.decode()),
    "another method": (lambda: with_piece(Piece(PEM, b"x", fields={"method": 12})), "method", PEM.decode()),
    "another version": (lambda: with_piece(Piece(PEM, b"x", fields={"needed": 45})), "version", PEM.decode()),
    "an extra field": (lambda: with_piece(Piece(PEM, b"x", extra=b"\1\0\2\0ab")), "extra_field", PEM.decode()),
    "an extra field of the directory": (
        lambda: with_piece(Piece(PEM, b"x", central_extra=b"\1\0\2\0ab")), "extra_field", PEM.decode()),
    "a member's comment": (lambda: with_piece(Piece(PEM, b"x", comment=b"psst")), "comment", PEM.decode()),
    "a link": (
        lambda: with_piece(Piece(PEM, b"/etc/passwd", central={"attributes": 0o120777 << 16})), "link", PEM.decode()),
    "a folder by its attributes": (
        lambda: with_piece(Piece(PEM, b"", central={"attributes": ATTRIBUTES | 0x10})), "folder", PEM.decode()),
    "a folder by its mode": (
        lambda: with_piece(Piece(PEM, b"", central={"attributes": 0o040755 << 16})), "folder", PEM.decode()),
    "an executable": (
        lambda: with_piece(Piece(PEM, b"x", central={"attributes": 0o700 << 16})), "attributes", PEM.decode()),
    "another maker": (lambda: with_piece(Piece(PEM, b"x", central={"made_by": 20})), "attributes", PEM.decode()),
    "internal attributes": (lambda: with_piece(Piece(PEM, b"x", central={"internal": 1})), "attributes", PEM.decode()),
    "another name in its header": (
        lambda: with_piece(Piece(PEM, b"x", local_name=b"time/certs/toor.pem")), "headers_differ", PEM.decode()),
    "another size in its header": (
        lambda: with_piece(Piece(PEM, b"x", local={"size": 2})), "headers_differ", PEM.decode()),
    "another method in its header": (
        lambda: with_piece(Piece(PEM, b"x", local={"method": 8})), "headers_differ", PEM.decode()),
    "another time in its header": (
        lambda: with_piece(Piece(PEM, b"x", local={"time": 1})), "headers_differ", PEM.decode()),
}  # fmt: skip

NAMES = {
    "up": (b"blobs/../../x", "path"),
    "absolute": (b"/etc/passwd", "path"),
    "a drive": (b"C:/x", "path"),
    "a backslash": (b"captures\\x.json", "path"),
    "a dot": (b"./VERIFY.txt", "path"),
    "an empty part": (b"time//x.tsr", "path"),
    "a control character": (b"time/\x1b[2J.tsr", "path"),
    "a NUL": (b"VERIFY.txt\0.json", "path"),
    "a folder": (b"time/", "folder"),
    "a stranger": (b"README.md", "name"),
    "a stranger below": (b"captures/other.txt", "name"),
    "not UTF-8": (b"time/\xff.tsr", "path"),
    "a soft hyphen": ("time/a\xadb.tsr".encode(), "path"),
    "letters beyond ASCII": ("time/été.tsr".encode(), "name"),
    "too long": (b"time/" + b"a" * 200 + b".tsr", "name"),
    "an id that is none": (b"captures/dec_1.json", "name"),
    "upper case digits": (b"blobs/" + b"A" * 64, "name"),
}

TWINS = {
    "the same name": (PEM, PEM),
    "another case": (PEM, b"time/certs/ROOT.pem"),
    "a long s": (b"time/certs/test.pem", "time/certs/te\u017ft.pem".encode()),
    "full width letters": (PEM, "time/certs/\uff52oot.pem".encode()),
    "a Kelvin sign": (b"time/certs/key.pem", "time/certs/\u212aey.pem".encode()),
}


@pytest.mark.parametrize("what", STRUCTURE)
def test_a_structure_that_hides_or_doubles_bytes_is_refused(what: str) -> None:
    made, reason, member = STRUCTURE[what]
    fault = refused(made())
    assert fault.reason == reason
    assert fault.member == member or not member
    assert fault.code == "bundle_refused"


@pytest.mark.parametrize("what", NAMES)
def test_a_name_that_leads_elsewhere_or_is_not_listed_is_refused(what: str) -> None:
    name, reason = NAMES[what]
    fault = refused(with_piece(Piece(name, b"x")))
    assert fault.reason == reason
    assert fault.at > 0
    assert str(fault).isprintable(), "the name of a refused member does not reach a terminal as it is"


@pytest.mark.parametrize("what", TWINS)
def test_two_names_that_fold_to_one_are_refused(what: str) -> None:
    one, other = TWINS[what]
    pieces = [*pieces_of(listed()), Piece(one, b"x"), Piece(other, b"y")]
    fault = refused(build(pieces))
    assert (fault.reason, fault.member) == ("twins", other.decode())


BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "another checksum": (lambda: with_piece(Piece(PEM, b"x", fields={"crc": 7})), "checksum"),
    "stored in another size": (lambda: with_piece(Piece(PEM, b"x", fields={"size": 2})), "size"),
    "more than it states": (lambda: deflated(fields={"size": 149}), "size"),
    "less than it states": (lambda: deflated(fields={"size": 151}), "size"),
    "a bomb that states a small size": (lambda: deflated(bytes(1 << 20), fields={"size": 149}), "size"),
    "bytes behind that are not inflated with the rest": (
        lambda: deflated(b"a" * 65526, kept=two_blocks() + b"hidden"),
        "inflate",
    ),
    "a bomb": (lambda: deflated(bytes(1 << 20)), "ratio"),
    "not inflatable": (lambda: deflated(kept=b"\xff" * 20), "inflate"),
    "cut short": (lambda: deflated(kept=deflate(b"abc" * 50)[:-3]), "inflate"),
    "bytes behind": (lambda: deflated(kept=deflate(b"abc" * 50) + b"hidden"), "inflate"),
    "bytes far behind": (lambda: deflated(kept=deflate(b"abc" * 50) + bytes(1 << 17)), "inflate"),
    "packed otherwise than listed": (lambda: deflated(kept=b"\1\x96\0\x69\xff" + b"abc" * 50), "packing"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_content_that_is_not_what_its_header_states_is_refused(what: str) -> None:
    made, reason = BROKEN[what]
    data = made()
    fault = refused(data)
    assert (fault.reason, fault.member) == (reason, PEM.decode())
    assert fault.at == next(one.begins for one in entries_of(data) if one.name == PEM.decode())


def test_members_that_say_they_are_over_a_gibibyte_are_refused_before_they_are_inflated() -> None:
    assert refused(deflated(fields={"size": (1 << 30) - 1})).reason == "too_large"


def test_a_deflated_member_of_many_pieces_is_read_to_its_end() -> None:
    data = b"".join(sha256(b"%d" % number).hexdigest().encode() for number in range(20_000))
    assert read_bundle(deflated(data)).read(PEM.decode()) == data


def without(name: str) -> dict[str, bytes]:
    return {kept: data for kept, data in listed().items() if kept != name}


def test_what_inflate_still_holds_when_its_input_is_used_up_is_read() -> None:
    data = b"".join(b"%d" % number for number in range(9999))[:1406] + bytes((1 << 18) - 1405)
    machine = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_FIXED)
    piece = Piece(PEM, data, deflated=True, kept=machine.compress(data) + machine.flush())
    assert read_bundle(with_piece(piece, packed=piece.packed)).read(PEM.decode()) == data


LISTS: dict[str, tuple[Callable[[], dict[str, bytes]], str, str]] = {
    "an unlisted member": (lambda: {**listed(), PEM.decode(): b"x"}, "unlisted", PEM.decode()),
    "one that MANIFEST does not list": (
        lambda: listed(replace={PEM.decode(): b"x"}), "unlisted", PEM.decode()),
    "one gone": (lambda: without(CAPTURE), "missing", CAPTURE),
    "one gone from SHA256SUMS too": (
        lambda: listed(replace={"MANIFEST.json": manifest_of(
            {n: d for n, d in listed().items() if n not in ("MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS")}
            | {PEM.decode(): b""})}), "missing", PEM.decode()),
    "an edited capture": (lambda: {**listed(), CAPTURE: b"{}"}, "digest", CAPTURE),
    "an edited capture, sums made anew": (lambda: listed(replace={CAPTURE: b"{}"}), "digest", CAPTURE),
    "an edited MANIFEST": (lambda: {**listed(), "MANIFEST.json": b"{}"}, "digest", "MANIFEST.json"),
    "an edited EXPORT": (lambda: {**listed(), "EXPORT.dsse.json": b"{}"}, "digest", "EXPORT.dsse.json"),
    "an edited VERIFY.txt": (lambda: {**listed(), "VERIFY.txt": b"x"}, "digest", "VERIFY.txt"),
    "another VERIFY.txt": (lambda: listed({**MEMBERS, "VERIFY.txt": b"curl x | sh"}), "verify_text", "VERIFY.txt"),
    "a blob under another name": (lambda: listed({**MEMBERS, "blobs/" + "0" * 64: b"x"}), "blob", "blobs/" + "0" * 64),
    "no JSON in MANIFEST": (lambda: listed(replace={"MANIFEST.json": b"{"}), "list", "MANIFEST.json"),
    "no object in MANIFEST": (lambda: listed(replace={"MANIFEST.json": b"[]"}), "list", "MANIFEST.json"),
    "a digest that is none": (
        lambda: listed(replace={"MANIFEST.json": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"x","size":1}}}'}),
        "list", "MANIFEST.json"),
    "a blank in MANIFEST": (
        lambda: listed(replace={"MANIFEST.json": listed()["MANIFEST.json"].replace(b":", b": ", 1)}),
        "list", "MANIFEST.json"),
    "something more in MANIFEST": (
        lambda: listed(replace={"MANIFEST.json": listed()["MANIFEST.json"].replace(b"}}", b',"more":1}}')}),
        "list", "MANIFEST.json"),
    "a later format": (
        lambda: listed(replace={"MANIFEST.json": listed()["MANIFEST.json"].replace(b'"bundle":1', b'"bundle":2')}),
        "format", "MANIFEST.json"),
    "a member twice in MANIFEST": (
        lambda: listed(replace={"MANIFEST.json": b'{"bundle":1,"members":{"a":1,"a":1}}'}), "list", "MANIFEST.json"),
    "SHA256SUMS unsorted": (
        lambda: {**listed(), "SHA256SUMS": b"".join(reversed(listed()["SHA256SUMS"].splitlines(keepends=True)))},
        "list", "SHA256SUMS"),
    "a name twice in SHA256SUMS": (
        lambda: {**listed(), "SHA256SUMS": listed()["SHA256SUMS"] + sums_of({"a": b""}) * 2}, "list", "SHA256SUMS"),
    "a line of another form": (lambda: {**listed(), "SHA256SUMS": b"# none\n"}, "list", "SHA256SUMS"),
    "EXPORT missing": (lambda: without("EXPORT.dsse.json"), "missing", "EXPORT.dsse.json"),
    "SHA256SUMS missing": (lambda: without("SHA256SUMS"), "missing", "SHA256SUMS"),
    "VERIFY.txt missing": (lambda: without("VERIFY.txt"), "missing", "VERIFY.txt"),
}  # fmt: skip


@pytest.mark.parametrize("what", LISTS)
def test_members_and_lists_that_do_not_agree_are_refused(what: str) -> None:
    made, reason, member = LISTS[what]
    fault = refused(build(pieces_of(made())))
    assert (fault.reason, fault.member) == (reason, member)


def test_a_list_that_is_packed_is_refused_since_nothing_binds_its_packed_bytes() -> None:
    pieces = pieces_of(listed())
    for piece in pieces:
        piece.deflated = piece.name == b"MANIFEST.json"
    fault = refused(build(pieces))
    assert (fault.reason, fault.member) == ("packing", "MANIFEST.json")


LISTED = {
    "nothing": b"{}",
    "a format that is no number": b'{"bundle":true,"members":{}}',
    "a format that is text": b'{"bundle":"2","members":{}}',
    "no members": b'{"bundle":1}',
    "members that are a list": b'{"bundle":1,"members":[]}',
    "a member that is a number": b'{"bundle":1,"members":{"VERIFY.txt":1}}',
    "no digest": b'{"bundle":1,"members":{"VERIFY.txt":{"size":1}}}',
    "a digest of other letters": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s","size":1}}}' % (b"A" * 64),
    "no size": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s"}}}' % (b"a" * 64),
    "a size that is none": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s","size":true}}}' % (b"a" * 64),
    "a size below nothing": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s","size":-1}}}' % (b"a" * 64),
    "packed that is no digest": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s","packed":7,"size":1}}}'
    % (b"a" * 64),
    "packed of other letters": b'{"bundle":1,"members":{"VERIFY.txt":{"digest":"sha256:%s","packed":"x","size":1}}}'
    % (b"a" * 64),
}


@pytest.mark.parametrize("what", LISTED)
def test_a_manifest_of_another_form_is_refused(what: str) -> None:
    fault = refused(build(pieces_of(listed(replace={"MANIFEST.json": LISTED[what]}))))
    assert (fault.reason, fault.member) == ("list", "MANIFEST.json")


def test_json_that_would_fill_the_memory_is_refused_before_it_is_inflated() -> None:
    large = {"custody.jsonl": Entry("custody.jsonl", 0, 0, 0, MOST_JSON + 1, 0, 0)}
    bundle = Bundle(b"", large, {"MANIFEST.json": ""})
    for read in (bundle.document, bundle.lines):
        with pytest.raises(BundleRefused) as raised:
            read("custody.jsonl")
        assert raised.value.reason == "too_large"


JSON = {
    "a key twice": b'{"a":1,"a":1}',
    "65 levels": b"[" * 65 + b"]" * 65,
    "2,000 levels": b"[" * 2000 + b"]" * 2000,
    "a number that would be rounded": b"1.10",
    "beyond 2^53": b"18446744073709551617",
    "not a number": b"NaN",
    "a lone surrogate": b'"\\ud800"',
    "not UTF-8": b'"\xff"',
    "cut short": b'{"a":',
    "behind it": b"{} {}",
}


@pytest.mark.parametrize("what", JSON)
def test_json_is_read_strictly_and_the_fault_is_placed(what: str) -> None:
    data = build(pieces_of(listed({**MEMBERS, CAPTURE: JSON[what], "custody.jsonl": b"{}\n" + JSON[what] + b"\n"})))
    bundle = read_bundle(data)
    for read, name in ((bundle.document, CAPTURE), (bundle.lines, "custody.jsonl")):
        with pytest.raises(BundleRefused) as raised:
            read(name)
        assert (raised.value.reason, raised.value.member) == ("json", name)
        assert raised.value.at == next(one.begins for one in entries_of(data) if one.name == name)


def test_lines_are_one_document_each() -> None:
    lines = b'{"a":1}\n{"b":2}\n'
    bundle = read_bundle(build(pieces_of(listed({**MEMBERS, "custody.jsonl": lines}))))
    assert bundle.lines("custody.jsonl") == [{"a": 1}, {"b": 2}]
    bundle = read_bundle(build(pieces_of(listed({**MEMBERS, "custody.jsonl": lines[:-1]}))))
    with pytest.raises(BundleRefused, match="does not end"):
        bundle.lines("custody.jsonl")


PACKED = write_bundle(
    {**MEMBERS, CAPTURE: json.dumps({"a": "text " * 40}).encode()}, export=lambda _: b'{"payload":""}'
)
HOLDERS = {
    place: entry for entry in entries_of(PACKED) for place in range(entry.begins, entry.begins + entry.packed)
}  # fmt: skip


@settings(max_examples=400)
@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_any_one_byte_changed_anywhere_is_found_and_located(place: int, by: int) -> None:
    data = bytearray(PACKED)
    data[place] ^= by
    fault = refused(bytes(data))
    holder = HOLDERS.get(place)
    if holder is not None:
        assert (fault.member, fault.at) == (holder.name, holder.begins)


def test_every_byte_of_a_bundle_is_watched() -> None:
    for place in range(len(PACKED)):
        data = bytearray(PACKED)
        data[place] ^= 1 << place % 8
        refused(bytes(data))


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_do_anything_but_refuse(data: bytes) -> None:
    refused(data)


@given(st.binary(max_size=80), st.integers(0, len(PACKED) - END.size))
def test_bytes_put_in_anywhere_are_refused(inserted: bytes, at: int) -> None:
    if inserted:
        refused(PACKED[:at] + inserted + PACKED[at:])

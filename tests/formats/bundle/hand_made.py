"""Bundles made by hand, one defect at a time: everything else about them is right.

`Piece` is a member with every field of its headers; `build` puts pieces together; `listed` adds the lists that a whole
bundle has, so that a reader reaches the defect and nothing before it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tachograph.formats.bundle.published import VERIFY_TEXT
from tachograph.formats.bundle.structure import ATTRIBUTES, CENTRAL, END, LOCAL, MADE_BY

ID = "dec_01HZY3X5Q8R7W6V5T4S3R2Q1P0"
CAPTURE = f"captures/{ID}.json"
BLOB = b"exact bytes"
BLOB_NAME = f"blobs/{sha256(BLOB).hexdigest()}"
MEMBERS = {CAPTURE: b'{"version":"replay/v1"}', BLOB_NAME: BLOB, "log/checkpoint": b"a checkpoint\n"}


@dataclass
class Piece:
    """A member. `local` and `central` replace fields in one header alone, by name."""

    name: bytes
    data: bytes
    deflated: bool = False
    kept: bytes | None = None
    at: int | None = None
    fields: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    central: dict[str, int] = field(default_factory=dict)
    local_name: bytes | None = None
    extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    before: bytes = b""

    @property
    def packed(self) -> bytes:
        if self.kept is not None:
            return self.kept
        return deflate(self.data) if self.deflated else self.data

    def shared(self) -> dict[str, int]:
        return {
            "needed": 20, "flags": 0, "method": 8 if self.deflated else 0, "time": 0, "day": 33,
            "crc": zlib.crc32(self.data), "packed": len(self.packed), "size": len(self.data), **self.fields,
        }  # fmt: skip


def deflate(data: bytes) -> bytes:
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    return machine.compress(data) + machine.flush()


def build(
    pieces: list[Piece], *, between: bytes = b"", before_end: bytes = b"", end: Mapping[str, int] | None = None
) -> bytes:
    """Return a file of these pieces. `end` replaces fields of the end record."""
    out, directory = bytearray(), bytearray()
    for piece in pieces:
        out += piece.before
        local, central = {**piece.shared(), **piece.local}, {**piece.shared(), **piece.central}
        at = len(out) if piece.at is None else piece.at
        name = piece.name if piece.local_name is None else piece.local_name
        directory += CENTRAL.pack(
            b"PK\1\2", central.get("made_by", MADE_BY), central["needed"], central["flags"], central["method"],
            central["time"], central["day"], central["crc"], central["packed"], central["size"], len(piece.name),
            len(piece.central_extra), len(piece.comment), central.get("disk", 0), central.get("internal", 0),
            central.get("attributes", ATTRIBUTES), at,
        )  # fmt: skip
        directory += piece.name + piece.central_extra + piece.comment
        if piece.at is None:
            out += LOCAL.pack(
                b"PK\3\4", local["needed"], local["flags"], local["method"], local["time"], local["day"], local["crc"],
                local["packed"], local["size"], len(name), len(piece.extra),
            )  # fmt: skip
            out += name + piece.extra + piece.packed
    out += between
    said = {
        "disk": 0,
        "first": 0,
        "here": len(pieces),
        "count": len(pieces),
        "size": len(directory),
        "begins": len(out),
    }
    said |= {"comment": 0, **(end or {})}
    return bytes(out + directory + before_end + END.pack(b"PK\5\6", *said.values()))


def manifest_of(members: Mapping[str, bytes], packed: Mapping[str, bytes] | None = None) -> bytes:
    listed: dict[str, Any] = {}
    for name, data in members.items():
        listed[name] = {"digest": "sha256:" + sha256(data).hexdigest(), "size": len(data)}
        if packed is not None and name in packed:
            listed[name]["packed"] = "sha256:" + sha256(packed[name]).hexdigest()
    return json.dumps({"bundle": 1, "members": listed}, sort_keys=True, separators=(",", ":")).encode()


def sums_of(members: Mapping[str, bytes]) -> bytes:
    return "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in sorted(members.items())).encode()


def listed(
    members: Mapping[str, bytes] = MEMBERS,
    *,
    packed: Mapping[str, bytes] | None = None,
    replace: Mapping[str, bytes] | None = None,
) -> dict[str, bytes]:
    """Return members with the lists of a whole bundle. What `replace` holds is put in before SHA256SUMS is made."""
    whole = {"VERIFY.txt": VERIFY_TEXT, **members}
    whole["MANIFEST.json"] = manifest_of(whole, packed)
    whole["EXPORT.dsse.json"] = b'{"payload":""}'
    whole |= replace or {}
    return {"SHA256SUMS": sums_of(whole), **whole}


def pieces_of(whole: Mapping[str, bytes]) -> list[Piece]:
    return [Piece(name.encode(), data) for name, data in whole.items()]


def with_piece(piece: Piece, packed: bytes | None = None) -> bytes:
    """Return a bundle in which one member more stands, listed as it should be, in the last place.

    `packed`: the deflated bytes that are listed (default: as deflate makes them).
    """
    name = piece.name.decode("utf-8", "backslashreplace")
    whole = listed(
        {**MEMBERS, name: piece.data}, packed={name: packed or deflate(piece.data)} if piece.deflated else None
    )
    del whole[name]
    return build([*pieces_of(whole), piece])

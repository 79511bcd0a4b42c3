"""Writes a bundle: the same members give the same bytes, with the same zlib.

Members are sorted by name, all of one time (the first that the format knows), stored where deflate gains nothing or
would pass the reader's 200:1. The three lists and EXPORT are stored, and MANIFEST binds how the others are packed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256

from tachograph.canonical import digest
from tachograph.formats.bundle.listing import Listed, write_manifest, write_sums
from tachograph.formats.bundle.names import EXPORT, IN_EVERY, MANIFEST, SUMS, VERIFY, check_name, check_twins
from tachograph.formats.bundle.published import VERIFY_TEXT
from tachograph.formats.bundle.structure import (
    ATTRIBUTES,
    CENTRAL,
    CENTRAL_MARK,
    DEFLATED,
    END,
    END_MARK,
    LOCAL,
    LOCAL_MARK,
    MADE_BY,
    MOST_BYTES,
    MOST_MEMBERS,
    STORED,
)
from tachograph.formats.bundle.unpacking import MOST_RATIO

_NEEDED = 20
_DAY, _TIME = 1 << 5 | 1, 0  # 1980-01-01 00:00:00


def write_bundle(members: Mapping[str, bytes], *, export: Callable[[str], bytes]) -> bytes:
    """Return a bundle of these members, with VERIFY.txt, MANIFEST.json, EXPORT.dsse.json and SHA256SUMS made here.

    `export` gets the digest of MANIFEST.json (`sha256:` and 64 digits) and returns the signed statement. Raises
    BundleRefused for names that a reader would refuse, ValueError for too many members or too many bytes, or for one
    that is made here.
    """
    if not members.keys().isdisjoint(IN_EVERY):
        raise ValueError(f"{', '.join(IN_EVERY)} are made by the bundle itself")
    check_twins((name, 0) for name in members)
    for name in members:
        check_name(name, 0)
    if len(members) + len(IN_EVERY) > MOST_MEMBERS:
        raise ValueError(f"a bundle has at most {MOST_MEMBERS} members: export fewer captures into each")
    contents = {**members, VERIFY: VERIFY_TEXT}
    packed = {name: _packed(data) for name, data in contents.items()}
    listed = {name: _listed(data, packed[name]) for name, data in contents.items()}
    contents[MANIFEST] = write_manifest(listed)
    contents[EXPORT] = export(digest(contents[MANIFEST]))
    contents[SUMS] = write_sums({name: sha256(data).hexdigest() for name, data in contents.items()})
    if sum(map(len, contents.values())) > MOST_BYTES:
        raise ValueError(f"a bundle holds at most {MOST_BYTES} bytes: export fewer captures into each")
    return _zipped(contents, packed)


def _packed(data: bytes) -> bytes | None:
    """Return the deflated bytes, or None where it is better stored."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    made = machine.compress(data) + machine.flush()
    return made if len(made) < len(data) <= MOST_RATIO * len(made) else None


def _listed(data: bytes, packed: bytes | None) -> Listed:
    return Listed(sha256(data).hexdigest(), len(data), "" if packed is None else sha256(packed).hexdigest())


def _zipped(contents: Mapping[str, bytes], packed: Mapping[str, bytes | None]) -> bytes:
    out, directory = bytearray(), bytearray()
    for name in sorted(contents):
        data, text = contents[name], name.encode("ascii")
        small = packed.get(name)
        method, kept = (STORED, data) if small is None else (DEFLATED, small)
        fields = (_NEEDED, 0, method, _TIME, _DAY, zlib.crc32(data), len(kept), len(data), len(text), 0)
        directory += CENTRAL.pack(CENTRAL_MARK, MADE_BY, *fields, 0, 0, 0, ATTRIBUTES, len(out)) + text
        out += LOCAL.pack(LOCAL_MARK, *fields) + text + kept
    begins = len(out)
    out += directory
    out += END.pack(END_MARK, 0, 0, len(contents), len(contents), len(directory), begins, 0)
    return bytes(out)

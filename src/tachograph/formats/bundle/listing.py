"""The two lists in a bundle: MANIFEST.json, whose digest EXPORT signs, and SHA256SUMS for `sha256sum -c`. Pure.

MANIFEST is the RFC 8785 form of `{"bundle": 1, "members": {name: {"digest", "size", "packed"?}}}`. `packed` is the
digest of a deflated member's bytes as they lie in the file: the same content can be deflated in many ways, and without
it a byte could be changed that nobody would miss. A bundle that is unpacked and stored anew is still the same bundle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tachograph.canonical import NotCanonical, canonical, read_exact
from tachograph.formats.bundle.names import MANIFEST, NOT_IN_MANIFEST, SUMS
from tachograph.formats.bundle.refused import BundleRefused

FORMAT = 1
_LINE = re.compile(r"([0-9a-f]{64})  ([\x21-\x7e]+)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Listed(NamedTuple):
    """What is listed of a member: the 64 digits of its SHA-256, its size in bytes, those of its packed bytes or ""."""

    digest: str
    size: int
    packed: str = ""


def write_manifest(members: Mapping[str, Listed]) -> bytes:
    """Return MANIFEST.json of these members; those that it does not name are passed over."""
    listed: dict[str, Any] = {}
    for name, one in members.items():
        if name not in NOT_IN_MANIFEST:
            listed[name] = {"digest": f"sha256:{one.digest}", "size": one.size}
            if one.packed:
                listed[name]["packed"] = f"sha256:{one.packed}"
    return canonical({"bundle": FORMAT, "members": listed})


def read_manifest(data: bytes, at: int) -> dict[str, Listed]:
    """Read MANIFEST.json, which begins at byte `at` of the file. Raises BundleRefused."""
    try:
        read = read_exact(data)
    except NotCanonical as fault:
        raise _refused(MANIFEST, f"it is not read as JSON ({fault.reason})", at) from None
    if not isinstance(read, dict) or type(read.get("bundle")) is not int or not isinstance(read.get("members"), dict):
        raise _refused(MANIFEST, "it has not the members that it should have", at)
    if read["bundle"] != FORMAT:
        what = f"format {read['bundle']}, of which this version knows nothing: take a later one"
        raise BundleRefused(what, reason="format", member=MANIFEST, at=at)
    members = {name: _listed(one) for name, one in read["members"].items()}
    found = {name: one for name, one in members.items() if one is not None}
    if write_manifest(found) != data:  # what is no digest and size is left out of it, too
        raise _refused(MANIFEST, "it is not written as a manifest is", at)
    return found


def _listed(one: Any) -> Listed | None:
    if not isinstance(one, dict):
        return None
    digest, size, packed = one.get("digest"), one.get("size"), one.get("packed", "")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
        return None
    if packed != "" and (not isinstance(packed, str) or not _DIGEST.fullmatch(packed)):
        return None
    return Listed(digest[7:], size, packed[7:])


def write_sums(digests: Mapping[str, str]) -> bytes:
    """Return SHA256SUMS of these members but itself: 64 digits, two blanks, a name; sorted by name."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests) if name != SUMS).encode("ascii")


def read_sums(data: bytes, at: int) -> dict[str, str]:
    """Read SHA256SUMS, which begins at byte `at` of the file: 64 digits by name. Raises BundleRefused."""
    found: dict[str, str] = {}
    for line in data.decode("latin-1").split("\n")[:-1]:
        read = _LINE.fullmatch(line)
        if read is None:
            raise _refused(SUMS, f"no line of a digest and a name: {ascii(line)[:200]}", at)
        found[read[2]] = read[1]
    if write_sums(found) != data:
        raise _refused(SUMS, "its lines are not sorted, or one name stands twice", at)
    return found


def _refused(member: str, what: str, at: int) -> BundleRefused:
    return BundleRefused(what, reason="list", member=member, at=at)

"""Reads a bundle that anybody may have made: never unpacked to a disk, no network, nothing forgiven.

The order of the checks is that in which a liar is told best: the file's structure (`structure`), each member's content
against its header (`unpacking`), the members against SHA256SUMS and then against MANIFEST (what is not listed, what is
missing, what has another digest), how each is packed, names that say what is in them, and the published VERIFY.txt.

What is left to whoever verifies: that EXPORT signs this MANIFEST (`Bundle.manifest_digest`), every signature, and what
the members mean. JSON is parsed when it is asked for, since a payload is believed only after its signature.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tachograph.canonical import NotCanonical, read_exact
from tachograph.formats.bundle.listing import Listed, read_manifest, read_sums
from tachograph.formats.bundle.names import IN_EVERY, MANIFEST, NOT_IN_MANIFEST, SUMS, VERIFY, ids_of
from tachograph.formats.bundle.published import PUBLISHED
from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.bundle.structure import DEFLATED, LONGEST_FILE, Entry, entries_of
from tachograph.formats.bundle.unpacking import content

MOST_JSON = 128 << 20
"""Bytes of a JSON member: a value takes up to some 25 times its text in memory, and larger content is a blob."""


class Bundle:
    """A bundle that passed every check of the container. Its members are inflated when they are read."""

    def __init__(self, data: bytes, entries: Mapping[str, Entry], digests: Mapping[str, str]) -> None:
        self._data, self._entries, self._digests = data, entries, digests
        self.names = tuple(sorted(entries))
        self.manifest_digest = "sha256:" + digests[MANIFEST]

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str) -> bytes:
        """Return a member's bytes. Raises KeyError for none."""
        return b"".join(content(self._data, self._entries[name]))

    def digest(self, name: str) -> str:
        """Return `sha256:` and the digest of a member's bytes. Raises KeyError for none."""
        return "sha256:" + self._digests[name]

    def document(self, name: str) -> Any:
        """Return a JSON member's value, read strictly: no key twice, 64 levels, no number that would be rounded.

        Raises KeyError for no such member, BundleRefused.
        """
        if self._entries[name].size > MOST_JSON:
            raise self.refused(name, f"JSON of over {MOST_JSON} bytes", "too_large")
        return self._parsed(name, self.read(name))

    def lines(self, name: str) -> list[Any]:
        """Return the values of a member that holds one JSON document a line. Raises KeyError, BundleRefused."""
        if self._entries[name].size > MOST_JSON:
            raise self.refused(name, f"JSON of over {MOST_JSON} bytes", "too_large")
        data = self.read(name)
        if data and not data.endswith(b"\n"):
            raise self.refused(name, "its last line does not end", "json")
        return [self._parsed(name, line) for line in data.split(b"\n")[:-1]]

    def _parsed(self, name: str, data: bytes) -> Any:
        try:
            return read_exact(data)
        except NotCanonical as fault:
            raise self.refused(name, f"it is not read as JSON ({fault.reason})", "json") from None

    def refused(self, name: str, what: str, reason: str) -> BundleRefused:
        """Return the refusal of a member's content, placed where it begins in the file."""
        return BundleRefused(what, reason=reason, member=name, at=self._entries[name].begins)

    @property
    def captures(self) -> list[str]:
        """The ids of the captures, sorted."""
        return ids_of(self.names, "captures", ".json")

    @property
    def envelopes(self) -> list[str]:
        """The ids of the signed payloads, sorted: those of the captures, and those between them."""
        return ids_of(self.names, "envelopes", ".dsse.json")

    @property
    def blobs(self) -> list[str]:
        """The 64 digits of each blob."""
        return ids_of(self.names, "blobs", "")


def read_bundle(source: bytes | str | os.PathLike[str]) -> Bundle:
    """Read a bundle from bytes or from a file. Raises BundleRefused, OSError."""
    data = source if isinstance(source, bytes) else _read(source)
    entries = {entry.name: entry for entry in entries_of(data)}
    found = {name: _measured(data, entry) for name, entry in entries.items()}
    for name in IN_EVERY:
        if name not in entries:
            raise BundleRefused("it is not there", reason="missing", member=name, at=len(data))
    bundle = Bundle(data, entries, {name: one.digest for name, one in found.items()})
    listed = read_sums(bundle.read(SUMS), entries[SUMS].begins)
    _compare_names(bundle, listed, {SUMS}, SUMS, entries)
    for name, digest in listed.items():
        if found[name].digest != digest:
            raise bundle.refused(name, f"not the bytes that {SUMS} lists", "digest")
    manifest = read_manifest(bundle.read(MANIFEST), entries[MANIFEST].begins)
    _compare_names(bundle, manifest, NOT_IN_MANIFEST, MANIFEST, entries)
    for name, one in manifest.items():
        if found[name][:2] != one[:2]:
            raise bundle.refused(name, f"not the bytes that {MANIFEST} lists", "digest")
    _check_packing(bundle, entries, found, manifest)
    for digits in bundle.blobs:
        if found[f"blobs/{digits}"].digest != digits:
            raise bundle.refused(f"blobs/{digits}", "its name is not its digest", "blob")
    if found[VERIFY].digest not in PUBLISHED:
        raise bundle.refused(VERIFY, "not a text that was published", "verify_text")
    return bundle


def _read(path: str | os.PathLike[str]) -> bytes:
    with open(path, "rb") as file:
        return file.read(LONGEST_FILE + 1)  # one more than is taken: `entries_of` refuses it


def _measured(data: bytes, entry: Entry) -> Listed:
    """Inflate a member once; return its digest and size, and of a deflated one the digest of its packed bytes."""
    machine = sha256()
    for piece in content(data, entry):
        machine.update(piece)
    packed = ""
    if entry.method == DEFLATED:
        packed = sha256(memoryview(data)[entry.begins : entry.begins + entry.packed]).hexdigest()
    return Listed(machine.hexdigest(), entry.size, packed)


def _compare_names(
    bundle: Bundle, listed: Mapping[str, Any], but: set[str] | frozenset[str], where: str, entries: Mapping[str, Entry]
) -> None:  # fmt: skip
    for name in bundle.names:
        if name not in listed and name not in but:
            raise BundleRefused(f"{where} does not list it", reason="unlisted", member=name, at=entries[name].at)
    for name in sorted(listed):
        if name not in bundle:
            what = f"{where} lists it, and it is not there"
            raise BundleRefused(what, reason="missing", member=name, at=entries[where].begins)


def _check_packing(
    bundle: Bundle, entries: Mapping[str, Entry], found: Mapping[str, Listed], manifest: Mapping[str, Listed]
) -> None:
    for name, entry in entries.items():
        if entry.method == DEFLATED and found[name].packed != (manifest[name].packed if name in manifest else ""):
            raise bundle.refused(name, f"it is packed otherwise than {MANIFEST} lists", "packing")

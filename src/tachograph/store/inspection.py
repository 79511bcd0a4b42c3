"""What a store consists of: sizes, counts, and what was left behind.

For `doctor`. It changes nothing, needs no key, and decodes nothing: what lies in a damaged segment is told by reading.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tachograph.errors import DamagedStore
from tachograph.store import catalogue, keytable, lock
from tachograph.store.keyring import EPOCH, INTAKE, TAG, keys_folder
from tachograph.store.location import StoreFolder
from tachograph.store.segment_file import SEALED, read_identity
from tachograph.store.segments import SUFFIX

_FOREIGN = 0o077  # permission bits of group and others


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a store: how many files, how many bytes."""

    files: int
    size: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found. `leftovers` are files of interrupted steps (harmless); `faults` need somebody's attention."""

    parts: dict[str, Part]
    leftovers: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes altogether."""
        return sum(part.size for part in self.parts.values())


def inspect(store: StoreFolder, *, environ: Mapping[str, str]) -> Inspection:
    """Look at a store's files. Raises OSError where a folder cannot be listed."""
    leftovers: list[str] = []
    faults: list[str] = []
    parts = {
        "spool": _part(store.spool, ".spool", ".key"),
        "journal": _part(store.journal, ".journal"),
        "log": _folder(store.log),
        **_segments(store, faults),
        "keys": _file(store.path, keytable.NAME),
        "catalogue": _sum(_file(store.path, catalogue.NAME + ending) for ending in ("", "-wal", "-shm")),
        "lock": _file(store.path, lock.NAME),
    }
    for folder in (store.path, store.segments, store.journal):
        leftovers += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".new")]
    parent, name = os.path.split(store.path)
    leftovers += [
        os.path.join(parent, other)
        for other in sorted(os.listdir(parent))
        if other.startswith(name + ".") and other.endswith(".new")
    ]
    faults += [f"{path} may be read by others; chmod go= it" for path in _exposed(store, environ)]
    faults += [
        f"{os.path.join(store.spool, name)}: recording failed while this was written; what follows it is missing"
        for name in sorted(os.listdir(store.spool))
        if name.endswith(".gap.key")
    ]
    return Inspection(parts, leftovers, faults)


def _segments(store: StoreFolder, faults: list[str]) -> dict[str, Part]:
    found: dict[str, list[int]] = {"segments sealed": [], "segments open": []}
    for name in sorted(os.listdir(store.segments)):
        if not name.endswith(SUFFIX):
            continue
        path = os.path.join(store.segments, name)
        try:
            with open(path, "rb") as file:
                identity, _ = read_identity(path, file.read(256))
        except DamagedStore as fault:
            faults.append(str(fault))
            continue
        kind = "segments sealed" if identity.kind == SEALED else "segments open"
        found[kind].append(os.path.getsize(path))
    return {kind: Part(len(sizes), sum(sizes)) for kind, sizes in found.items()}


def _exposed(store: StoreFolder, environ: Mapping[str, str]) -> Iterator[str]:
    folder = keys_folder(store.store_id, environ)
    for path in (store.path, *(os.path.join(folder, name) for name in (EPOCH, INTAKE, TAG))):
        if os.path.exists(path) and os.stat(path).st_mode & _FOREIGN:
            yield path


def _part(folder: str, *endings: str) -> Part:
    return _sum(_file(folder, name) for name in os.listdir(folder) if name.endswith(endings))


def _folder(folder: str) -> Part:
    return _sum(_file(at, name) for at, _, names in os.walk(folder) for name in names)


def _file(folder: str, name: str) -> Part:
    path = os.path.join(folder, name)
    return Part(1, os.path.getsize(path)) if os.path.exists(path) else Part(0, 0)


def _sum(parts: Iterator[Part]) -> Part:
    every = list(parts)
    return Part(sum(part.files for part in every), sum(part.size for part in every))

"""What waits in the spool: the runs whose processes have all ended, with their files.

A run is left alone while any process still holds one of its files. A file that cannot be read at all is named and kept
where it is: nothing is destroyed that was not sealed. A process that began to record when the others had ended and been
sealed is a run of its own, which says where it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from tachograph.errors import DamagedStore
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.identity import is_id, mint, minted_at_ms
from tachograph.store.spool import HEADER_SIZE, is_live
from tachograph.store.spool_reading import KEPT, Reading, read_spool

SPOOL, MARKER, LISTENERS = ".spool", ".bypassed", ".listeners"
_SMALL = 1 << 20  # bytes: a file that is read at once, however many there are


@dataclass
class Run:
    """One run's files in the spool. `apart_from` is the run that these processes belong to, if it was sealed before.

    `passing`: what its processes told each other while they ran, and nobody needs when they have ended.
    """

    run_id: str
    files: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)
    passing: list[str] = field(default_factory=list)
    apart_from: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether a process of this run still records."""
        return any(is_live(path) for path in self.files)


@dataclass
class Spooled:
    """A run's files as read. `unreadable` says, in words, which could not be; `empty` ones never had a frame."""

    readings: list[Reading]
    unreadable: list[str]
    read: list[str]
    empty: list[str]


def runs(folder: str) -> list[Run]:
    """Return the runs that have files in a spool folder, oldest first (ids sort by time)."""
    found: dict[str, Run] = {}
    for name in sorted(os.listdir(folder)):
        run_id = name.partition(".")[0]
        if not is_id(run_id, "run"):
            continue
        run = found.setdefault(run_id, Run(run_id))
        if name.endswith(SPOOL):
            run.files.append(os.path.join(folder, name))
        elif name.endswith(MARKER):
            run.markers.append(os.path.join(folder, name))
        elif name.endswith(LISTENERS):
            run.passing.append(os.path.join(folder, name))
    return [run for run in found.values() if run.files]


def stem(path: str) -> str:
    """Return the name by which the journal knows a spool file."""
    return os.path.basename(path)[: -len(SPOOL)]


def apart(run: Run, files: Sequence[str]) -> Run:
    """Return the late files of a run as a run of their own; the same files always get the same id."""
    chance = sha256("\0".join([run.run_id, *map(stem, files)]).encode()).digest()[:10]
    run_id = mint("run", at_ms=minted_at_ms(run.run_id), chance=chance)
    return Run(run_id, list(files), run.markers, run.passing, apart_from=run.run_id)


def read_run(run: Run, *, private: bytes, growing: bool = False) -> Spooled:
    """Read every file of a run with intake's private key. `growing`: its processes may be writing right now."""
    readings, unreadable, read, empty = [], [], [], []
    left = KEPT
    for path in run.files:
        size = os.path.getsize(path)
        if size < HEADER_SIZE:
            empty.append(path)  # its process was killed before it wrote anything, or makes it just now
            continue
        try:
            readings.append(read_spool(path, private=private, growing=growing, keep=max(left, _SMALL)))
            read.append(path)
            left -= size if size <= left else 0
        except DamagedStore as fault:
            unreadable.append(str(fault))
    return Spooled(readings, unreadable, read, empty)


def marked(run: Run, *, after_ns: int) -> list[fr.Frame]:
    """Return notes about the processes that left word that they could not be watched."""
    frames = []
    for place, path in enumerate(run.markers, 1):
        with open(path, encoding="utf-8", errors="replace") as file:
            said = {"what": "bypassed.process", "detail": file.read()}
        frames.append(fr.Frame(fr.NOTE, 0, 0, 0, 0, 0, after_ns + place, b"", values.encode(said)))
    return frames

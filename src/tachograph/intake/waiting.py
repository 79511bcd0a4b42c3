"""What waits in the spool: the runs whose processes have all ended, with their files.

A run is left alone while any process still holds one of its files. A file that cannot be read at all is named and kept
where it is: nothing is destroyed that was not sealed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from tachograph.errors import DamagedStore
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.identity import is_id
from tachograph.store.spool import Reading, is_live, read_spool


@dataclass
class Run:
    """One run's files in the spool."""

    run_id: str
    files: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        """Whether a process of this run still records."""
        return any(is_live(path) for path in self.files)


@dataclass
class Spooled:
    """A run's files as read: `unreadable` says, in words, which could not be, `kept` which must stay."""

    readings: list[Reading]
    unreadable: list[str]
    read: list[str]


def runs(folder: str) -> list[Run]:
    """Return the runs that have files in a spool folder, oldest first (ids sort by time)."""
    found: dict[str, Run] = {}
    for name in sorted(os.listdir(folder)):
        run_id = name.partition(".")[0]
        if not is_id(run_id, "run"):
            continue
        run = found.setdefault(run_id, Run(run_id))
        if name.endswith(".spool"):
            run.files.append(os.path.join(folder, name))
        elif name.endswith(".bypassed"):
            run.markers.append(os.path.join(folder, name))
    return [run for run in found.values() if run.files]


def read_run(run: Run, *, private: bytes) -> Spooled:
    """Read every file of a run with intake's private key."""
    readings, unreadable, read = [], [], []
    for path in run.files:
        try:
            readings.append(read_spool(path, private=private))
            read.append(path)
        except DamagedStore as fault:
            unreadable.append(str(fault))
    return Spooled(readings, unreadable, read)


def marked(run: Run, *, after_ns: int) -> list[fr.Frame]:
    """Return notes about the processes that left word that they could not be watched."""
    frames = []
    for place, path in enumerate(run.markers, 1):
        with open(path, encoding="utf-8", errors="replace") as file:
            said = {"what": "bypassed.process", "detail": file.read()}
        frames.append(fr.Frame(fr.NOTE, 0, 0, 0, 0, 0, after_ns + place, b"", values.encode(said)))
    return frames

"""Decisions of a run that still goes on: which may be sealed now, and what of the run is sealed already.

A server runs for weeks, and whoever is called at night asks for its decisions while it runs. Whenever the sealer comes
by, it seals those that have ended. Guarantees:

- only a decision that is closed, of which no effect is under way, is sealed, and only where nothing of its run is
  damaged;
- the numbers in what was sealed hold for ever: each such sealing notes, in the first record of its batch, how many
  records of each spool file it had read (an *epoch*, see `intake.gather`);
- what a decision still did after it was sealed is not lost: it is sealed with the run's own record, in its own domain;
- no spool file is touched before its run has ended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tachograph.errors import DamagedStore
from tachograph.formats import frame as fr
from tachograph.intake import waiting
from tachograph.intake.gather import Gathered, gather
from tachograph.intake.logs import Log, split
from tachograph.store.entry import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tachograph.store.catalogue import Row
    from tachograph.store.journal import Journal

MOST_BYTES = 64 << 20  # of a running program's spool: reading it takes a second, and each command reads it anew


@dataclass
class Progress:
    """What is sealed of a run: per epoch how many records of each spool file were read, and each decision's epoch."""

    epochs: list[dict[str, int]] = field(default_factory=list)
    sealed: dict[str, int] = field(default_factory=dict)

    def of_readings(self, stems: list[str]) -> list[dict[int, int]]:
        """Return the epochs by the places of these spool files."""
        return [{place: epoch[stem] for place, stem in enumerate(stems) if stem in epoch} for epoch in self.epochs]


def progress(rows: Iterable[Row], journal: Journal) -> Progress:
    """Read from the journal what is sealed of a run; `rows` are its decisions, oldest first. Raises DamagedStore."""
    found = Progress()
    for row in rows:
        sources = journal.at(row.file, row.at).entry.sources
        if sources:
            found.epochs.append({source.spool: source.last + 1 for source in sources})
        found.sealed[row.decision] = len(found.epochs) - 1
    return found


def sources_of(spooled: waiting.Spooled) -> tuple[Source, ...]:
    """Return which records of which spool files were read, those of which nothing was read left out."""
    pairs = zip(spooled.read, spooled.readings, strict=True)
    return tuple(Source(waiting.stem(path), 0, reading.numbers[-1]) for path, reading in pairs if reading.numbers)


def gathered_so_far(run: waiting.Run, *, private: bytes, known: Progress) -> tuple[waiting.Spooled, Gathered]:
    """Read and number a run that may still go on."""
    spooled = waiting.read_run(run, private=private, growing=True)
    stems = [waiting.stem(path) for path in spooled.read]
    return spooled, gather(spooled.readings, unreadable=spooled.unreadable, epochs=known.of_readings(stems))


def is_too_large(run: waiting.Run) -> bool:
    """Say whether a running program has left so much that its decisions have to wait for its end."""
    return sum(os.path.getsize(path) for path in run.files) > MOST_BYTES


def ended_decisions(run: waiting.Run, gathered: Gathered, known: Progress) -> list[Log]:
    """Return the run's own log, then those of the decisions that may be sealed now; nothing where there are none."""
    closed = {head.decision for head in gathered.frames.heads() if head.kind == fr.CLOSE}
    if not closed or gathered.damage:
        return []
    under_way = _under_way(gathered)
    logs = split(run.run_id, gathered)
    ready = [
        log
        for log in logs[1:]
        if log.number in closed and log.decision_id not in known.sealed and log.number not in under_way
    ]  # fmt: skip
    return [logs[0], *ready] if ready else []


def _under_way(gathered: Gathered) -> set[int]:
    """Return the decisions in which an effect has begun and not ended."""
    begun: dict[int, int] = {}
    for head in gathered.frames.heads():
        if head.kind in fr.STARTS and head.kind != fr.LAPSED:
            begun[head.effect] = head.decision
        elif head.kind in fr.ENDS:
            begun.pop(head.effect, None)
    return set(begun.values())


def late(logs: list[Log], gathered: Gathered, known: Progress) -> list[Log]:
    """Return what decisions did after they had been sealed, each in a log of its own."""
    found = []
    for log in logs:
        epoch = known.sealed.get(log.decision_id or "", -1)
        if not log.is_run and 0 <= epoch < len(gathered.bounds):
            rest = log.later_than(gathered.bounds[epoch])
            if rest is not None:
                found.append(rest)
    return found


def own_log(folder: str, run_id: str, *, private: bytes, known: Progress) -> list[bytes]:
    """Return the own log of a run that has not ended, in parts, as it is now.

    Raises DamagedStore where the spool has nothing of it.
    """
    run = next((run for run in waiting.runs(folder) if run.run_id == run_id), None)
    if run is None:
        raise DamagedStore(f"{run_id}: its decisions are in the journal, its own record is not, nor is it in the spool")
    _, gathered = gathered_so_far(run, private=private, known=known)
    return [part.data for part in split(run_id, gathered)[0].parts()]

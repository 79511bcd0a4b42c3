"""The catalogue, asked: it says where to look, and what is given comes from the journal.

The catalogue is a file that SQLite believes, byte by byte; the journal is a chain of digests. Invariants:

- every row that leaves here was read from the journal record that it names, and is that record's decision;
- a catalogue that differs from the journal, cannot be read, or does not know what the journal knows is made anew in
  memory, and `notes` says so; the next sealer makes the one on disk anew;
- a list can still miss a row whose index entry was damaged and nothing else: `tacho doctor --rebuild` finds it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tachograph.errors import DamagedStore, NotFound
from tachograph.store.catalogue import Catalogue, Query, Row
from tachograph.store.entry import CAPTURE
from tachograph.store.journal import Journal

T = TypeVar("T")


class Index:
    """A store's catalogue, opened to be read and caught up with its journal. Raises DamagedStore."""

    def __init__(self, store: str, journal: Journal) -> None:
        self._journal = journal
        self._catalogue = Catalogue(store, write=False)
        self._catalogue.catch_up(journal)

    @property
    def notes(self) -> list[str]:
        """What was wrong with the catalogue, in words."""
        return self._catalogue.repaired

    def rows(self, query: Query) -> list[Row]:
        """Return the decisions that fit, newest first. Raises DamagedStore."""
        return self._checked(lambda: [self._vouched(row) for row in self._catalogue.rows(query)])

    def find(self, prefix: str) -> Row:
        """Return the decision with that id or the one id that begins so. Raises NotFound, DamagedStore."""
        try:
            return self._checked(lambda: self._vouched(self._catalogue.find(prefix)))
        except NotFound:
            if self._journal.find(prefix).entry.kind != CAPTURE:  # raises NotFound as well, where that is the truth
                raise
        self._anew(f"it does not know {prefix}")
        return self._vouched(self._catalogue.find(prefix))

    def last(self) -> Row:
        """Return the newest decision of the newest run. Raises NotFound, DamagedStore."""
        return self._checked(lambda: self._vouched(self._catalogue.last()))

    def close(self) -> None:
        """Close the catalogue."""
        self._catalogue.close()

    def _vouched(self, row: Row) -> Row:
        record = self._journal.at(row.file, row.at)
        entry = record.entry
        place = record.file, record.at, entry.places
        listed = replace(entry.summary, first_seen=())  # they stand in a table of their own
        told = Row(record.sequence, entry.decision, entry.run, entry.domain, *place, listed)
        if told != row:
            raise _Differs(f"its row of {row.decision} is not what the journal says")
        return told

    def _checked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except NotFound:
            raise
        except (_Differs, DamagedStore, sqlite3.Error, ValueError, TypeError) as fault:
            self._anew(str(fault))
        return ask()

    def _anew(self, why: str) -> None:
        self._catalogue.rebuild(self._journal)
        self.notes[-1:] = [f"{self._catalogue.path}: {why}; the index was made anew from the journal"]


class _Differs(Exception):
    """The catalogue says something else than the journal."""

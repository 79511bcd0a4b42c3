"""The catalogue: an SQLite index by which decisions are listed and found, made from the journal and from nothing else.

Invariants:

- everything in it can be rebuilt; how far it has read the journal is kept in the transaction that adds what was read
  (capture-v1 rule 5 (f)), so that it is never ahead of itself nor behind unnoticed;
- if it is damaged, of another format, or made from another journal, it is thrown away and made anew, and that is said;
- it holds no content and no name of a person: tags, and titles encrypted under each decision's secret;
- a store that cannot be written to is listed all the same, from a copy in memory.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from tachograph.errors import DamagedStore, NotFound
from tachograph.store.entry import CAPTURE
from tachograph.store.journal import START, Exchanged, Journal, Position, Record
from tachograph.store.segments import Place
from tachograph.store.summary import Summary

NAME = "catalogue.db"
_FORMAT = 2
# What SQLite says when the disk is full, fails or may not be written: the index is sound, there is only no place for it
_OF_THE_DISK = {
    sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_READONLY: errno.EROFS, sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES, sqlite3.SQLITE_BUSY: errno.EBUSY,
}  # fmt: skip
_BATCH = 512  # journal records per transaction while catching up: 90,000 rows a second, measured
_SCHEMA = """
CREATE TABLE state (format INTEGER, file INTEGER, at INTEGER, sequence INTEGER, digest BLOB);
CREATE TABLE decision (
    sequence INTEGER PRIMARY KEY, id TEXT, run TEXT, domain BLOB, file INTEGER, at INTEGER,
    agent TEXT, captured_at INTEGER, level TEXT, reason TEXT, effects INTEGER, model_calls INTEGER, tool_calls INTEGER,
    stop_reason TEXT, exit_code INTEGER, failed INTEGER, failure TEXT, user_tag TEXT, session_tag TEXT, title BLOB
);
CREATE TABLE place (
    segment BLOB, item INTEGER, sequence INTEGER, nth INTEGER, PRIMARY KEY (segment, item, sequence)
) WITHOUT ROWID;
CREATE TABLE tool (name TEXT, sequence INTEGER, PRIMARY KEY (name, sequence)) WITHOUT ROWID;
CREATE TABLE version (family TEXT, tag TEXT, number INTEGER, PRIMARY KEY (family, tag)) WITHOUT ROWID;
CREATE INDEX by_id ON decision (id);
CREATE INDEX by_run ON decision (run);
CREATE INDEX by_time ON decision (captured_at);
CREATE INDEX by_agent ON decision (agent, captured_at);
CREATE INDEX by_user ON decision (user_tag, captured_at) WHERE user_tag IS NOT NULL;
CREATE INDEX by_session ON decision (session_tag, captured_at) WHERE session_tag IS NOT NULL;
CREATE INDEX by_failure ON decision (captured_at) WHERE failed;
CREATE INDEX place_of ON place (sequence);
CREATE INDEX tool_of ON tool (sequence);
"""
_COLUMNS = (
    "sequence, id, run, domain, file, at, agent, captured_at, level, reason, effects, model_calls, tool_calls, "
    "stop_reason, exit_code, failed, failure, user_tag, session_tag, title"
)


class Row(NamedTuple):
    """One decision as it is listed, and where its journal record begins."""

    sequence: int
    decision: str
    run: str
    domain: bytes
    file: int
    at: int
    places: tuple[Place, ...]
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which decisions to list. What is None does not matter.

    `before` is (captured_at_ms, sequence) of the row that the page before ended with.
    """

    failed: bool | None = None
    agent: str | None = None
    run: str | None = None
    user_tag: str | None = None
    session_tag: str | None = None
    since_ms: int | None = None
    tool: str | None = None
    before: tuple[int, int] | None = None
    limit: int = 20

    def clauses(self) -> tuple[str, list[object]]:
        """Return the WHERE clause and its values."""
        wanted: list[tuple[str, tuple[object, ...]]] = []
        if self.failed is not None:
            wanted.append(("failed" if self.failed else "NOT failed", ()))
        for column in ("agent", "run", "user_tag", "session_tag"):
            if getattr(self, column) is not None:
                wanted.append((f"{column} = ?", (getattr(self, column),)))
        if self.since_ms is not None:
            wanted.append(("captured_at >= ?", (self.since_ms,)))
        if self.tool is not None:
            wanted.append(("sequence IN (SELECT sequence FROM tool WHERE name = ?)", (self.tool,)))
        if self.before is not None:
            wanted.append(("(captured_at, sequence) < (?, ?)", self.before))
        text = " AND ".join(clause for clause, _ in wanted) or "1"
        return text, [value for _, values in wanted for value in values]


class Catalogue:
    """The index of one store."""

    def __init__(self, store: str, *, write: bool) -> None:
        """Open `<store>/catalogue.db`, made if need be; without `write` a copy in memory stands in for it."""
        self.path = os.path.join(store, NAME)
        self.repaired: list[str] = []
        self._write = write
        self._base: sqlite3.Connection
        try:
            self._base = self._opened()
            self._prepare()
        except sqlite3.DatabaseError as fault:
            self._restart(fault)

    def _opened(self) -> sqlite3.Connection:
        if self._write:
            base = sqlite3.connect(self.path, isolation_level=None, timeout=30)
            os.chmod(self.path, 0o600)
            base.execute("PRAGMA journal_mode = WAL")
            base.execute("PRAGMA synchronous = NORMAL")  # it can be rebuilt: losing its last second costs nothing
            return base
        base = sqlite3.connect(":memory:", isolation_level=None)
        waiting = self.path + "-wal"
        if os.path.exists(self.path) and not (os.path.exists(waiting) and os.path.getsize(waiting)):
            # Where a log waits to be taken in, the file alone may be half of something: the journal is read instead.
            file = sqlite3.connect(f"file:{self.path.replace('?', '%3f').replace('#', '%23')}?immutable=1", uri=True)
            try:
                file.backup(base)
            finally:
                file.close()
        return base

    def _prepare(self) -> None:
        if not self._base.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
            self._base.execute("BEGIN IMMEDIATE")
            if not self._base.execute("SELECT 1 FROM sqlite_master WHERE name = 'state'").fetchone():
                for statement in _SCHEMA.split(";"):
                    self._base.execute(statement)
                self._base.execute("INSERT INTO state VALUES (?, ?, ?, ?, ?)", (_FORMAT, *START))
            self._base.execute("COMMIT")
        version = self._base.execute("SELECT format FROM state").fetchone()
        if version is None or version[0] != _FORMAT:
            self._restart(f"format {version and version[0]} is not this version's ({_FORMAT})")

    def _restart(self, fault: Exception | str) -> None:
        """Throw the index away and begin an empty one; `catch_up` fills it. Raises OSError for what is no damage."""
        if isinstance(fault, sqlite3.Error) and fault.sqlite_errorcode & 0xFF in _OF_THE_DISK:
            number = _OF_THE_DISK[fault.sqlite_errorcode & 0xFF]
            if number == errno.EIO and not os.statvfs(os.path.dirname(self.path)).f_bavail:
                number = errno.ENOSPC  # said of a full disk too, where it was the memory map that did not fit
            raise OSError(number, str(fault), self.path) from fault
        why = f"{self.path}: {fault}"
        self.repaired.append(f"{why}; the index was made anew from the journal")
        if hasattr(self, "_base"):
            self._base.close()
        if self._write:
            for ending in ("", "-wal", "-shm"):
                if os.path.exists(self.path + ending):
                    os.unlink(self.path + ending)
            self._base = self._opened()
        else:
            self._base = sqlite3.connect(":memory:", isolation_level=None)
        self._prepare()

    @property
    def position(self) -> Position:
        """How far the journal has been read."""
        return Position(*self._base.execute("SELECT file, at, sequence, digest FROM state").fetchone())

    def catch_up(self, journal: Journal) -> int:
        """Take in what the journal holds behind the index's position; return how many records that were.

        Any process may do this at any time. Raises DamagedStore where the journal is not what was written; what lies
        before the damage is listed.
        """
        try:
            if journal.ends_at(self.position):  # so that a list need not wait for the sealer's transaction
                return 0
            return self._catch_up(journal)
        except sqlite3.DatabaseError as fault:
            self._restart(fault)
        except Exchanged as fault:
            if not self.position.sequence:
                raise
            self._restart(f"does not fit the journal ({fault})")
        return self._catch_up(journal)

    def _catch_up(self, journal: Journal) -> int:
        taken = 0
        while True:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                count = self._take_in(journal.records(self.position))
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:  # SQLite has rolled back itself where the disk is full
                    self._base.execute("ROLLBACK")
                raise
            taken += count
            if not count:
                return taken

    def _take_in(self, records: Iterator[Record]) -> int:
        """Add up to a batch of records. Where the journal is damaged behind some, these are added first."""
        batch: list[Record] = []
        try:
            for record in islice(records, _BATCH):
                batch.append(record)
        except DamagedStore:
            if not batch:
                raise
        rows = [_row(record) for record in batch if record.entry.kind == CAPTURE]
        self._base.executemany(f"INSERT OR REPLACE INTO decision VALUES ({', '.join('?' * 20)})", rows)
        self._base.executemany(
            "INSERT OR IGNORE INTO place VALUES (?, ?, ?, ?)",
            [
                (bytes.fromhex(place.segment), place.item, record.sequence, nth)
                for record in batch
                for nth, place in enumerate(record.entry.places)
            ],
        )
        self._base.executemany(
            "INSERT OR IGNORE INTO tool VALUES (?, ?)",
            [(name, record.sequence) for record in batch for name in record.entry.summary.tools],
        )
        self._base.executemany(
            "INSERT OR IGNORE INTO version VALUES (?, ?, ?)",
            [tuple(one.split(":")) for record in batch for one in record.entry.summary.first_seen],
        )
        if batch:
            position = batch[-1].position
            self._base.execute("UPDATE state SET file = ?, at = ?, sequence = ?, digest = ?", position)
        return len(batch)

    def rebuild(self, journal: Journal) -> int:
        """Make the index anew; return how many records it took in. Raises as `catch_up` does."""
        self._restart("asked for")
        return self._catch_up(journal)

    def rows(self, query: Query) -> list[Row]:
        """Return the decisions that fit, newest first."""
        clause, values = query.clauses()
        found = self._base.execute(
            f"SELECT {_COLUMNS} FROM decision WHERE {clause} ORDER BY captured_at DESC, sequence DESC LIMIT ?",
            (*values, query.limit),
        )
        return self._read(found.fetchall())

    def count(self, query: Query) -> int:
        """Return how many decisions fit (the limit does not matter)."""
        clause, values = query.clauses()
        return int(self._base.execute(f"SELECT count(*) FROM decision WHERE {clause}", values).fetchone()[0])

    def find(self, prefix: str) -> Row:
        """Return the decision with that id, or with the one id that begins so. Raises NotFound for none or several."""
        found = self._base.execute(
            f"SELECT {_COLUMNS} FROM decision WHERE id >= ? AND id < ? ORDER BY id, sequence DESC LIMIT 4",
            (prefix, prefix + "\uffff"),
        ).fetchall()
        ids = list(dict.fromkeys(columns[1] for columns in found))
        if len(ids) == 1 or (ids and ids[0] == prefix):
            return self._read(found[:1])[0]
        if not ids:
            raise NotFound(f"no decision has an id that begins with {prefix!r}; `tacho ls` lists them")
        raise NotFound(f"several decisions have an id that begins with {prefix!r} ({', '.join(ids)}): give more of it")

    def versions(self, family: str) -> dict[str, int]:
        """Return the number under which each tag of a family (the prompts of an agent) was first seen."""
        found = self._base.execute("SELECT tag, number FROM version WHERE family = ?", (family,))
        return {str(tag): int(number) for tag, number in found}

    def last(self) -> Row:
        """Return the newest decision of the newest run. Raises NotFound for an empty store."""
        found = self._base.execute(
            f"SELECT {_COLUMNS} FROM decision WHERE run = (SELECT max(run) FROM decision) "
            "ORDER BY captured_at DESC, sequence DESC LIMIT 1"
        ).fetchone()
        if found is None:
            raise NotFound("the store holds no decision yet; `tacho run` records one")
        return self._read([found])[0]

    def vouched(self, segment: str) -> int:
        """Return how many items of a segment the journal refers to: its highest item + 1."""
        found = self._base.execute("SELECT max(item) FROM place WHERE segment = ?", (bytes.fromhex(segment),))
        (highest,) = found.fetchone()
        return 0 if highest is None else int(highest) + 1

    def decisions_in(self, segment: str) -> list[str]:
        """Return the ids of the decisions whose content lies in a segment."""
        found = self._base.execute(
            "SELECT DISTINCT id FROM place JOIN decision USING (sequence) WHERE segment = ? ORDER BY sequence",
            (bytes.fromhex(segment),),
        )
        return [str(columns[0]) for columns in found]

    def close(self) -> None:
        """Close the index."""
        self._base.close()

    def _read(self, found: Sequence[Sequence[Any]]) -> list[Row]:
        rows: list[Row] = []
        for start in range(0, len(found), _BATCH):
            part = found[start : start + _BATCH]
            numbers = [columns[0] for columns in part]
            places: dict[int, list[Place]] = {number: [] for number in numbers}
            for sequence, segment, item in self._of(numbers, "sequence, segment, item FROM place", "sequence, nth"):
                places[sequence].append(Place(segment.hex(), item))
            tools: dict[int, list[str]] = {number: [] for number in numbers}
            for sequence, name in self._of(numbers, "sequence, name FROM tool", "sequence, name"):
                tools[sequence].append(name)
            for sequence, decision, run, domain, file, at, *facts in part:
                summary = _summary(facts, tuple(tools[sequence]))
                rows.append(Row(sequence, decision, run, domain, file, at, tuple(places[sequence]), summary))
        return rows

    def _of(self, numbers: list[int], what: str, order: str) -> sqlite3.Cursor:
        marks = ", ".join("?" * len(numbers))
        return self._base.execute(f"SELECT {what} WHERE sequence IN ({marks}) ORDER BY {order}", numbers)


def _summary(facts: Sequence[Any], tools: tuple[str, ...]) -> Summary:
    names = (
        "agent", "captured_at_ms", "level", "reason", "effects", "model_calls", "tool_calls", "stop_reason",
        "exit_code", "failed", "failure", "user_tag", "session_tag", "title",
    )  # fmt: skip
    values = dict(zip(names, facts, strict=True))
    values["failed"] = bool(values["failed"])
    return Summary(**values, tools=tools)


def _row(record: Record) -> tuple[object, ...]:
    entry = record.entry
    facts = entry.summary
    return (
        record.sequence, entry.decision, entry.run, entry.domain, record.file, record.at, facts.agent,
        facts.captured_at_ms, facts.level, facts.reason, facts.effects, facts.model_calls, facts.tool_calls,
        facts.stop_reason, facts.exit_code, int(facts.failed), facts.failure, facts.user_tag, facts.session_tag,
        facts.title,
    )  # fmt: skip

"""`Store`: one store, opened to be asked. Reading changes nothing in it; `take_in` seals what waits in its spool."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from time import time_ns
from typing import Any, Literal

from tachograph.errors import DamagedStore, KeyMissing, NotFound, Refused, StoreLocked, TachographError, UsageError
from tachograph.formats.answers import DecisionRow, DiffAnswer, DoctorAnswer, ReplayAnswer, ShowAnswer, VerifyAnswer
from tachograph.intake import early
from tachograph.intake.anchor import OlderThanAnchor
from tachograph.intake.masking import Credentials
from tachograph.intake.reading import Captured
from tachograph.intake.sealing import Sealer
from tachograph.intake.skeleton import rfc3339
from tachograph.intake.vouching import older_than_anchor
from tachograph.intake.waiting import runs
from tachograph.library import diagnosing, differing, documenting, exporting, showing, verifying
from tachograph.library.detailing import detail
from tachograph.library.exporting import Exported
from tachograph.library.index import Index
from tachograph.library.logs import Logs
from tachograph.library.matching import holds
from tachograph.library.replaying import replay_run
from tachograph.model.effect import Effect
from tachograph.model.identity import mint
from tachograph.replay.confinement.possible import AUTO, WAYS
from tachograph.store.catalogue import Query, Row
from tachograph.store.domains import DEFAULT_TENANT, tag
from tachograph.store.inspection import inspect
from tachograph.store.journal import Journal, Record
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import find_store, open_store
from tachograph.store.segments import ContentStore, Place
from tachograph.store.summary import open_title

LAST = "last"


class Store:
    """A store of captures.

    `path` names it; without one, TACHO_STORE or the nearest `.tachograph` upwards from the working folder is used.
    Raises UsageError where there is none, DamagedStore where it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        explicit = None if path is None else os.fspath(path)
        self._environ = os.environ
        self._folder = open_store(find_store(os.getcwd(), explicit, environ=self._environ), environ=self._environ)
        self._keyring = self._folder.keyring(self._environ)
        self.left: list[str] = []  # what the last `take_in` could not seal, in words
        self.warnings: list[str] = []  # what it found of the anchor: that it keeps more than there is, or nothing

    @property
    def path(self) -> Path:
        """The store's folder."""
        return Path(self._folder.path)

    def take_in(self) -> list[str]:
        """Seal what waits in the spool: the runs that have ended, and of the others the decisions that have.

        Returns the ids of the decisions sealed now.

        A store that cannot be written, or whose sealer is at work, is left as it is; so is one of which the anchor
        keeps more than there is, and `warnings` says so. Raises DamagedStore, OSError.
        """
        older = older_than_anchor(self._folder, self._environ)
        self.warnings = [older] if older is not None else []
        if not self._folder.writable or not (runs(self._folder.spool) or self.warnings):
            return []
        try:
            with Sealer(self._folder, environ=self._environ) as sealer:
                taken = sealer.take_in()
                self.left = sealer.left
                self.warnings = [sealer.anchor_fault] if sealer.anchor_fault is not None else []
                return taken
        except OlderThanAnchor as fault:
            self.warnings = [str(fault)]
            return []
        except StoreLocked:
            return []

    # -- lists

    def decisions(
        self, *, failed: bool = False, agent: str | None = None, user: str | None = None, session: str | None = None,
        since: datetime | None = None, tool: str | None = None, grep: str | None = None, limit: int = 20,
    ) -> list[DecisionRow]:  # fmt: skip
        """List decisions, newest first. `grep` opens each candidate's content and keeps those that hold the text."""
        query = Query(
            failed=True if failed else None,
            agent=agent,
            user_tag=self._tag("user", user),
            session_tag=self._tag("session", session),
            since_ms=None if since is None else int(since.timestamp() * 1000),
            tool=tool,
            limit=1_000_000 if grep else limit,
        )
        with _Opened(self._folder, self._keyring) as opened:
            rows = opened.catalogue.rows(query)
            if grep is not None:
                rows = [row for row in rows if holds(opened.captured(row), grep)][:limit]
            return [self._row(row, opened) for row in rows]

    def _tag(self, kind: str, text: str | None) -> str | None:
        return None if text is None else tag(self._keyring.tag, kind, DEFAULT_TENANT, text)

    def _row(self, row: Row, opened: _Opened) -> DecisionRow:
        summary = row.summary
        return DecisionRow(
            decisionId=row.decision, runId=row.run, agentId=summary.agent,
            capturedAt=rfc3339(summary.captured_at_ms * 1_000_000), captureLevel=summary.level, effects=summary.effects,
            modelCalls=summary.model_calls, toolCalls=summary.tool_calls, stopReason=summary.stop_reason,
            exitCode=summary.exit_code, failed=summary.failed, failure=summary.failure, title=opened.title(row),
        )  # fmt: skip

    # -- one decision

    def show(self, decision: str, *, grep: str | None = None) -> ShowAnswer:
        """Return a decision's timeline and context. `grep` says where a text stood. Raises NotFound, DamagedStore."""
        with _Opened(self._folder, self._keyring) as opened:
            row = opened.find(decision)
            captured = opened.captured(row)
            return showing.show(captured, self._row(row, opened), mask=self._masking(captured).masked_text, grep=grep)

    def effect(self, decision: str, number: int) -> dict[str, Any]:
        """Return one effect of a decision's run in full, as a JSON object. Raises NotFound, DamagedStore."""
        captured, effect = self._effect(decision, number)
        return detail(effect, mask=self._masking(captured).masked_text)

    def bytes(self, decision: str, number: int, *, side: Literal["request", "answer"] = "answer") -> bytes:
        """Return the exact bytes of one side of an effect.

        A credential of its headers is masked where the same value stands in them. Raises NotFound, DamagedStore.
        """
        captured, effect = self._effect(decision, number)
        sides = {"request": effect.body or effect.inputs, "answer": effect.answer or effect.value}
        return self._masking(captured).masked(sides[side])

    def _effect(self, decision: str, number: int) -> tuple[Captured, Effect]:
        with _Opened(self._folder, self._keyring) as opened:
            captured = opened.captured(opened.find(decision))
        found = next((effect for effect in captured.log.effects if effect.index == number), None)
        if found is None:
            raise NotFound(f"{captured.decision_id} has no effect {number}; `tacho show` lists them")
        return captured, found

    def _masking(self, captured: Captured) -> Credentials:
        return Credentials.of(captured.log, tag_key=self._keyring.tag)

    def diff(self, original: str, other: str) -> DiffAnswer:
        """Compare two decisions leaf by leaf. Raises NotFound, DamagedStore."""
        with _Opened(self._folder, self._keyring) as opened:
            return differing.diff(opened.captured(opened.find(original)), opened.captured(opened.find(other)))

    def replay(
        self, decision: str, *, cwd: str | os.PathLike[str] | None = None, command: Sequence[str] | None = None,
        alone: bool = False, pace: bool = False, confinement: str = AUTO,
    ) -> ReplayAnswer:  # fmt: skip
        """Run a decision's program again in a closed world and compare. Raises Refused, NotFound, DamagedStore.

        `alone`: call only the `@agent` function that opened the decision, or start the program and send it the inbound
        request that led there; which is done anyway where the program did not end by itself.
        `pace`: wait as long as the recorded program did, instead of not at all.
        `confinement` other than `auto` leaves a part of the world open, to show what the others hold alone: `kernel`,
        `namespaces` or `landlock` without the guard inside Python, `python` with nothing else. UsageError for others.
        """
        if confinement not in WAYS:
            raise UsageError(f"no confinement {confinement!r}: {', '.join(WAYS)}")
        with _Opened(self._folder, self._keyring) as opened:
            captured = opened.captured(opened.find(decision))
        replay_id = mint("rep", at_ms=time_ns() // 1_000_000, chance=os.urandom(10))
        return replay_run(
            captured, replay_id=replay_id, cwd=None if cwd is None else os.fspath(cwd), command=command,
            environ=self._environ, tag_key=self._keyring.tag, confinement=confinement, by_itself=alone, pace=pace,
        )  # fmt: skip

    # -- what a stranger can check

    def document(self, decision: str) -> dict[str, Any]:
        """Return the signed `replay/v1` document of a decision, digests in the places of its blobs.

        Raises NotFound, DamagedStore where what is kept no longer gives what was signed, Refused for a decision that
        was sealed before this store signed.
        """
        with _Opened(self._folder, self._keyring) as opened:
            record = opened.record(opened.find(decision))
            return documenting.document(opened.verifier(self._folder, self._environ), record)

    def verify(self, *decisions: str, trust: Sequence[str] = ()) -> VerifyAnswer:
        """Check decisions, or the whole store where none is named. `trust`: the signers that you know.

        A fault is an answer, not an exception. Raises NotFound, UsageError, KeyMissing.
        """
        with _Opened(self._folder, self._keyring) as opened:
            verifier = opened.verifier(self._folder, self._environ, trust)
            if not decisions:
                return verifying.whole_store(verifier)
            return verifying.answer_of(verifier, [opened.record(opened.find(one)) for one in decisions])

    def export(self, *decisions: str, scope: str) -> Exported:
        """Return a bundle of decisions for `operator`. What it gives away is signed and logged before this returns.

        Raises NotFound, DamagedStore, Refused for another scope or where the store cannot be written.
        """
        if not self._folder.writable:
            raise Refused(f"{self.path} cannot be written, and an export is logged first", reason="read_only")
        with _Opened(self._folder, self._keyring) as opened, Sealer(self._folder, environ=self._environ) as sealer:
            rows = {row.decision: row for row in map(opened.find, decisions)}
            records = [opened.record(row) for row in rows.values()]
            return exporting.export(
                opened.verifier(self._folder, self._environ), records, scope=scope, state=sealer.state,
                masking_of=lambda record: self._masking(opened.captured(rows[record.entry.decision])),
                secret_of=opened.secret,
            )  # fmt: skip

    # -- the store itself

    def doctor(self) -> DoctorAnswer:
        """Say what a recording here will see, and how the store is."""
        found = inspect(self._folder, environ=self._environ)
        problems = list(found.faults)
        try:
            with _Opened(self._folder, self._keyring) as opened:
                problems += opened.catalogue.notes
                opened.check()
        except TachographError as fault:
            problems.append(("damaged: " if isinstance(fault, DamagedStore) else "") + diagnosing.word_of(fault))
        leftovers = [
            f"{run.run_id} ({'still running' if run.is_live else 'waits to be sealed'})"
            for run in runs(self._folder.spool)
        ]
        leftovers += found.leftovers
        facts: dict[str, str | int | None] = {"path": self._folder.path, "bytes": found.size}
        facts.update({name: part.size for name, part in found.parts.items() if part.files})
        return diagnosing.diagnose(store_facts=facts, leftovers=leftovers, problems=problems)

    def rebuild(self) -> int:
        """Make the catalogue anew from the journal; return how many records it took in.

        Raises Refused where the store cannot be written, DamagedStore.
        """
        if not self._folder.writable:
            raise Refused(f"{self.path} cannot be written, so its catalogue cannot be made anew", reason="read_only")
        with Sealer(self._folder, environ=self._environ) as sealer:
            return sealer.rebuild()


class _Opened:
    """A store's parts, opened to be read."""

    def __init__(self, folder: Any, keyring: Any) -> None:
        self._spool, self._keyring = folder.spool, keyring
        self._journal = Journal(folder.journal)
        self.catalogue = Index(folder.path, self._journal)
        self._keys = KeyTable(folder.path, keyring)
        self._content = ContentStore(folder.segments, self._keys)

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._content.close()
        self._keys.close()
        self._journal.close()
        self.catalogue.close()

    def check(self) -> None:
        """Read the whole journal and the whole key table, as no single question does. Raises DamagedStore."""
        for _ in self._journal.records():
            continue
        self._keys.check()

    def find(self, name: str) -> Row:
        """Find a decision by id, unique prefix, or `last`. Raises NotFound."""
        if name == LAST:
            return self.catalogue.last()
        if len(name) >= 4 and name.isalnum() and name.isupper():
            name = f"dec_{name}"  # a ULID, or the beginning of one
        if not name.startswith("dec_"):
            raise UsageError(f"a decision is named by its id (dec_...), a unique prefix of it, or `last`, not {name!r}")
        return self.catalogue.find(name)

    def secret(self, decision: str) -> bytes:
        """Return a decision's secret. Raises KeyMissing where it was destroyed."""
        return self._keys.get(SECRET, decision.encode())

    def record(self, row: Row) -> Record:
        """Return a decision's journal record."""
        return self._journal.at(row.file, row.at)

    def verifier(self, folder: Any, environ: Any, trust: Sequence[str] = ()) -> verifying.StoreVerifier:
        """Read journal and logs for verification."""
        return verifying.StoreVerifier(
            folder, self._journal, self._keys, self._content, environ=environ, trust=trust
        )  # fmt: skip

    def title(self, row: Row) -> str:
        """Open a decision's title; what was erased has none."""
        try:
            secret = self._keys.get(SECRET, row.decision.encode())
        except KeyMissing:
            return ""
        return open_title(secret, row.decision, row.summary.title)

    def captured(self, row: Row) -> Captured:
        """Read a decision's run: its own log and those of its decisions.

        Raises DamagedStore naming decision and place.
        """
        logs = Logs(self._content, self._places(row))
        if _is_its_run(row):
            return Captured(row.decision, row.run, 0, logs)
        state = "sealed"
        try:
            self._journal.find(row.run)
        except NotFound:  # the run goes on: what belongs to it alone is in the spool
            known = early.progress(self._rows(row), self._journal)
            logs.more = early.own_log(self._spool, row.run, private=self._keyring.intake, known=known)
            state = "running"
        return Captured(row.decision, row.run, self._number(row, logs), logs, state=state)

    def _rows(self, row: Row) -> list[Row]:
        return self.catalogue.rows(Query(run=row.run, limit=1_000_000))[::-1]

    def _places(self, row: Row) -> Iterator[tuple[str, Place]]:
        for one in self._rows(row):
            for place in one.places:
                yield one.decision, place
        if not _is_its_run(row):
            try:
                record = self._journal.find(row.run)
            except NotFound:
                return
            for place in record.entry.places:
                yield row.run, place

    @staticmethod
    def _number(row: Row, logs: Logs) -> int:
        for about in logs.about:
            if about["decisionId"] == row.decision:
                return int(about["number"])
        raise DamagedStore(f"{row.decision} is in the journal, and none of its run's logs says so")


def _is_its_run(row: Row) -> bool:
    """Say whether a decision is its run: it then has the run's name."""
    return row.decision.partition("_")[2] == row.run.partition("_")[2]


def doctor_of(path: str | os.PathLike[str] | None = None) -> DoctorAnswer:
    """Say what a recording here will see, where there is no store yet too. Raises Refused, DamagedStore."""
    explicit = None if path is None else os.fspath(path)
    place = find_store(os.getcwd(), explicit, environ=os.environ)
    if explicit is None and not os.path.lexists(place):
        facts: dict[str, str | int | None] = {"path": None, "next": f"tacho run -- python agent.py  (makes {place})"}
        return diagnosing.diagnose(store_facts=facts, leftovers=[], problems=[])
    return Store(path).doctor()

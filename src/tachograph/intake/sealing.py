"""The sealer: what waits in the spool becomes sealed captures (contracts/capture-v1.md, rule 5).

One sealer per store, under an exclusive lock. Per run: (a) gather, read, assemble, commit; (b) content to its domain's
segment, wrapped keys to the key table, fsync; (c) number and sign, journal records, fsync: *now sealed*; (d) the leaves
of the log and (e) a checkpoint (`intake.vouching`); (f) the catalogue, with the journal position in the same
transaction; (g) the spool file's key, then the file. Starting up redoes (d) to (g) from the journal, so a crash between
any two steps loses nothing and seals nothing twice: a run's decisions come first in a batch and the run's own record
last, with the names of the spool files it was made from; whatever the journal has is left out. Decisions that end while
their run goes on are sealed meanwhile (`intake.early`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

from tachograph.errors import DamagedStore, FormatError, NotFound, Refused
from tachograph.formats import capture_v1
from tachograph.intake import early, signed, waiting
from tachograph.intake.anchor import Anchor, OlderThanAnchor
from tachograph.intake.document.assembling import assemble
from tachograph.intake.document.observed import Observed
from tachograph.intake.gather import NOTHING_KEPT, gather
from tachograph.intake.logs import Log, split
from tachograph.intake.masking import Credentials
from tachograph.intake.skeleton import Outline, outline
from tachograph.intake.versions import Versions
from tachograph.intake.vouching import EMPTY_LOG, Unsigned, Vouching
from tachograph.model.identity import minted_at_ms, with_prefix
from tachograph.store.catalogue import Catalogue, Query, Row
from tachograph.store.disk import DISK, Disk
from tachograph.store.domains import DEFAULT_TENANT, Domain, tag
from tachograph.store.entry import CAPTURE, RUN, Entry, Source
from tachograph.store.journal import Journal
from tachograph.store.keyring import Keyring
from tachograph.store.keytable import KEY_SIZE, SECRET, KeyTable
from tachograph.store.location import StoreFolder
from tachograph.store.lock import SealerLock
from tachograph.store.segments import ContentStore, Place
from tachograph.store.spool import destroy
from tachograph.store.summary import Summary, seal_title

WAIT_S = 10.0
MOST = 1_000_000  # decisions of one run
BATCH = 512  # decisions of one run that are described and signed at once: each takes 50 KB of memory until then
MOST_WAITING = 32 << 20  # bytes of memory that content takes until it is committed; see ContentStore.waiting


class _Described(NamedTuple):
    """A record before its content is stored, with the secret of its own and the logs that it will name.

    `after`: size and root of the newest checkpoint that was known when its run began.
    """

    entry: Entry
    secret: bytes
    logs: list[Log]
    payload: dict[str, Any]
    commitments: dict[str, str]
    tenant: str
    after: tuple[int, str]


class Sealer:
    """Seals what waits in one store's spool. Use it as a context: it holds the store's lock meanwhile."""

    def __init__(
        self,
        folder: StoreFolder,
        *,
        environ: Mapping[str, str],
        disk: Disk = DISK,
        wait_s: float = WAIT_S,
        batch: int = BATCH,
    ) -> None:
        """Take the lock and open the store to be written. `batch`: so many decisions of a run are sealed at once.

        Raises StoreLocked if another process seals for longer than `wait_s`, OlderThanAnchor, DamagedStore, KeyMissing,
        OSError.
        """
        self.left: list[str] = []
        self._fresh: dict[str, dict[str, int]] = {}  # prompts and schemas of the batch under way
        self._folder = folder
        self._disk = disk
        self._batch = batch
        self._keyring: Keyring = folder.keyring(environ)
        self._lock = SealerLock(folder.path).acquire(wait=wait_s)
        try:
            self._keys = KeyTable(folder.path, self._keyring, write=True, disk=disk)
            self._journal = Journal(folder.journal, write=True, disk=disk)
            self._catalogue = Catalogue(folder.path, write=True)
            self._catalogue.catch_up(self._journal)
            self._anchor = Anchor(environ, disk=disk)
            self._vouching = Vouching(folder, self._keyring, self._journal, anchor=self._anchor, disk=disk)
            self._content = ContentStore(folder.segments, self._keys, vouched=self._catalogue.vouched, disk=disk)
            self.repaired = [*self._journal.repaired, *self._catalogue.repaired]
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Sealer:
        return self

    def __exit__(self, *_: object) -> None:
        self._catalogue.close()
        self._content.close()
        self._vouching.close()
        self._journal.close()
        self._keys.close()
        self._lock.release()

    @property
    def anchor_fault(self) -> str | None:
        """Why the last checkpoint was not kept in the anchor folder; None where it was."""
        return self._anchor.fault

    def rebuild(self) -> int:
        """Make the catalogue anew from the journal; return how many records it took in. Raises DamagedStore."""
        return self._catalogue.rebuild(self._journal)

    def take_in(self) -> list[str]:
        """Seal every run whose processes have ended, and what decisions of the others have; return their ids.

        A run whose frames make no sense stays in the spool, is named in `left`, and keeps no other run waiting. Raises
        OSError where a write or fsync failed: what was not sealed is still in the spool. OlderThanAnchor, DamagedStore
        where a log would be begun a second time.
        """
        sealed: list[str] = []
        for run in waiting.runs(self._folder.spool):
            try:
                sealed += self._take_early(run) if run.is_live else self._take_in(run)
            except OlderThanAnchor:
                raise
            except (FormatError, Refused, LookupError, TypeError, ValueError, AttributeError) as fault:
                self._content.discard()
                self.left.append(f"{run.run_id} stays in the spool: {type(fault).__name__}: {fault}")
        return sealed

    def _take_in(self, run: waiting.Run) -> list[str]:
        run = self._not_sealed(run)
        spooled = waiting.read_run(run, private=self._keyring.intake)
        if not spooled.readings:
            return []  # nothing of it can be read: named by `doctor`, kept where it is
        rows = self._rows(run.run_id)
        known = early.progress(rows, self._journal)
        stems = [waiting.stem(path) for path in spooled.read]
        epochs = known.of_readings(stems)
        gathered = gather(spooled.readings, unreadable=spooled.unreadable, epochs=epochs)
        gathered.began_ns = gathered.began_ns or minted_at_ms(run.run_id) * 1_000_000  # killed before it could say
        gathered.tails += [NOTHING_KEPT for _ in spooled.empty]
        if run.apart_from:
            gathered.tails.append(f"sealed apart from {run.apart_from}, whose other processes had ended")
        frames = gathered.frames
        for frame in waiting.marked(run, after_ns=frames.at_ns(len(frames) - 1) if frames else 0):
            frames.append(frame)
        logs = split(run.run_id, gathered)
        read = early.sources_of(spooled)
        named = {source.spool for source in read}
        sources = (*read, *(Source(stem, 0, 0) for stem in stems if stem not in named))
        run_facts = logs[0].run_facts
        left = [log for log in logs[1:] if log.decision_id not in known.sealed]
        # Where not all of a run is sealed in one batch, each batch's first record says how far it had read: see
        # `early.progress`. The run's own record comes with the last.
        said = read if epochs or len(left) > self._batch else ()
        sealed: list[str] = []
        ending = [place for row in rows if _ends_with_run(row) for place in row.places]
        while len(left) > self._batch:
            batch, left = left[: self._batch], left[self._batch :]
            _note(self._seal_logs(batch, said, run_facts), sealed, ending)
        described = [self._entry(log, said if log is left[0] else (), run_facts) for log in left]
        if (logs[0].decision_id or run.run_id) not in known.sealed:  # last: it says that the run is whole
            own = self._entry(logs[0], sources, run_facts)
            described.append(own._replace(logs=[logs[0], *early.late(logs[1:], gathered, known)]))
        _note(self._seal([self._placed(one) for one in described]), sealed, ending)
        self._close_segments(ending)
        self._destroy([*run.passing, *spooled.read, *run.markers])
        return sealed

    def _take_early(self, run: waiting.Run) -> list[str]:
        if early.is_too_large(run):
            self.left.append(f"{run.run_id} still runs and has recorded much: its decisions are sealed when it ends")
            return []
        known = early.progress(self._rows(run.run_id), self._journal)
        spooled, gathered = early.gathered_so_far(run, private=self._keyring.intake, known=known)
        logs = early.ended_decisions(run, gathered, known)
        if not logs:
            return []
        sources, run_facts = early.sources_of(spooled), logs[0].run_facts
        entries = self._seal_logs(logs[1:], sources, run_facts)
        return [entry.decision for entry in entries if entry.kind == CAPTURE]

    def _seal_logs(self, logs: list[Log], sources: tuple[Source, ...], run_facts: dict[str, Any]) -> list[Entry]:
        """Seal decisions of a run whose own record comes later; the first says what had been read."""
        described = [self._entry(log, sources if log is logs[0] else (), run_facts) for log in logs]
        return self._seal([self._placed(one) for one in described])

    def _seal(self, batch: list[Unsigned]) -> list[Entry]:
        """Seal a batch whose content is stored; return its records, the store's own statements before them too."""
        if not batch:
            return []
        self._content.commit()
        entries = self._vouching.numbered(batch)
        try:
            self._journal.append_batch(entries)
        except OSError:
            self._vouching.forget()
            raise
        self._vouching.log_batch(entries)
        self._catalogue.catch_up(self._journal)
        self._fresh.clear()
        return entries

    def state(self, type: str, body: dict[str, Any]) -> tuple[Entry, bytes]:
        """Seal a statement of the store itself; return its record and the payload that was signed.

        Raises OSError: then nothing was stated.
        """
        previous = self._vouching.previous()
        (entry,) = self._seal([self._vouching.statement(type, body)])
        payload = signed.whole(entry, previous=previous, root=EMPTY_LOG[1], commitments={})
        if sha256(payload).digest() != entry.payload_digest:
            raise DamagedStore(f"{self._folder.path}: a statement was not sealed as it was meant")
        return entry, payload

    def _rows(self, run_id: str) -> list[Row]:
        return self._catalogue.rows(Query(run=run_id, limit=MOST))[::-1]

    def _not_sealed(self, run: waiting.Run) -> waiting.Run:
        """Return what of a run is not in the journal yet, the rest destroyed: a crash came between sealing and that.

        What a process of the run began to record only after the run had been sealed becomes a run of its own.
        """
        if not self._catalogue.count(Query(run=run.run_id)):
            return run
        stems = {waiting.stem(path): path for path in run.files}
        done = {source.spool for source in self._journal.sources(stems)}
        self._destroy([path for stem, path in stems.items() if stem in done])
        left = [path for stem, path in stems.items() if stem not in done]
        whole = self._is_sealed(run.run_id) or self._is_sealed(with_prefix(run.run_id, "dec"))
        return waiting.apart(run, left) if whole else replace(run, files=left)

    def _destroy(self, paths: Sequence[str]) -> None:
        for path in paths:
            if path.endswith(waiting.SPOOL):
                destroy(path, disk=self._disk)
            else:
                self._disk.remove(path)

    def _is_sealed(self, name: str) -> bool:
        try:
            self._journal.find(name)
        except NotFound:
            return False
        return True

    def _placed(self, described: _Described) -> Unsigned:
        """Store the logs of a record and return it with their places. What makes no sense was refused before."""
        places, entry = [], described.entry
        for log in described.logs:
            domain = _domain(log).id(self._keyring.tag)
            for part in log.parts():
                places.append(self._content.append(domain, part.data, part.cuts))
                if self._content.waiting > MOST_WAITING:
                    self._content.commit()  # nothing refers to it yet: if it stops here, the run is still in the spool
        self._keys.add(SECRET, entry.decision.encode(), entry.domain, described.secret)
        return Unsigned(
            replace(entry, places=tuple(places)), described.payload, described.commitments, described.tenant,
            described.after,
        )  # fmt: skip

    def _entry(self, log: Log, sources: tuple[Source, ...], run_facts: dict[str, Any]) -> _Described:
        tag_key = self._keyring.tag
        opened = log.opened
        tenant = _tenant(log)
        name = log.decision_id or log.run_id
        secret = os.urandom(KEY_SIZE)
        observed = Observed.of(log.frames(), log.about, number=log.number, names=log.names.values())
        failed = False
        if log.decision_id is None:
            summary = _no_summary(log)
        else:
            seen = outline(
                observed, run_id=log.run_id, decision_id=name, number=log.number, opened=opened,
                run=run_facts,
            )  # fmt: skip
            masking = Credentials.of(observed.log, tag_key=tag_key)
            summary, failed = self._summary(seen, name, tenant, secret, masking), "failure" in seen.payload
        versions = Versions(self._catalogue, tag_key, tenant, summary.agent, self._fresh)
        made = assemble(
            observed, run_id=log.run_id, decision_id=log.decision_id, opened=opened, run=run_facts, failed=failed,
            version_of=versions.of,
        )  # fmt: skip
        divided = capture_v1.divide(made.document, made.blobs, made.trees)
        commitments = capture_v1.commitments(divided.items, secret)
        payload, summary = divided.skeleton, replace(summary, first_seen=tuple(versions.first))
        entry = Entry(
            decision=name, run=log.run_id, domain=_domain(log).id(tag_key), payload=b"",
            summary=summary, places=(), sources=sources, kind=CAPTURE if log.decision_id else RUN,
        )  # fmt: skip
        return _Described(entry, secret, [log], payload, commitments, tenant, _after(run_facts, tenant))

    def _summary(self, seen: Outline, name: str, tenant: str, secret: bytes, masking: Credentials) -> Summary:
        payload, counts = seen.payload, seen.payload["counts"]
        tag_key = self._keyring.tag
        return Summary(
            agent=payload["agentId"],
            captured_at_ms=seen.captured_at_ms,
            level=payload["captureLevel"],
            reason=payload["captureReason"],
            effects=counts["effects"],
            model_calls=counts["modelCalls"],
            tool_calls=counts["toolCalls"],
            tools=tuple(sorted(set(seen.tools))),
            stop_reason=payload.get("stopReason"),
            exit_code=payload.get("exitCode"),
            failed="failure" in payload,
            failure=payload.get("failure"),
            user_tag=None if seen.user is None else tag(tag_key, "user", tenant, str(seen.user)),
            session_tag=None if seen.session is None else tag(tag_key, "session", tenant, str(seen.session)),
            title=seal_title(secret, name, masking.masked_text(seen.title)),
        )

    def _close_segments(self, ending: Iterable[Place]) -> None:
        """Seal the segments that take no more: full ones, and those of a run's places, whose domain ends with it."""
        segments = {place.segment for place in ending}
        for segment in sorted(segments | set(self._content.full_segments())):
            self._content.seal(segment)


def _note(entries: Iterable[Entry], sealed: list[str], ending: list[Place]) -> None:
    """Note which decisions were sealed, and where those lie whose domain ends with the run; no more of them is kept."""
    for entry in entries:
        if entry.kind == CAPTURE:
            sealed.append(entry.decision)
        if _ends_with_run(entry):
            ending += entry.places


def _ends_with_run(entry: Entry | Row) -> bool:
    if isinstance(entry, Entry) and entry.kind == RUN:
        return True
    return entry.summary.user_tag is None and entry.summary.session_tag is None


def _tenant(log: Log) -> str:
    return log.opened.get("tenant") or DEFAULT_TENANT


def _domain(log: Log) -> Domain:
    if log.decision_id is None:
        return Domain.of_run(_tenant(log), run=log.run_id)
    subject, session = log.opened.get("user") or "", log.opened.get("session") or ""
    return Domain.of_session(_tenant(log), subject=str(subject), session=str(session), run=log.run_id)


def _after(run_facts: dict[str, Any], tenant: str) -> tuple[int, str]:
    """The newest checkpoint that the run knew when it began; that of the empty log where it knew none."""
    said = run_facts.get("after") if tenant == DEFAULT_TENANT else None
    if isinstance(said, list) and len(said) == 2 and type(said[0]) is int and type(said[1]) is str:
        return said[0], f"sha256:{said[1]}"
    return EMPTY_LOG


def _no_summary(log: Log) -> Summary:
    return Summary(agent="", captured_at_ms=minted_at_ms(log.run_id), level="full", reason="routine")

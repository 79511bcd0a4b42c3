"""One tenant's log, read for verification: its records in order, its keys, its checkpoint, and the anchored one.

What is found is a fault in words with file or number, never an exception: a verifier reads what somebody else wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tachograph.errors import DamagedStore, FormatError
from tachograph.formats.answers.verify import CheckItem
from tachograph.intake import signed
from tachograph.intake.anchor import Anchor
from tachograph.signing import merkle, note
from tachograph.signing.events import LOG, UNDETERMINED, VALID, History, Logged, Place
from tachograph.signing.keys import KeyRefused, PublicKey, from_reference
from tachograph.signing.log import TileLog
from tachograph.store.entry import Entry
from tachograph.store.journal import Record

MOST_NAMED = 20
"""How many leaves that do not fit are named one by one: behind a cut none fits."""


def ok(reason: str | None = None) -> CheckItem:
    """The check found what it looked for."""
    return CheckItem(state="ok", reason=reason)


def failed(reason: str, at: str | None = None) -> CheckItem:
    """The check found something else."""
    return CheckItem(state="failed", reason=reason, at=at)


def not_checked(reason: str) -> CheckItem:
    """The check says nothing for or against."""
    return CheckItem(state="not_checked", reason=reason)


@dataclass(frozen=True)
class Said:
    """What a record's payload says of its place, as far as it is of the form that this needs."""

    payload: dict[str, Any]
    sealing: dict[str, Any]
    tenant: str
    signer: dict[str, Any]
    reference: str

    @classmethod
    def of(cls, entry: Entry) -> Said:
        """Read it. Raises FormatError for a payload that no sealer wrote."""
        try:
            payload = signed.skeleton_of(entry)
            sealing = payload["sealing"]
            signer, tenant = sealing["signer"], sealing["tenantId"]
            shaped = type(sealing["sequence"]) is int and type(sealing["after"]["treeSize"]) is int
            if not shaped or type(tenant) is not str or entry.leaf is None:
                raise ValueError("a member of `sealing` of another type")
            for name in ("sealedAt", "origin"):
                str(sealing[name])
            signed.type_of(entry)
            return cls(payload, sealing, tenant, signer, str(signer["publicKeyRef"]))
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError, AssertionError) as fault:
            raise FormatError(f"its payload is none that a sealer wrote: {type(fault).__name__}: {fault}") from None


@dataclass
class TenantLog:
    """One tenant's log as it was read."""

    origin: str
    log: TileLog
    records: dict[int, Record] = field(default_factory=dict)
    doubled: set[int] = field(default_factory=set)
    events: list[Logged] = field(default_factory=list)
    published: note.Checkpoint | None = None
    consistency: CheckItem = field(default_factory=lambda: not_checked("no checkpoint"))
    anchor: CheckItem = field(default_factory=lambda: not_checked("anchor: none"))
    anchored: int = 0
    faults: list[str] = field(default_factory=list)
    history: History = field(init=False)
    _next: int = 0

    def __post_init__(self) -> None:
        self.history = History(self.origin)

    def take(self, record: Record) -> None:
        """Take the next record of this tenant in the journal."""
        number = record.entry.leaf
        assert number is not None
        if number != self._next:
            self.faults.append(
                f"record {record.sequence} ({record.entry.decision}) has number {number} of {self.origin}, and "
                f"{self._next} would follow: a record is missing, moved or stands twice"
            )
        if number in self.records:
            self.doubled.add(number)
        self.records.setdefault(number, record)
        self._next = number + 1

    def take_key(self, said: Said, number: int) -> None:
        """Take a key event, in the order of the log."""
        try:
            by = from_reference(said.reference)
        except KeyRefused as fault:
            self.faults.append(f"leaf {number} is signed by a key that is refused: {fault}")
            return
        self.events.append(Logged(said.payload.get("body"), by, Place(leaf=number)))

    def judge(self, key: PublicKey, number: int) -> CheckItem:
        """Say whether a key was the signer's at a leaf, as the log's key events say."""
        judged = self.history.judge(key, Place(leaf=number, anchored=number < self.anchored))
        if judged.state == VALID:
            return ok(judged.reason)
        return not_checked(judged.reason) if judged.state == UNDETERMINED else failed(judged.reason)

    def look(self, anchor: Anchor) -> None:
        """Compare leaves, tiles, checkpoint and anchor, once all records were taken."""
        self.history = History.of(self.origin, self.events)
        self.faults += [f"leaf {one.leaf}: {one.message}" for one in self.history.faults]
        log = self.log
        try:
            self._compare_leaves()
            self.faults += log.check()
            self.consistency = self._published()
        except DamagedStore as fault:
            self.consistency = failed(str(fault))
        if self.consistency.state == "failed" and self.consistency.reason is not None:
            self.faults.append(self.consistency.reason)
        self.anchor = self._against(anchor)
        if self.anchor.state == "failed" and self.anchor.reason is not None:
            self.faults.append(self.anchor.reason)

    def _compare_leaves(self) -> None:
        if self.log.size != len(self.records):
            self.faults.append(
                f"{self.log.folder}: the log has {self.log.size} leaves, the journal {len(self.records)} records"
            )
        wrong = []
        for number, kept in enumerate(self.log.leaves()):
            record = self.records.get(number)
            if record is None:
                wrong.append(f"{self.log.folder}: leaf {number} has no record in the journal")
            elif merkle.leaf_hash(leaf_of(record.entry)) != kept:
                wrong.append(f"{self.log.folder}: leaf {number} is not that of {record.entry.decision}")
        self.faults += wrong[:MOST_NAMED]
        if len(wrong) > MOST_NAMED:
            self.faults.append(f"{self.log.folder}: {len(wrong) - MOST_NAMED} leaves more do not fit")

    def _published(self) -> CheckItem:
        place = f"{self.log.folder}/checkpoint"
        data = self.log.checkpoint()
        if data is None:
            return failed(f"{place} is gone")
        try:
            said = note.Checkpoint.parse(data)
            wrong = self._fault_of(data, said)
        except FormatError as fault:
            return failed(f"{place}: {fault}")
        if wrong is not None:
            return failed(f"{place}: {wrong}")
        if said.size > self.log.size or self.log.root(said.size) != said.root:
            return failed(f"{place}: its root at size {said.size} is not that of the leaves")
        self.published = said
        return ok(f"size {said.size}")

    def _fault_of(self, data: bytes, said: note.Checkpoint) -> str | None:
        if said.origin != self.origin:
            return f"it is of {said.origin}, and {self.log.folder}/origin names {self.origin}"
        read = note.Note.parse(data)
        if all(read.verified_by(note.Verifier(self.origin, key)) is None for key in self.history.keys(LOG)):
            return "none of the log's keys signed it"
        return None

    def _against(self, anchor: Anchor) -> CheckItem:
        kept = anchor.kept(self.origin)
        if kept is None:
            return not_checked("anchor: none")
        try:
            said = note.Checkpoint.parse(kept)
            wrong = self._fault_of(kept, said)
        except FormatError as fault:
            return failed(f"{anchor.path(self.origin)}: the anchored checkpoint does not parse: {fault}")
        if wrong is not None:
            return failed(f"{anchor.path(self.origin)}: the anchored checkpoint: {wrong}")
        contradicted = anchor.contradicted(self.origin, self.log.size, self.log.root)
        if contradicted is not None:
            return failed(contradicted)
        self.anchored = said.size
        return ok(f"anchor: local, size {said.size}")


def leaf_of(entry: Entry) -> bytes:
    """Return a record's entry in the log."""
    return signed.leaf(entry, signed.type_of(entry))

"""`tacho verify` of a store: each check of evidence.md by name, never one truth value for all.

What is checked here is what this store holds; whom to believe is the verifier's to bring (`trust`): a store's own key
is no pin. A cut tail, a rollback of the whole store, or a log rewritten by its key's holder is found only against a
checkpoint kept elsewhere, and `anchor` says up to where one was there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tachograph.errors import DamagedStore, FormatError, TachographError, UsageError
from tachograph.formats.answers.verify import CheckItem, Checks, ContentItem, VerifiedItem, VerifyAnswer
from tachograph.intake import signed
from tachograph.intake.anchor import Anchor
from tachograph.intake.rebuilding import Rebuilt, rebuild
from tachograph.intake.vouching import log_folder, origins
from tachograph.signing import dsse, merkle, note
from tachograph.signing.keys import KeyRefused, PublicKey, from_reference
from tachograph.signing.log import TileLog
from tachograph.store.disk import DISK
from tachograph.store.entry import CAPTURE, STATEMENT, Entry
from tachograph.store.journal import Journal, Record
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import StoreFolder
from tachograph.store.segments import ContentStore

UNSIGNED = "sealed before this store signed"
REQUIRABLE = ("identity", "time", "anchor")


def ok(reason: str | None = None) -> CheckItem:
    """The check found what it looked for."""
    return CheckItem(state="ok", reason=reason)


def failed(reason: str, at: str | None = None) -> CheckItem:
    """The check found something else."""
    return CheckItem(state="failed", reason=reason, at=at)


def not_checked(reason: str) -> CheckItem:
    """The check says nothing for or against."""
    return CheckItem(state="not_checked", reason=reason)


@dataclass
class _Tenant:
    """One tenant's log as it was read: its records in order, its keys, its checkpoint and the anchored one."""

    origin: str
    log: TileLog
    records: list[Record] = field(default_factory=list)
    signers: dict[str, int] = field(default_factory=dict)
    log_keys: list[PublicKey] = field(default_factory=list)
    published: note.Checkpoint | None = None
    consistency: CheckItem = field(default_factory=lambda: not_checked("no checkpoint"))
    anchor: CheckItem = field(default_factory=lambda: not_checked("anchor: none"))
    anchored: int = 0


class StoreVerifier:
    """Verifies records of one store, opened to be read."""

    def __init__(
        self, folder: StoreFolder, journal: Journal, keys: KeyTable, content: ContentStore, *,
        environ: Mapping[str, str], trust: Sequence[str],
    ) -> None:  # fmt: skip
        """Read the journal and the logs once. Raises DamagedStore, UsageError for a pin that names nothing."""
        self._keys, self._content = keys, content
        self._trusted = pins(trust)
        self.faults: list[str] = []
        self._tenants: dict[str, _Tenant] = {}
        anchor = Anchor(environ)
        for tenant, origin in origins(folder).items():
            log = TileLog(log_folder(folder, tenant), disk=DISK)
            self._tenants[tenant] = _Tenant(origin, log)
        self.records: list[Record] = []
        try:
            for record in journal.records():
                self._take(record)
        except DamagedStore as fault:
            self.faults.append(str(fault))
        for one in self._tenants.values():
            self._look_at_log(one, anchor)

    def _take(self, record: Record) -> None:
        self.records.append(record)
        if not record.entry.signature:
            return
        said = signed.skeleton_of(record.entry)
        tenant = self._tenants.get(said["sealing"]["tenantId"])
        if tenant is None:
            self.faults.append(
                f"record {record.sequence} is of a tenant whose log is gone: {said['sealing']['origin']}"
            )
            return
        if record.entry.leaf != len(tenant.records):
            self.faults.append(
                f"record {record.sequence} has number {record.entry.leaf} of {tenant.origin}, and "
                f"{len(tenant.records)} would follow: a record is missing or stands twice"
            )
        tenant.records.append(record)
        if record.entry.kind == STATEMENT and said.get("type") == "key":
            self._take_key(tenant, said["body"], len(tenant.records) - 1)

    def _take_key(self, tenant: _Tenant, body: Mapping[str, Any], number: int) -> None:
        try:
            key = from_reference(str(body["publicKeyRef"]))
        except (KeyRefused, KeyError) as fault:
            self.faults.append(f"leaf {number} registers a key that is refused: {fault}")
            return
        if body.get("role") == "log":
            tenant.log_keys.append(key)
        else:
            tenant.signers.setdefault(key.reference(), number)

    # -- the log as a whole

    def _look_at_log(self, tenant: _Tenant, anchor: Anchor) -> None:
        log = tenant.log
        try:
            self._compare_leaves(tenant)
            self.faults += log.check()
            tenant.consistency = self._published(tenant)
        except DamagedStore as fault:
            self.faults.append(str(fault))
            tenant.consistency = failed(str(fault))
        if tenant.consistency.state == "failed" and tenant.consistency.reason is not None:
            self.faults.append(tenant.consistency.reason)
        tenant.anchor = self._against_anchor(tenant, anchor.kept(tenant.origin))
        if tenant.anchor.state == "failed" and tenant.anchor.reason is not None:
            self.faults.append(tenant.anchor.reason)

    def _compare_leaves(self, tenant: _Tenant) -> None:
        if tenant.log.size != len(tenant.records):
            self.faults.append(
                f"{tenant.log.folder}: the log has {tenant.log.size} leaves, the journal {len(tenant.records)} records"
            )
        for number, (record, kept) in enumerate(zip(tenant.records, tenant.log.leaves(), strict=False)):
            if merkle.leaf_hash(_leaf(record.entry)) != kept:
                self.faults.append(f"{tenant.log.folder}: leaf {number} is not that of {record.entry.decision}")

    def _published(self, tenant: _Tenant) -> CheckItem:
        data = tenant.log.checkpoint()
        if data is None:
            return failed(f"{tenant.log.folder}: there is no checkpoint")
        try:
            said = note.Checkpoint.parse(data)
        except FormatError as fault:
            return failed(f"{tenant.log.folder}/checkpoint: {fault}")
        wrong = self._fault_of(tenant, data, said)
        if wrong is not None:
            return failed(f"{tenant.log.folder}/checkpoint: {wrong}")
        if said.size > tenant.log.size or tenant.log.root(said.size) != said.root:
            return failed(f"{tenant.log.folder}/checkpoint: its root at size {said.size} is not that of the leaves")
        tenant.published = said
        return ok(f"size {said.size}")

    def _fault_of(self, tenant: _Tenant, data: bytes, said: note.Checkpoint) -> str | None:
        if said.origin != tenant.origin:
            return f"it is of another log, {said.origin}"
        read = note.Note.parse(data)
        if all(read.verified_by(note.Verifier(tenant.origin, key)) is None for key in tenant.log_keys):
            return "none of the log's keys signed it"
        return None

    def _against_anchor(self, tenant: _Tenant, kept: bytes | None) -> CheckItem:
        if kept is None:
            return not_checked("anchor: none")
        try:
            said = note.Checkpoint.parse(kept)
        except FormatError as fault:
            return failed(f"the anchored checkpoint does not parse: {fault}")
        wrong = self._fault_of(tenant, kept, said)
        if wrong is not None:
            return failed(f"the anchored checkpoint: {wrong}")
        if said.size > tenant.log.size:
            return failed(f"a checkpoint over {said.size} leaves was anchored, and the log has {tenant.log.size}: cut")
        if tenant.log.root(said.size) != said.root:
            return failed(f"the log was rewritten: its root at size {said.size} is not the anchored one")
        tenant.anchored = said.size
        return ok(f"anchor: local, size {said.size}")

    # -- one record

    def verify(self, record: Record) -> Checks:
        """Check one record. What cannot be read is a failed check, not an exception."""
        entry = record.entry
        if not entry.signature:
            none = not_checked(UNSIGNED)
            return Checks(
                identity=none, format=none, signature=none, key=none, time=none, inclusion=none, consistency=none,
                anchor=none, content=ContentItem(state="not_checked", reason=UNSIGNED, items={}), sequence=none,
                coverage=none,
            )  # fmt: skip
        said = signed.skeleton_of(entry)
        tenant = self._tenants[said["sealing"]["tenantId"]]
        rebuilt, content = self._rebuilt(tenant, entry)
        signature, key, identity = self._vouched(tenant, entry, said, rebuilt)
        return Checks(
            identity=identity,
            format=_format(entry, said),
            signature=signature,
            key=key,
            time=not_checked(f"clock: local; sealed at {said['sealing']['sealedAt']} by it, "
                             f"after leaf {said['sealing']['after']['treeSize']}"),
            inclusion=self._inclusion(tenant, entry),
            consistency=tenant.consistency,
            anchor=_anchor(tenant, entry),
            content=content,
            sequence=self._sequence(tenant, entry, rebuilt),
            coverage=coverage_of(said),
        )  # fmt: skip

    def _rebuilt(self, tenant: _Tenant, entry: Entry) -> tuple[Rebuilt | None, ContentItem]:
        try:
            rebuilt = self.rebuilt(entry)
        except (TachographError, LookupError, ValueError) as fault:
            return None, ContentItem(state="failed", reason=f"it cannot be read: {fault}", items={})
        states = signed.skeleton_of(entry).get("evidenceStates", {})
        items: dict[str, Any] = {
            pointer: "not_captured" for pointer, state in states.items() if state["state"] in ("absent", "unavailable")
        }
        items.update(dict.fromkeys(rebuilt.items, "intact" if rebuilt.whole else "mismatch"))
        if not rebuilt.whole:
            why = "what is kept does not give the payload that was signed"
            return rebuilt, ContentItem(state="failed", reason=why, at=entry.decision, items=items)
        return rebuilt, ContentItem(state="ok", items=items)

    def rebuilt(self, entry: Entry, *, keep_bytes: bool = False) -> Rebuilt:
        """Put a record together. Raises DamagedStore, KeyMissing (its keys were destroyed), FormatError."""
        said = signed.skeleton_of(entry)
        tenant = self._tenants[said["sealing"]["tenantId"]]
        assert entry.leaf is not None
        previous = signed.ZEROS
        if entry.leaf:
            previous = "sha256:" + tenant.records[entry.leaf - 1].entry.payload_digest.hex()
        logs = [self._content.read(place) for place in entry.places]
        secret = self._keys.get(SECRET, entry.decision.encode()) if entry.kind != STATEMENT else bytes(32)
        return rebuild(
            entry, logs, secret=secret, previous=previous, keep_bytes=keep_bytes,
            root_at=lambda size: "sha256:" + tenant.log.root(size).hex(),
        )  # fmt: skip

    def checkpoint_of(self, record: Record) -> bytes:
        """Return the published checkpoint of a record's log, a signed note. Raises DamagedStore where it is wrong."""
        tenant = self._tenants[signed.skeleton_of(record.entry)["sealing"]["tenantId"]]
        data = tenant.log.checkpoint()
        if data is None or tenant.published is None:
            raise DamagedStore(f"{tenant.log.folder}: {tenant.consistency.reason}")
        return data

    def proof_of(self, record: Record) -> list[bytes]:
        """Return a record's audit path under the published checkpoint. Raises DamagedStore."""
        tenant = self._tenants[signed.skeleton_of(record.entry)["sealing"]["tenantId"]]
        if tenant.published is None or record.entry.leaf is None or record.entry.leaf >= tenant.published.size:
            raise DamagedStore(f"{tenant.log.folder}: no sound checkpoint covers {record.entry.decision}")
        return tenant.log.prove(record.entry.leaf, tenant.published.size)

    def _vouched(
        self, tenant: _Tenant, entry: Entry, said: Mapping[str, Any], rebuilt: Rebuilt | None
    ) -> tuple[CheckItem, CheckItem, CheckItem]:
        reference = str(said["sealing"]["signer"]["publicKeyRef"])
        try:
            key = from_reference(reference)
        except KeyRefused as fault:
            return failed(str(fault)), failed(str(fault)), failed(str(fault))
        kind = signed.STATEMENT_TYPE if entry.kind == STATEMENT else dsse.CAPTURE_TYPE
        if rebuilt is None or not rebuilt.whole:
            signature = not_checked("the payload cannot be put together: see `content`")
        elif key.verify(entry.signature, dsse.pae(kind, rebuilt.payload)):
            signature = ok()
        else:
            signature = failed(f"{reference} did not sign this payload")
        since = tenant.signers.get(reference)
        if since is None:
            registered = failed(f"no leaf of the log registers {reference}")
        elif entry.leaf is not None and entry.leaf < since:
            registered = failed(f"{reference} was registered at leaf {since}, after this one")
        elif said["sealing"]["signer"]["keyDigest"] != key.key_digest():
            registered = failed("the key's digest is not the one that the payload states", "/sealing/signer/keyDigest")
        else:
            registered = ok(f"registered at leaf {since}")
        identity = not_checked(f"signer not known to you: {key.did_key()}")
        if key in self._trusted:
            identity = ok(key.did_key()) if signature.state == "ok" else not_checked("the signature was not checked")
        return signature, registered, identity

    def _inclusion(self, tenant: _Tenant, entry: Entry) -> CheckItem:
        said = tenant.published
        assert entry.leaf is not None
        if said is None or entry.leaf >= said.size:
            return not_checked("no checkpoint covers it")
        try:
            proof = tenant.log.prove(entry.leaf, said.size)
        except DamagedStore as fault:
            return failed(str(fault))
        if merkle.verify_inclusion(merkle.leaf_hash(_leaf(entry)), entry.leaf, said.size, proof, said.root):
            return ok(f"leaf {entry.leaf} of {said.size}")
        return failed(f"it is not leaf {entry.leaf} under the checkpoint of size {said.size}")

    def _sequence(self, tenant: _Tenant, entry: Entry, rebuilt: Rebuilt | None) -> CheckItem:
        assert entry.leaf is not None
        number = signed.skeleton_of(entry)["sealing"]["sequence"]
        if number != entry.leaf or entry.leaf >= len(tenant.records) or tenant.records[entry.leaf].entry != entry:
            return failed(f"its number is {number} and it stands at {entry.leaf}", "/sealing/sequence")
        if rebuilt is None or not rebuilt.whole:
            return not_checked("the payload, which names the one before, cannot be put together")
        return ok(f"{number} of {tenant.origin}")


def _leaf(entry: Entry) -> bytes:
    return signed.leaf(entry, signed.type_of(entry))


def _format(entry: Entry, said: Mapping[str, Any]) -> CheckItem:
    if entry.kind == CAPTURE and (said.get("version") != "replay/v1" or said.get("decisionId") != entry.decision):
        return failed("the payload is not that of this decision", "/decisionId")
    return ok()


def _anchor(tenant: _Tenant, entry: Entry) -> CheckItem:
    if tenant.anchor.state == "ok" and entry.leaf is not None and entry.leaf >= tenant.anchored:
        return not_checked(f"it lies after the anchored checkpoint of size {tenant.anchored}")
    return tenant.anchor


def coverage_of(said: Mapping[str, Any]) -> CheckItem:
    """Return the check `coverage`: whether a payload says that anything went past the recorder."""
    coverage = said.get("runtime", {}).get("coverage", {})
    bypassed = coverage.get("bypassed", [])
    if bypassed:
        named = ", ".join(f"{one['what']} ({one['count']})" for one in bypassed)
        return not_checked(f"went past the recorder: {named}")
    return ok(f"{coverage.get('seen', 0)} effects seen, none known to have gone past")


def pins(trust: Iterable[str]) -> set[PublicKey]:
    """Return the keys that a verifier brought: `did:key`s, and files of PEM or of one DID a line. Raises UsageError."""
    found: set[PublicKey] = set()
    for one in trust:
        try:
            if one.startswith("did:key:"):
                found.add(from_reference(one))
            elif os.path.isfile(one):
                with open(one, "rb") as file:
                    data = file.read(1 << 20)
                if b"-----BEGIN" in data:
                    found.add(PublicKey.from_pem(data))
                else:
                    found |= {from_reference(line.strip()) for line in data.decode().splitlines() if line.strip()}
            else:
                raise UsageError(f"--trust takes a did:key or a file with keys, not {one!r}")
        except (KeyRefused, UnicodeDecodeError) as fault:
            raise UsageError(f"--trust {one}: {fault}") from None
    return found


def answer_of(verifier: StoreVerifier, records: Iterable[Record]) -> VerifyAnswer:
    """Verify records; those that are no captures count among `faults` where they fail."""
    captures, faults, count = [], list(verifier.faults), 0
    for record in records:
        checks = verifier.verify(record)
        wrong = [name for name in Checks.model_fields if getattr(checks, name).state == "failed"]
        if record.entry.kind == CAPTURE:
            captures.append(VerifiedItem(decisionId=record.entry.decision, checks=checks))
            count += len(wrong)
        else:
            faults += [f"{record.entry.decision}: {name}: {getattr(checks, name).reason}" for name in wrong]
    return VerifyAnswer(captures=captures, failed=count + len(faults), faults=faults)

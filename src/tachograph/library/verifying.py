"""`tacho verify` of a store: each check of evidence.md by name, never one truth value for all.

What is checked here is what this store holds; whom to believe is the verifier's to bring (`trust`): a store's own key
is no pin. A cut tail, a rollback of the whole store, or a log rewritten by its key's holder is found only against a
checkpoint kept elsewhere, and `anchor` says up to where one was there.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tachograph.errors import DamagedStore, FormatError, TachographError
from tachograph.formats.answers.verify import CheckItem, Checks, ContentItem, VerifiedItem, VerifyAnswer
from tachograph.intake import signed
from tachograph.intake.anchor import Anchor
from tachograph.intake.rebuilding import Rebuilt, rebuild
from tachograph.intake.vouching import log_folder, origins
from tachograph.library.tenantlog import Said, TenantLog, failed, leaf_of, not_checked, ok
from tachograph.signing import dsse, events, merkle
from tachograph.signing.identity import Pins
from tachograph.signing.keys import KeyRefused, PublicKey, SigningKey, from_reference
from tachograph.signing.log import TileLog
from tachograph.store.disk import DISK
from tachograph.store.domains import Domain
from tachograph.store.entry import ADDENDUM, CAPTURE, RUN, STATEMENT, Entry
from tachograph.store.journal import Journal, Record
from tachograph.store.keyring import INTAKE, LOG, SIGNER, TAG, Keyring
from tachograph.store.keytable import SECRET, KeyTable
from tachograph.store.location import StoreFolder
from tachograph.store.segments import ContentStore

_STRANGE = (LookupError, ValueError, TypeError, AttributeError, RecursionError)
"""What reading a payload that no sealer wrote can come to, whoever wrote it."""
_NAMED = {
    CAPTURE: ("replay/v1", "decisionId"), RUN: ("replay/v1", "runId"), ADDENDUM: ("replay/v1", "runId"),
    STATEMENT: ("statement/v1", "statementId"),
}  # fmt: skip
UNSIGNED = "sealed before this store signed"
REQUIRABLE = ("identity", "time", "anchor")


class StoreVerifier:
    """Verifies records of one store, opened to be read."""

    def __init__(
        self, folder: StoreFolder, journal: Journal, keys: KeyTable, content: ContentStore, *,
        environ: Mapping[str, str], trust: Sequence[str],
    ) -> None:  # fmt: skip
        """Read the journal and the logs once. Raises DamagedStore, UsageError for a pin that names nothing."""
        self._keys, self._content = keys, content
        self._pins = Pins.brought(trust)
        self.faults: list[str] = []
        self._tenants: dict[str, TenantLog] = {}
        anchor, keyring = Anchor(environ), folder.keyring(environ)
        for tenant, origin in origins(folder).items():
            self._tenants[tenant] = TenantLog(origin, TileLog(log_folder(folder, tenant), disk=DISK))
        self.records: list[Record] = []
        try:
            for record in journal.records():
                self._take(record, keyring)
        except DamagedStore as fault:
            self.faults.append(str(fault))
        for one in self._tenants.values():
            one.look(anchor)
            self.faults += one.faults
        self._look_for_other_logs(folder, anchor)
        self._look_at_keys(folder, keyring)

    def _take(self, record: Record, keyring: Keyring) -> None:
        self.records.append(record)
        if not record.entry.signature:
            return
        try:
            said = Said.of(record.entry)
        except FormatError as fault:
            self.faults.append(f"record {record.sequence} ({record.entry.decision}): {fault}")
            return
        tenant = self._tenants.get(said.tenant)
        if tenant is None:
            self.faults.append(f"record {record.sequence} is of a tenant whose log is gone: {said.sealing['origin']}")
            return
        tenant.take(record)
        if record.entry.kind == STATEMENT and said.payload.get("type") == "key":
            assert record.entry.leaf is not None
            tenant.take_key(said, record.entry.leaf)
        if record.entry.kind == STATEMENT and record.entry.domain != Domain.shared(said.tenant).id(keyring.tag):
            self.faults.append(
                f"record {record.sequence} lies in another domain than {keyring.path(TAG)} gives: one was changed"
            )

    # -- what belongs to no one record

    def _look_for_other_logs(self, folder: StoreFolder, anchor: Anchor) -> None:
        here = {one.origin for one in self._tenants.values()}
        for origin in anchor.origins(folder.store_id):
            if origin not in here:
                why = (
                    f"{anchor.known_logs(folder.store_id)}: this store had the log {origin}, which is gone or exchanged"
                )
                self.faults.append(why)
                for one in self._tenants.values():
                    one.anchor = failed(why)

    def _look_at_keys(self, folder: StoreFolder, keyring: Keyring) -> None:
        """Compare this machine's key files with what the logs and the store say; what is not here is not compared."""
        for one in self._tenants.values():
            if not one.records:
                continue
            registered = {
                name: {key.reference() for key in one.history.keys(role)}
                for name, role in ((SIGNER, events.SIGNER), (LOG, events.LOG))
            }
            for name, known in registered.items():
                if os.path.exists(keyring.path(name)):
                    self._compare_key(keyring, name, known, f"no leaf of {one.origin} registers it")
        if os.path.exists(keyring.path(INTAKE)):
            self._compare_key(
                keyring, INTAKE, {folder.intake_public_key.hex()}, f"{folder.path}/store.json names another public key"
            )

    def _compare_key(self, keyring: Keyring, name: str, known: Container[str], otherwise: str) -> None:
        try:
            if name == INTAKE:
                public = X25519PrivateKey.from_private_bytes(keyring.intake).public_key().public_bytes_raw().hex()
            else:
                key = keyring.signer if name == SIGNER else keyring.log
                public = SigningKey.from_bytes(key).public.reference()
        except TachographError as fault:
            self.faults.append(str(fault))
            return
        if public not in known:
            self.faults.append(f"{keyring.path(name)}: {otherwise}; restore it from a backup")

    def look_at_key_table(self) -> None:
        """Read the whole key table, as no single record does."""
        try:
            self._keys.check()
        except TachographError as fault:
            self.faults.append(str(fault))

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
        try:
            said = Said.of(entry)
            return self._checks(self._tenants[said.tenant], entry, said)
        except (FormatError, *_STRANGE) as fault:
            none = not_checked("its payload does not say what is to be checked")
            why = f"no payload that a sealer of a log here wrote: {type(fault).__name__}: {fault}"
            return Checks(
                identity=none, format=failed(why, entry.decision), signature=none, key=none, time=none, inclusion=none,
                consistency=none, anchor=none, sequence=none, coverage=none,
                content=ContentItem(state="not_checked", reason=none.reason, items={}),
            )  # fmt: skip

    def _checks(self, tenant: TenantLog, entry: Entry, said: Said) -> Checks:
        rebuilt, content = self._rebuilt(entry)
        signature, key, identity = self._vouched(tenant, entry, said, rebuilt)
        return Checks(
            identity=identity,
            format=_format(entry, said.payload),
            signature=signature,
            key=key,
            time=not_checked(f"clock: local; sealed at {said.sealing['sealedAt']} by it, "
                             f"after leaf {said.sealing['after']['treeSize']}"),
            inclusion=self._inclusion(tenant, entry),
            consistency=tenant.consistency,
            anchor=_anchor(tenant, entry),
            content=content,
            sequence=_sequence(tenant, entry, said, rebuilt),
            coverage=coverage_of(said.payload),
        )  # fmt: skip

    def _rebuilt(self, entry: Entry) -> tuple[Rebuilt | None, ContentItem]:
        try:
            rebuilt = self.rebuilt(entry)
            states = signed.skeleton_of(entry).get("evidenceStates", {})
            items: dict[str, Any] = {
                pointer: "not_captured"
                for pointer, state in states.items()
                if state["state"] in ("absent", "unavailable")
            }
        except (TachographError, *_STRANGE) as fault:
            return None, ContentItem(state="failed", reason=f"it cannot be read: {fault}", at=entry.decision, items={})
        items.update(dict.fromkeys(rebuilt.items, "intact" if rebuilt.whole else "mismatch"))
        if not rebuilt.whole:
            why = "what is kept does not give the payload that was signed"
            return rebuilt, ContentItem(state="failed", reason=why, at=entry.decision, items=items)
        return rebuilt, ContentItem(state="ok", items=items)

    def rebuilt(self, entry: Entry, *, keep_bytes: bool = False) -> Rebuilt:
        """Put a record together. Raises DamagedStore, KeyMissing (its keys were destroyed), FormatError."""
        tenant = self._tenants.get(Said.of(entry).tenant)
        if tenant is None:
            raise DamagedStore(f"{entry.decision} is of a log that is not here")
        assert entry.leaf is not None
        previous = signed.ZEROS
        if entry.leaf:
            before = tenant.records.get(entry.leaf - 1)
            if before is None:
                raise DamagedStore(f"record {entry.leaf - 1} of {tenant.origin}, which it names, is missing")
            previous = "sha256:" + before.entry.payload_digest.hex()
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
        self, tenant: TenantLog, entry: Entry, said: Said, rebuilt: Rebuilt | None
    ) -> tuple[CheckItem, CheckItem, CheckItem]:
        reference = said.reference
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
        assert entry.leaf is not None
        registered = tenant.judge(key, entry.leaf)
        if said.signer.get("keyDigest") != key.key_digest():
            registered = failed("the key's digest is not the one that the payload states", "/sealing/signer/keyDigest")
        identity = identity_of(self._pins, tenant.history, key)
        if identity.state == "ok" and signature.state != "ok":
            identity = not_checked("the signature was not checked")
        return signature, registered, identity

    def _inclusion(self, tenant: TenantLog, entry: Entry) -> CheckItem:
        said = tenant.published
        assert entry.leaf is not None
        if said is None or entry.leaf >= said.size:
            return not_checked("no checkpoint covers it")
        try:
            proof = tenant.log.prove(entry.leaf, said.size)
        except DamagedStore as fault:
            return failed(str(fault))
        if merkle.verify_inclusion(merkle.leaf_hash(leaf_of(entry)), entry.leaf, said.size, proof, said.root):
            return ok(f"leaf {entry.leaf} of {said.size}")
        return failed(f"it is not leaf {entry.leaf} under the checkpoint of size {said.size}")


def _sequence(tenant: TenantLog, entry: Entry, said: Said, rebuilt: Rebuilt | None) -> CheckItem:
    number, leaf = said.sealing["sequence"], entry.leaf
    assert leaf is not None
    if said.sealing["origin"] != tenant.origin:
        return failed(f"its log is {said.sealing['origin']}, and it stands in {tenant.origin}", "/sealing/origin")
    if number != leaf or leaf in tenant.doubled or leaf not in tenant.records or tenant.records[leaf].entry != entry:
        return failed(f"its number is {number} and it stands at {leaf}", "/sealing/sequence")
    if rebuilt is None or not rebuilt.whole:
        return not_checked("the payload, which names the one before, cannot be put together")
    return ok(f"{number} of {tenant.origin}")


def _format(entry: Entry, said: Mapping[str, Any]) -> CheckItem:
    """Whether the payload is this record's, and the list's facts beside it are the signed ones."""
    version, name = _NAMED[entry.kind]
    if said.get("version") != version or said.get(name) != entry.decision:
        return failed("the payload is not that of this record", f"/{name}")
    if entry.kind == CAPTURE:
        listed = entry.summary
        for member, beside in (
            ("agentId", listed.agent), ("captureLevel", listed.level), ("runId", entry.run),
            ("captureReason", "failed" if listed.failed else "window"),
        ):  # fmt: skip
            if said.get(member) != beside:
                return failed(f"the list's facts beside the payload say {beside!r}", f"/{member}")
    return ok()


def _anchor(tenant: TenantLog, entry: Entry) -> CheckItem:
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


def identity_of(pins: Pins, history: events.History, key: PublicKey) -> CheckItem:
    """Return the check `identity` of a signer: known by a pin on its key, or on one of the same line."""
    judged = pins.judge(key, line=history.line(key))
    return ok(judged.reason) if judged.state == "ok" else not_checked(judged.reason)


def whole_store(verifier: StoreVerifier) -> VerifyAnswer:
    """Verify every record, and what no single one reads."""
    verifier.look_at_key_table()
    return answer_of(verifier, verifier.records)


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

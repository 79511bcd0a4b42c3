"""What a store vouches for: it numbers, chains and signs what is sealed, and keeps the log of it.

Steps (c) to (e) of sealing (capture-v1 rule 5): a record gets its place in the tenant's sequence and the digest of the
payload before; the payload is signed; once the journal has it, its leaf goes to the tenant's log, and a checkpoint over
all leaves is signed and published. Leaf n is the record with sequence n. Invariants:

- the journal is the source: on opening, leaves and checkpoint that a crash kept from being written are made from it;
- nothing is sealed behind a log that does not continue what the anchor keeps of it, nor with another key than before;
- keys are drawn when something is first sealed, and the first leaves say which they are;
- a private key never leaves this module's objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import time_ns
from typing import Any

from tachograph.canonical import canonical, digest
from tachograph.errors import DamagedStore
from tachograph.formats import capture_v1
from tachograph.intake import signed
from tachograph.intake.anchor import Anchor, OlderThanAnchor
from tachograph.intake.skeleton import rfc3339
from tachograph.model.identity import mint
from tachograph.signing import dsse, note
from tachograph.signing.keys import SigningKey
from tachograph.signing.log import TileLog
from tachograph.signing.merkle import EMPTY, leaf_hash
from tachograph.store.disk import Disk
from tachograph.store.domains import DEFAULT_TENANT, Domain
from tachograph.store.entry import STATEMENT, Entry
from tachograph.store.journal import Journal, Record
from tachograph.store.keyring import LOG, SIGNER, Keyring
from tachograph.store.location import StoreFolder
from tachograph.store.summary import Summary
from tachograph.version import VERSION

POLICY: dict[str, Any] = {"level": "full", "retentionDays": 365, "sampled": 0.01, "scope": "operator", "windowDays": 30}
"""What holds without a policy file (DESIGN section 4, levels)."""

ORIGIN_FILE = "origin"
_ORIGIN = re.compile(r"tachograph/[0-9a-f]{32}/(.+)/[0-9]+", re.DOTALL)
EMPTY_LOG = (0, "sha256:" + EMPTY.hex())
"""Size and root of a log without leaves (RFC 6962, section 2.1)."""


@dataclass(frozen=True)
class Unsigned:
    """A record that is not numbered yet. `payload` is the skeleton; `after` the newest checkpoint known before it."""

    entry: Entry
    payload: dict[str, Any]
    commitments: dict[str, str]
    tenant: str = DEFAULT_TENANT
    after: tuple[int, str] = EMPTY_LOG


@dataclass
class _Chain:
    """One tenant's log: its name, its leaves, and the payload digest that the next record names."""

    tenant: str
    origin: str
    log: TileLog
    next: int = 0
    previous: str = signed.ZEROS
    fresh: list[bytes] = field(default_factory=list)


class Vouching:
    """Numbers, signs and logs what one store seals. Only the sealer, under its lock, has one that writes."""

    def __init__(self, folder: StoreFolder, keyring: Keyring, journal: Journal, *, anchor: Anchor, disk: Disk) -> None:
        """Open the logs that there are and add what the journal has more.

        Raises OlderThanAnchor where the anchor keeps more of a log than there is, DamagedStore, KeyMissing, OSError.
        """
        self._folder, self._keyring, self._journal, self._disk = folder, keyring, journal, disk
        self._anchor = anchor
        self._chains: dict[str, _Chain] = {}
        for tenant, origin in sorted(origins(folder).items()):
            self._chains[tenant] = _Chain(tenant, origin, self._log(tenant))
        if self._chains:
            self._catch_up()

    def _log(self, tenant: str) -> TileLog:
        return TileLog(log_folder(self._folder, tenant), disk=self._disk, write=True)

    def _catch_up(self) -> None:
        """Find each chain's end in the journal, and add the leaves and the checkpoint that a crash kept back."""
        missing: dict[str, list[Record]] = {tenant: [] for tenant in self._chains}
        open_ = set(self._chains)
        for record in self._journal.backwards():
            if not open_:
                break
            if not record.entry.signature:
                break  # sealed before this store signed
            tenant = signed.skeleton_of(record.entry)["sealing"]["tenantId"]
            chain = self._chains.get(tenant)
            if chain is None or tenant not in open_:
                continue
            sequence = record.entry.leaf
            assert sequence is not None
            if not chain.next:
                chain.next, chain.previous = sequence + 1, "sha256:" + record.entry.payload_digest.hex()
                self._refuse_other_key(record)
            if sequence < chain.log.size:
                open_.discard(tenant)
            else:
                missing[tenant].append(record)
        for tenant, records in missing.items():
            chain = self._chains[tenant]
            if chain.log.size > chain.next:
                raise DamagedStore(
                    f"{log_folder(self._folder, tenant)}: the log has {chain.log.size} leaves and the journal "
                    f"{chain.next}: the journal was cut or set back; restore it from a backup"
                )
            self._add(chain, [record.entry for record in reversed(records)])
            self._refuse_older(self._anchor.contradicted(chain.origin, chain.log.size, chain.log.root))
            self._publish(chain)

    def _refuse_older(self, why: str | None) -> None:
        if why is not None:
            raise OlderThanAnchor(
                f"{self._folder.path}: journal older than the anchor: {why}; the store is only read from, and what "
                "waits in its spool stays there: restore its newest copy"
            )

    def _refuse_other_key(self, newest: Record) -> None:
        """Refuse to go on with a key that did not sign the newest record: nobody could tell it from a forged one."""
        said = signed.skeleton_of(newest.entry)["sealing"]["signer"]["publicKeyRef"]
        if said != self._key().public.reference():
            raise DamagedStore(
                f"{self._keyring.path(SIGNER)} is not the key that signed record {newest.sequence}, {said}; "
                "restore it from a backup"
            )

    # -- sealing

    def numbered(self, batch: Sequence[Unsigned]) -> list[Entry]:
        """Return the records of a batch, numbered, chained and signed, those that begin a tenant's log before them."""
        entries: list[Entry] = []
        for one in batch:
            chain = self._chains.get(one.tenant) or self._begin(one.tenant)
            if not chain.next:  # a log without leaves: new, or left by a crash before its first batch was sealed
                entries += [self._signed(chain, first) for first in self._first(chain)]
            entries.append(self._signed(chain, one))
        return entries

    def log_batch(self, entries: Sequence[Entry]) -> None:
        """Append the leaves of a batch that the journal has, and publish a checkpoint over them. Raises OSError."""
        by_tenant: dict[str, list[Entry]] = {}
        for entry in entries:
            by_tenant.setdefault(signed.skeleton_of(entry)["sealing"]["tenantId"], []).append(entry)
        for tenant, some in by_tenant.items():
            chain = self._chains[tenant]
            self._add(chain, some)
            self._publish(chain)

    def forget(self) -> None:
        """A batch was numbered and not sealed: its numbers are free again."""
        for chain in self._chains.values():
            chain.next, chain.previous = 0, signed.ZEROS
        self._catch_up()

    def close(self) -> None:
        """Close the logs."""
        for chain in self._chains.values():
            chain.log.close()

    def _signed(self, chain: _Chain, one: Unsigned) -> Entry:
        size, root = one.after
        sealing = {
            "origin": chain.origin,
            "tenantId": chain.tenant,
            "sequence": chain.next,
            "previous": chain.previous,
            "signer": self._signer(),
            "sealedAt": rfc3339(time_ns()),
            "bootId": boot_id(),
            "clock": {"source": "local"},
            "after": {"treeSize": size, "rootHash": root},
            "custodian": "same_user",
            "policyDigest": digest(canonical(POLICY)),
            "recorder": {"name": "tachograph", "version": VERSION},
        }
        skeleton = {**one.payload, "sealing": sealing}
        payload = capture_v1.payload(skeleton, one.commitments)
        type = dsse.CAPTURE_TYPE if one.entry.kind != STATEMENT else signed.STATEMENT_TYPE
        entry = replace(
            one.entry,
            payload=signed.kept(skeleton),
            payload_digest=sha256(payload).digest(),
            signature=self._key().sign(dsse.pae(type, payload)),
            leaf=chain.next,
        )
        chain.next, chain.previous = chain.next + 1, digest(payload)
        return entry

    def _add(self, chain: _Chain, entries: Sequence[Entry]) -> None:
        if entries:
            first = entries[0].leaf
            assert first is not None
            hashes = [leaf_hash(signed.leaf(entry, signed.type_of(entry))) for entry in entries]
            chain.log.append(hashes, at=first)

    def _publish(self, chain: _Chain) -> None:
        size = chain.log.size
        published = chain.log.checkpoint()
        if published is not None:
            self._refuse_unsigned(chain, published)
            if note.Checkpoint.parse(published).size == size:
                self._keep(chain, published)  # a crash, or a folder without room, may have kept it from there
                return
        if not size:
            return
        said = note.Checkpoint(origin=chain.origin, size=size, root=chain.log.root())
        text = note.sign(said.body(), [note.Signer(chain.origin, self._log_key())])
        chain.log.publish(text)
        self._keep(chain, text)

    def _keep(self, chain: _Chain, checkpoint: bytes) -> None:
        if self._anchor.kept(chain.origin) != checkpoint:
            self._anchor.keep(self._folder.store_id, chain.origin, checkpoint, chain.log.root)

    def _refuse_unsigned(self, chain: _Chain, published: bytes) -> None:
        ours = note.Verifier(chain.origin, self._log_key().public)
        if note.Note.parse(published).verified_by(ours) is None:
            raise DamagedStore(
                f"{chain.log.folder}/checkpoint is not signed by {self._keyring.path(LOG)}: one of the two was "
                "changed; restore it from a backup"
            )

    # -- a tenant's first record

    def _begin(self, tenant: str) -> _Chain:
        self._refuse_second_log(tenant)
        self._keyring.draw(SIGNER, LOG)
        origin = f"tachograph/{os.urandom(16).hex()}/{tenant}/0"
        folder = log_folder(self._folder, tenant)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._disk.create(os.path.join(folder, ORIGIN_FILE), origin.encode() + b"\n")
        chain = self._chains[tenant] = _Chain(tenant, origin, self._log(tenant))
        return chain

    def _refuse_second_log(self, tenant: str) -> None:
        """Refuse to begin a log where there was one: that would be the way to lose what it said."""
        for record in self._journal.records():
            if record.entry.signature and signed.skeleton_of(record.entry)["sealing"]["tenantId"] == tenant:
                raise DamagedStore(
                    f"{log_folder(self._folder, tenant)}/{ORIGIN_FILE} is gone, and record {record.sequence} is of its "
                    "log; restore the folder from a backup"
                )
        for origin in self._anchor.origins(self._folder.store_id):
            if _tenant_of(origin) == tenant:
                self._refuse_older(f"{self._anchor.path(origin)} is a checkpoint of {origin}, and that log is gone")

    def _first(self, chain: _Chain) -> list[Unsigned]:
        log_key = self._log_key().public
        return [
            self.statement("key", {"event": "new", "role": "signer", **self._signer()}, tenant=chain.tenant),
            self.statement(
                "key",
                {"event": "new", "role": "log", "algorithm": "ed25519", "publicKeyRef": log_key.reference(),
                 "keyDigest": log_key.key_digest()},
                tenant=chain.tenant,
            ),
        ]  # fmt: skip

    def statement(self, type: str, body: Mapping[str, Any], *, tenant: str = DEFAULT_TENANT) -> Unsigned:
        """Return a statement of the store itself, to be sealed as a record of its own."""
        at_ns = time_ns()
        name = mint("stm", at_ms=at_ns // 1_000_000, chance=os.urandom(10))
        entry = Entry(
            decision=name, run="run_" + name[4:], domain=Domain.shared(tenant).id(self._keyring.tag), payload=b"",
            summary=Summary(agent="", captured_at_ms=at_ns // 1_000_000, level="full", reason="routine"),
            kind=STATEMENT,
        )  # fmt: skip
        payload = {
            "version": "statement/v1",
            "statementId": name,
            "type": type,
            "at": rfc3339(at_ns),
            "body": dict(body),
        }
        return Unsigned(entry, payload, {}, tenant)

    def previous(self, tenant: str = DEFAULT_TENANT) -> str:
        """Return the payload digest that the tenant's next record names."""
        chain = self._chains.get(tenant)
        return signed.ZEROS if chain is None else chain.previous

    def _signer(self) -> dict[str, str]:
        public = self._key().public
        return {"publicKeyRef": public.reference(), "algorithm": "ed25519", "keyDigest": public.key_digest()}

    def _key(self) -> SigningKey:
        return SigningKey.from_bytes(self._keyring.signer)

    def _log_key(self) -> SigningKey:
        return SigningKey.from_bytes(self._keyring.log)


def log_folder(folder: StoreFolder, tenant: str) -> str:
    """Return where a tenant's log lies: the default one's at the top, any other's under the digest of its name."""
    if tenant == DEFAULT_TENANT:
        return folder.log
    return os.path.join(folder.log, "tenants", sha256(tenant.encode("utf-8", "surrogatepass")).hexdigest()[:32])


def origins(folder: StoreFolder) -> dict[str, str]:
    """Return each tenant's origin, as its log's folder names it. Raises DamagedStore."""
    found = {}
    tenants = os.path.join(folder.log, "tenants")
    others = [os.path.join(tenants, name) for name in os.listdir(tenants)] if os.path.isdir(tenants) else []
    for place in [folder.log, *sorted(others)]:
        path = os.path.join(place, ORIGIN_FILE)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        tenant = _tenant_of(text[:-1])
        if not text.endswith("\n") or tenant is None or log_folder(folder, tenant) != place:
            raise DamagedStore(f"{path} names no origin of this log; restore it from a backup")
        found[tenant] = text[:-1]
    return found


def older_than_anchor(folder: StoreFolder, environ: Mapping[str, str]) -> str | None:
    """Say which log's published checkpoint is smaller than the one that was anchored, or gone; None where none is.

    Two small files a log, so that every command can ask. Whether the log only lost what can be made again, the sealer
    finds out; what is damaged, whoever reads it.
    """
    anchor = Anchor(environ)
    try:
        here = origins(folder)
        for origin in {*here.values(), *anchor.origins(folder.store_id)}:
            kept = anchor.kept(origin)
            if kept is None:
                continue
            tenant = _tenant_of(origin)
            said = TileLog.published(log_folder(folder, tenant)) if tenant and here.get(tenant) == origin else None
            size = note.Checkpoint.parse(said).size if said is not None else 0
            anchored = note.Checkpoint.parse(kept).size
            if size < anchored:
                return (
                    f"{folder.path}: journal older than the anchor: {anchor.path(origin)} is a checkpoint over "
                    f"{anchored} leaves, the store's own over {size}"
                )
    except (DamagedStore, OSError):
        pass
    return None


def _tenant_of(origin: str) -> str | None:
    """Return whose log an origin names, or None where it is none (evidence.md, "Log")."""
    read = _ORIGIN.fullmatch(origin)
    return read[1] if read else None


def boot_id() -> str:
    """Return what tells this start of the machine from others, or `unknown`."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"

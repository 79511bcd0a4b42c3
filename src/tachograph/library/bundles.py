"""`tacho verify FILE.tacho`: a bundle checked with no store, no network and no key of ours.

Payloads are parsed only after their signature; content is believed item by item as its commitment opens. What is not
there is `withheld` only if EXPORT says so, `not_captured` only if the signed states say so; else it is missing.

Whoever packs a bundle can register keys of his own in a log of his own. So a capture's log, and what EXPORT says of it,
count only where its own signer vouches for them: it registered the log's key, and it signed EXPORT.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from tachograph.canonical import canonical
from tachograph.errors import FormatError
from tachograph.formats.answers.verify import CheckItem, Checks, ContentItem, VerifiedItem, VerifyAnswer
from tachograph.formats.bundle.names import EXPORT
from tachograph.formats.bundle.reading import Bundle, read_bundle
from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.capture_check import examine
from tachograph.intake import signed
from tachograph.library.tenantlog import failed, not_checked, ok
from tachograph.library.verifying import coverage_of, identity_of
from tachograph.signing import dsse, merkle, note
from tachograph.signing.events import LOG, SIGNER, UNDETERMINED, VALID, History, Logged, Place
from tachograph.signing.identity import Pins
from tachograph.signing.keys import KeyRefused, PublicKey, from_reference

_DIGESTS = re.compile(r'"sha256:([0-9a-f]{64})"')


class BundleVerifier:
    """Verifies the captures of one bundle."""

    def __init__(self, source: str | os.PathLike[str] | bytes, *, trust: Sequence[str] = ()) -> None:
        """Read the container. Raises BundleRefused, OSError, UsageError for a pin that names nothing."""
        self.bundle: Bundle = read_bundle(source)
        self._pins = Pins.brought(trust)
        self.faults: list[str] = []
        self._exporter: PublicKey | None = None
        self._checkpoint = self.bundle.read("log/checkpoint") if "log/checkpoint" in self.bundle else b""
        self._said: note.Checkpoint | None = None
        self._signed: dict[str, tuple[dict[str, Any], bytes, bytes]] = {}
        for name in self.bundle.envelopes:
            self._open(name)
        self._read_checkpoint()
        self._history = self._read_history()
        self.consistency = self._check_checkpoint()
        self._withheld = self._read_export()

    def _open(self, name: str) -> None:
        """Keep a payload whose signature is that of the key that it names."""
        member = f"envelopes/{name}.dsse.json"
        try:
            read = dsse.read_envelope(self.bundle.read(member))
            said = json.loads(read.payload)
            key = from_reference(said["sealing"]["signer"]["publicKeyRef"])
            ((_, signature),) = read.signatures
            if not key.verify(signature, dsse.pae(read.payload_type, read.payload)):
                raise FormatError("the signature is not that of the key that the payload names")
            if said.get("decisionId", said.get("statementId")) != name:
                raise FormatError("the payload is another one's")
            if canonical(said) != read.payload:
                raise FormatError("the payload is not in its canonical form")
            kind = dsse.CAPTURE_TYPE if "decisionId" in said else signed.STATEMENT_TYPE
            if read.payload_type != kind:
                raise FormatError("the payload's type is another one")
            if self.bundle.read(f"signed/{name}.pae") != dsse.pae(kind, read.payload):
                raise FormatError(f"signed/{name}.pae is not what was signed")
            if self.bundle.read(f"signed/{name}.sig") != signature:
                raise FormatError(f"signed/{name}.sig is not the signature")
        except (FormatError, KeyRefused, KeyError, TypeError, ValueError) as fault:
            self.faults.append(f"{member}: {fault}")
            return
        self._signed[name] = said, read.payload, signature

    def _read_history(self) -> History:
        """Return the life of the log's keys, as the key events say that are proved to be in it, in its order."""
        found = []
        for name, (said, _, _) in self._signed.items():
            if said.get("type") == "key" and self._inclusion(name).state == "ok":
                by = from_reference(said["sealing"]["signer"]["publicKeyRef"])
                found.append((int(said["sealing"]["sequence"]), said.get("body"), by))
        found.sort(key=lambda one: one[0])
        origin = "" if self._said is None else self._said.origin
        history = History.of(origin, [Logged(body, by, Place(leaf=leaf)) for leaf, body, by in found])
        self.faults += [f"leaf {one.leaf}: {one.message}" for one in history.faults]
        return history

    def _read_checkpoint(self) -> None:
        try:
            self._said = note.Checkpoint.parse(self._checkpoint)
        except FormatError as fault:
            self.faults.append(f"log/checkpoint: {fault}")

    def _check_checkpoint(self) -> CheckItem:
        if self._said is None:
            return failed("there is no checkpoint", "log/checkpoint")
        if not self._is_log_s():
            return failed("no log key that the log registers signed it", "log/checkpoint")
        return not_checked("one checkpoint alone continues nothing; compare it with one that you know")

    def _is_log_s(self) -> bool:
        """Whether the checkpoint is signed by a key that the log's signer registers as the log's."""
        if self._said is None:
            return False
        try:
            read = note.Note.parse(self._checkpoint)
        except FormatError:
            return False
        keys = [note.Verifier(self._said.origin, key) for key in self._history.keys(LOG)]
        return any(read.verified_by(key) is not None for key in keys)

    def _exported_by(self, key: PublicKey) -> bool:
        """Whether EXPORT is signed by this signer, or by one of the same line."""
        return self._exporter is not None and self._exporter in (key, *self._history.line(key))

    def _read_export(self) -> set[tuple[str, str]]:
        """Return what EXPORT says was withheld; its faults are noted, and then it says nothing."""
        try:
            read = dsse.read_envelope(self.bundle.read(EXPORT))
            said = json.loads(read.payload)
            key = from_reference(said["sealing"]["signer"]["publicKeyRef"])
            ((_, signature),) = read.signatures
            if read.payload_type != signed.STATEMENT_TYPE or said.get("type") != "export":
                raise FormatError("it is no export statement")
            if not key.verify(signature, dsse.pae(read.payload_type, read.payload)):
                raise FormatError("its signature is not that of the key that it names")
            if key not in self._history.keys(SIGNER):
                raise FormatError("its signer is not registered in the log")
            if said["body"]["manifest"] != self.bundle.manifest_digest:
                raise FormatError("it names another MANIFEST.json")
            if sorted(said["body"]["captures"]) != self.bundle.captures:
                raise FormatError("it names other captures than those that are here")
            self._exporter = key
            return {(one["decisionId"], one["pointer"]) for one in said["body"]["withheld"]}
        except (FormatError, KeyRefused, KeyError, TypeError, ValueError) as fault:
            self.faults.append(f"{EXPORT}: {fault}")
            return set()

    # -- one capture

    def verify(self, name: str) -> Checks:
        """Check one capture of the bundle."""
        opened = self._signed.get(name)
        if opened is None:
            none = not_checked("its payload was not signed by the key that it names")
            return Checks(
                identity=none, format=none, signature=failed("see the faults", f"envelopes/{name}.dsse.json"), key=none,
                time=none, inclusion=none, consistency=self.consistency, anchor=none,
                content=ContentItem(state="not_checked", reason=none.reason, items={}), sequence=none, coverage=none,
            )  # fmt: skip
        said, _, _ = opened
        reference = str(said["sealing"]["signer"]["publicKeyRef"])
        key = from_reference(reference)
        registered = self._registered(key, said["sealing"])
        inclusion = self._inclusion(name)
        if inclusion.state == "ok" and not (self._is_log_s() and key in self._history.keys(SIGNER)):
            inclusion = failed("its signer does not register the key that signed the checkpoint", "log/checkpoint")
        document, wrong = self._document(name)
        form = failed(wrong, f"captures/{name}.json") if wrong else self._format(document, said)
        if form.state == "ok" and self._exporter is not None and not self._exported_by(key):
            form = failed(f"{EXPORT} is not signed by its signer", EXPORT)
        return Checks(
            identity=identity_of(self._pins, self._history, key),
            format=form,
            signature=ok(),
            key=registered,
            time=not_checked(f"clock: local; sealed at {said['sealing']['sealedAt']} by it"),
            inclusion=inclusion,
            consistency=self.consistency,
            anchor=not_checked("anchor: none"),
            content=self._content(name, said, document),
            sequence=not_checked("the records before and after it are not in the bundle"),
            coverage=coverage_of(said),
        )  # fmt: skip

    def _registered(self, key: PublicKey, sealing: dict[str, Any]) -> CheckItem:
        """Return the check `key`: nothing in a bundle says whether a checkpoint kept elsewhere covers the leaf."""
        if sealing["signer"]["keyDigest"] != key.key_digest():
            return failed("the key's digest is not the one that the payload states", "/sealing/signer/keyDigest")
        judged = self._history.judge(key, Place(leaf=int(sealing["sequence"])))
        if judged.state == VALID:
            return ok(judged.reason)
        return not_checked(judged.reason) if judged.state == UNDETERMINED else failed(judged.reason)

    def _document(self, name: str) -> tuple[dict[str, Any], str | None]:
        try:
            read = self.bundle.document(f"captures/{name}.json")
        except (BundleRefused, KeyError) as fault:
            return {}, str(fault)
        return (read, None) if isinstance(read, dict) else ({}, "it is no object")

    def _format(self, document: dict[str, Any], said: dict[str, Any]) -> CheckItem:
        if document.get("commitments") != said.get("commitments"):
            return failed("its commitments are not those that were signed", "/commitments")
        named = document.get("signature")
        signer = said["sealing"]["signer"]
        if not isinstance(named, dict) or named.get("publicKeyRef") != signer["publicKeyRef"]:
            return failed("the signature names another key than the payload", "/signature/publicKeyRef")
        return ok()

    def _content(self, name: str, said: dict[str, Any], document: dict[str, Any]) -> ContentItem:
        salts = document.get("salts")
        named = set(_DIGESTS.findall(json.dumps(document)))
        blobs = {digits: self.bundle.read(f"blobs/{digits}") for digits in self.bundle.blobs if digits in named}
        found = examine(said, document, salts=salts if isinstance(salts, dict) else {}, blobs=blobs)
        items: dict[str, Any] = {
            pointer: "not_captured"
            for pointer, state in said.get("evidenceStates", {}).items()
            if state.get("state") in ("absent", "unavailable")
        }
        own = self._exported_by(from_reference(said["sealing"]["signer"]["publicKeyRef"]))
        missing = []
        for pointer, state in found.states.items():
            items[pointer] = state
            if state == "missing" and own and (name, pointer) in self._withheld:
                items[pointer] = "withheld"
            elif state == "missing":
                missing.append(pointer)
        faults = [*found.faults, *(f"{pointer}: missing" for pointer in missing)]
        if faults:
            return ContentItem(
                state="failed", reason="; ".join(faults[:5]), at=faults[0].partition(":")[0], items=items
            )
        return ContentItem(state="ok", items=items)

    def _inclusion(self, name: str) -> CheckItem:
        member = f"log/proofs/{name}.tlog-proof"
        if name not in self._signed or self._said is None or member not in self.bundle:
            return failed("there is no proof", member)
        said, payload, signature = self._signed[name]
        try:
            proof = note.Proof.parse(self.bundle.read(member))
        except FormatError as fault:
            return failed(str(fault), member)
        kind = "capture" if "decisionId" in said else str(said.get("type"))
        leaf = canonical({"payload": "sha256:" + sha256(payload).hexdigest(),
                          "signature": "sha256:" + sha256(signature).hexdigest(), "type": kind})  # fmt: skip
        if proof.checkpoint != self._checkpoint or proof.index != said["sealing"]["sequence"]:
            return failed("it proves another place, or under another checkpoint", member)
        right = merkle.verify_inclusion(
            merkle.leaf_hash(leaf), proof.index, self._said.size, proof.path, self._said.root
        )  # fmt: skip
        if not right or self._said.origin != said["sealing"]["origin"]:
            return failed("its leaf does not stand under the checkpoint", member)
        return ok(f"leaf {proof.index} of {self._said.size}")


def verify_bundle(source: str | os.PathLike[str] | bytes, *, trust: Sequence[str] = ()) -> VerifyAnswer:
    """Check a bundle. Raises BundleRefused where the container is not one, UsageError for a pin that names nothing."""
    verifier = BundleVerifier(source, trust=trust)
    captures, count = [], 0
    for name in verifier.bundle.captures:
        checks = verifier.verify(name)
        count += sum(1 for field in Checks.model_fields if getattr(checks, field).state == "failed")
        captures.append(VerifiedItem(decisionId=name, checks=checks))
    return VerifyAnswer(captures=captures, failed=count + len(verifier.faults), faults=verifier.faults)

"""A sealed record made whole again: its document, its commitments, and the payload that was signed.

The journal keeps the skeleton and the digest of the whole payload; content and secret give the commitments. What comes
out is what was sealed if and only if its digest is the one that was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tachograph.formats import capture_v1, values
from tachograph.formats import frame as fr
from tachograph.formats.capture_v1 import Item
from tachograph.intake import signed
from tachograph.intake.document.assembling import assemble
from tachograph.intake.document.observed import Observed
from tachograph.store.entry import CAPTURE, Entry


@dataclass(frozen=True)
class Rebuilt:
    """A record with its content. `payload` is what was signed, or what came out instead (`whole` says which)."""

    entry: Entry
    items: dict[str, Item]
    payload: bytes

    @property
    def whole(self) -> bool:
        """Whether this is the payload that was sealed."""
        return sha256(self.payload).digest() == self.entry.payload_digest


def rebuild(
    entry: Entry, logs: Iterable[bytes], *, secret: bytes, previous: str, root_at: Callable[[int], str],
    keep_bytes: bool = False,
) -> Rebuilt:  # fmt: skip
    """Put a record together. `logs` are those that its places name, `root_at` gives the log's root at a size.

    Raises FormatError where a log cannot be read as what it says.
    """
    items = content_of(entry, logs, keep_bytes=keep_bytes)
    skeleton = signed.skeleton_of(entry)
    payload = signed.whole(
        entry, previous=previous, root=root_at(skeleton["sealing"]["after"]["treeSize"]),
        commitments=capture_v1.commitments(list(items.values()), secret),
    )  # fmt: skip
    return Rebuilt(entry, items, payload)


def content_of(entry: Entry, logs: Iterable[bytes], *, keep_bytes: bool = False) -> dict[str, Item]:
    """Return a record's items, made from its logs as they were when it was sealed; none of a statement's."""
    decision_id = entry.decision if entry.kind == CAPTURE else None
    about: dict[str, Any] | None = None
    names: list[fr.Frame] = []
    frames: list[fr.Frame] = []
    for log in logs:
        read = list(fr.read_log(log))
        said = next((values.decode(frame.payload) for frame in read if frame.kind == fr.ABOUT), None)
        if said is None or said["decisionId"] != decision_id:
            continue  # what another decision left behind, kept with the run's record
        about = about or said
        names += [frame for frame in read if frame.kind in (fr.PATH, fr.SITE)]
        frames += [frame for frame in read if frame.kind not in (fr.PATH, fr.SITE, fr.ABOUT)]
    if about is None:
        return {}
    number = int(about["number"])
    observed = Observed.of(frames, about, number=number, names=names, whole=keep_bytes)
    opened = next((fact.said for fact in observed.log.of(fr.OPEN) if fact.decision == number), {}) if number else {}
    run = observed.log.first(fr.RUN) or observed.log.first(fr.PROCESS)
    run = {**run, "around": observed.log.first(fr.AROUND) or run.get("around")}
    made = assemble(
        observed, run_id=entry.run, decision_id=decision_id, opened=opened, run=run, failed=False,
        version_of=lambda kind, digest: "v0",
    )  # fmt: skip
    divided = capture_v1.divide(made.document, made.blobs, made.trees)
    return {item.pointer: item for item in divided.items}

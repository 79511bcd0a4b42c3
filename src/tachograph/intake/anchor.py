"""The anchor: copies of checkpoints kept apart from the store (evidence.md, "Anchor").

A cut tail, a rollback of the whole store or a log rewritten by its key's holder is found only against a checkpoint that
lies elsewhere. Every checkpoint is copied to the anchor folder, by default under `$XDG_STATE_HOME/tachograph`.
Invariants:

- what is kept of a log is replaced by nothing but a larger checkpoint that continues it;
- beside it stands which logs a store has had, so that a log under another name does not pass for a new one;
- a folder that cannot be written is no error: `anchor: none`, said in one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from hashlib import sha256

from tachograph.errors import DamagedStore, FormatError, Refused
from tachograph.signing.note import Checkpoint
from tachograph.store.disk import DISK, Disk

VARIABLE = "TACHO_ANCHOR"
Root = Callable[[int], bytes]
"""Gives a log's root at a size that it has."""


class OlderThanAnchor(Refused):
    """The store is not the one whose checkpoint was kept, or an older copy of it: nothing is sealed into it."""

    code = "older_than_anchor"

    def __init__(self, message: str, *, reason: str = "older_than_anchor") -> None:
        super().__init__(message, reason=reason)


class Anchor:
    """The anchor folder of this account."""

    def __init__(self, environ: Mapping[str, str], *, disk: Disk = DISK) -> None:
        home = _state_home(environ)
        self.folder = environ.get(VARIABLE) or (os.path.join(home, "tachograph", "anchors") if home else "")
        self._disk = disk
        self.fault: str | None = None

    def path(self, origin: str) -> str:
        """Return where an origin's newest checkpoint is kept."""
        return os.path.join(self.folder, sha256(origin.encode()).hexdigest()[:32])

    def keep(self, store_id: str, origin: str, checkpoint: bytes, root: Root) -> None:
        """Keep a checkpoint; where that fails, or would take back what is kept, `fault` says why. Raises nothing."""
        if not self.folder:
            self.fault = f"anchor: none (no HOME and no {VARIABLE})"
            return
        try:
            self.fault = self.contradicted(origin, Checkpoint.parse(checkpoint).size, root)
            if self.fault is not None:
                return
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            known = self.origins(store_id)
            if origin not in known:
                self._disk.create(self.known_logs(store_id), "".join(f"{one}\n" for one in [*known, origin]).encode())
            self._disk.create(self.path(origin), checkpoint)
        except OSError as fault:
            self.fault = f"anchor: none ({self.folder}: {fault.strerror or fault})"

    def kept(self, origin: str) -> bytes | None:
        """Return the checkpoint kept of an origin, or None."""
        return self._read(self.path(origin))

    def origins(self, store_id: str) -> list[str]:
        """Return the origins of the logs that a store has had, as far as a checkpoint of them was kept."""
        text = (self._read(self.known_logs(store_id)) or b"").decode("utf-8", "replace")
        return [line for line in text.split("\n") if line]  # and not `splitlines`, which takes other bytes for an end

    def contradicted(self, origin: str, size: int, root: Root) -> str | None:
        """Say why a log of `size` leaves does not continue what was kept of it; None where it does, or none was."""
        kept = self.kept(origin)
        if kept is None:
            return None
        path = self.path(origin)
        try:
            said = Checkpoint.parse(kept)
        except FormatError as fault:
            return f"{path}: the anchored checkpoint does not parse: {fault}"
        if said.origin != origin:
            return f"{path}: the anchored checkpoint is of another log, {said.origin}"
        if said.size > size:
            return (
                f"{path}: a checkpoint over {said.size} leaves was anchored, and the log has {size}: cut, or set back"
            )
        try:
            same = root(said.size) == said.root
        except DamagedStore as fault:
            return str(fault)
        return None if same else f"{path}: the log's root at size {said.size} is not the anchored one: rewritten"

    def known_logs(self, store_id: str) -> str:
        """Return where it is kept which logs a store has had: an origin a line."""
        return os.path.join(self.folder, f"{store_id}.origins")

    def _read(self, path: str) -> bytes | None:
        if not self.folder:
            return None
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None


def _state_home(environ: Mapping[str, str]) -> str | None:
    state = environ.get("XDG_STATE_HOME") or ""
    if os.path.isabs(state):
        return state
    home = environ.get("HOME") or ""
    return os.path.join(home, ".local", "state") if os.path.isabs(home) else None

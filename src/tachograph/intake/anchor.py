"""The anchor: copies of checkpoints kept apart from the store (evidence.md, "Anchor").

A cut tail, a rollback of the whole store or a log rewritten by its key's holder is found only against a checkpoint that
lies elsewhere. Every checkpoint is copied to the anchor folder, by default under `$XDG_STATE_HOME/tachograph`. A folder
that cannot be written is no error: `anchor: none`, said in one line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256

from tachograph.store.disk import DISK, Disk

VARIABLE = "TACHO_ANCHOR"


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

    def keep(self, origin: str, checkpoint: bytes) -> None:
        """Keep a checkpoint; where that fails, `fault` says why and nothing is raised."""
        if not self.folder:
            self.fault = f"anchor: none (no HOME and no {VARIABLE})"
            return
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self._disk.create(self.path(origin), checkpoint)
            self.fault = None
        except OSError as fault:
            self.fault = f"anchor: none ({self.folder}: {fault.strerror or fault})"

    def kept(self, origin: str) -> bytes | None:
        """Return the checkpoint kept of an origin, or None."""
        if not self.folder:
            return None
        try:
            with open(self.path(origin), "rb") as file:
                return file.read()
        except OSError:
            return None


def _state_home(environ: Mapping[str, str]) -> str | None:
    state = environ.get("XDG_STATE_HOME") or ""
    if os.path.isabs(state):
        return state
    home = environ.get("HOME") or ""
    return os.path.join(home, ".local", "state") if os.path.isabs(home) else None

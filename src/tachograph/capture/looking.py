"""Looking around a program while it runs already, so that its start waits for nothing.

A thread of `tacho run`: it is done after some ten milliseconds, and after `LIMIT_S` at the latest where git takes
longer. What it found is one `around` frame of the run, before the last one.
"""

from __future__ import annotations

from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from tachograph.capture.around import FIELDS, Around, image_digest
from tachograph.capture.dependencies import distributions, folders_of
from tachograph.capture.image import surroundings
from tachograph.capture.uncommitted import uncommitted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

LIMIT_S = 3.0
"""How long git may take: `git status` of 70,000 files takes under a second once they are cached."""
_REST_S = 2.0  # for what is read besides


def look(argv: Sequence[str], cwd: str, environ: Mapping[str, str], *, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """Return all that a run says of its code and surroundings. Raises OSError where that cannot be looked at."""
    until = monotonic() + limit_s
    around = Around(argv, cwd, environ)
    changed = ""
    if around.repository is not None and around.commit is not None:
        changed = uncommitted(around.repository, around.commit, environ=environ, until=until)
    around.code(changed)
    python = around.entry.python
    folders = None if python is None else folders_of(python, environ)
    around.dependencies(folders)
    image = image_digest(environ)
    if image is None and python is not None:
        found = distributions(folders or ())
        image = surroundings(python, found, argv=argv, cwd=cwd, environ=environ)
    if image is not None:
        around.said["containerImageDigest"] = image
    else:
        around.missing("interpreter_unknown", "containerImageDigest")
    return around.said


class Looking:
    """The thread that looks; `tell` is given what it found."""

    def __init__(
        self, argv: Sequence[str], cwd: str, environ: Mapping[str, str], tell: Callable[[dict[str, Any]], None]
    ) -> None:
        self._what = argv, cwd, dict(environ)
        self._tell = tell
        self._thread = Thread(target=self._look, daemon=True)  # what hangs on a dead disk must not keep us

    def start(self) -> None:
        """Begin, beside everything else. Raises RuntimeError where no thread can be made."""
        self._thread.start()

    def finish(self) -> None:
        """Wait until it is done, but no longer than it may take."""
        if self._thread.ident is not None:
            self._thread.join(LIMIT_S + _REST_S)

    def _look(self) -> None:
        try:
            found = look(*self._what)
        except Exception:  # noqa: BLE001 - the program's edge: whatever lies around it, its run is recorded
            found = {"missing": dict.fromkeys(FIELDS, "failed")}
        self._tell(found)

"""Start recording inside a process: injected by `tacho run`, or asked for by `tachograph.install()`.

`start(settings)` is what the injected `sitecustomize` calls; `begin(...)` finds the store itself. Both patch the seams
(each transport when the program imports it), make a recorder the listener, and arrange for the process's last frame and
for forks. Installing twice is the same as installing once.
"""

from __future__ import annotations

import atexit
import os
import sys

from tachograph.capture.facts import read_key
from tachograph.capture.listening import SharedListeners
from tachograph.capture.recorder import Recorder
from tachograph.seams import context, imports, listeners, port, transports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_recorder: Recorder | None = None


def process_facts() -> dict[str, Any]:
    """What this process says of itself in its first frame."""
    version = sys.version_info
    return {
        "python": f"{version.major}.{version.minor}.{version.micro}",
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "binary": os.path.realpath("/proc/self/exe"),  # `sys.executable` is a guess from what it was told to be
        "argv": list(sys.orig_argv),
        "hashSeed": os.environ.get("PYTHONHASHSEED", ""),
        "watchesFiles": True,
    }


def start(settings: dict[str, str]) -> None:
    """Record this process into the spool that `tacho run` named. Raises OSError if it cannot be written."""
    record(
        folder=settings["SPOOL"],
        run_id=settings["RUN"],
        public=bytes.fromhex(settings["PUBLIC"]),
        tag_file=settings["TAGFILE"],
        require=bool(settings.get("REQUIRE")),
        facts=process_facts(),
        inside=settings.get("INSIDE", ""),
    )


def record(
    *, folder: str, run_id: str, public: bytes, tag_file: str, require: bool, facts: dict[str, Any],
    inside: str = "",
) -> Recorder:  # fmt: skip
    """Make a recorder the listener of every seam. Raises OSError if the spool cannot be written.

    `inside`: process id, decision and effect in which the process was started, where it was in any.
    """
    global _recorder
    tag_key = read_key(tag_file)
    recorder = Recorder(folder, run_id=run_id, public=public, tag_key=tag_key, facts=facts, require=require)
    transports.install()
    listeners.share(SharedListeners(folder, run_id))
    for name, fault in imports.failures:
        recorder.note("bypassed.seam", f"{name}: {type(fault).__name__}: {fault}")
    if inside:
        decision, effect = recorder.adopt(*map(int, inside.split()))
        context.decision.set(decision)
        context.enclosing.set(effect)
    port.listen(recorder)
    os.register_at_fork(after_in_child=_forked)
    atexit.register(recorder.finish)  # registered before the program's own handlers, so it runs after them
    _recorder = recorder
    return recorder


def _forked() -> None:
    if _recorder is not None and port.current is _recorder:
        if context.starting.get():  # by `subprocess`, to become another program
            port.listen(None)
        else:
            _recorder.forked()


def recording() -> Recorder | None:
    """Return the recorder of this process, if it records."""
    return _recorder

"""The replayed program's side: read the tape, close the world, answer from the record, report.

One inherited descriptor holds the tape (its first `TAPE_SIZE` bytes) and, on the next page, the ledger that all
processes of the replay share (`LEDGER_SIZE` bytes); behind it the report is appended, frame by frame: it survives
whatever the program does. The child probes from inside that a connection is refused before the program starts, and says
so; nothing is claimed that was not tried. Standard library only.
"""

from __future__ import annotations

import atexit
import mmap
import os
import posix
from time import monotonic_ns

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import read_for_playback
from tachograph.replay.ledger import Ledger, place_behind
from tachograph.replay.playback import Playback
from tachograph.seams import context, imports, listeners, port, transports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


MOST_TOUCHED = 16 << 20  # bytes of the tape whose pages may stay


def reporter(fd: int) -> Callable[[int, int, bytes], None]:
    """Return a function that appends one frame to the report."""

    def report(kind: int, effect: int, payload: bytes) -> None:
        frame = fr.Frame(kind, 0, 0, effect, 0, 0, monotonic_ns(), b"", payload).written()
        os.write(fd, fr.LENGTH.pack(len(frame)) + frame)

    return report


def probe() -> dict[str, Any]:
    """Try to leave, from inside: connect to loopback and start a program. Returns what was refused."""
    held: dict[str, Any] = {"connect": False, "start": False}
    import _socket  # not `socket`: a program that never imports it must not pay for it

    with_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        with_socket.connect(("127.0.0.1", 9))
    except PermissionError:
        held["connect"] = True
    except OSError:
        pass
    finally:
        with_socket.close()
    try:
        posix.posix_spawn("/nonexistent", ["tachograph-probe"], {})
    except PermissionError:
        held["start"] = True
    except OSError:
        pass
    return held


class _Probing:
    """The listener while the world is probed: it refuses, and keeps no record of our own attempts."""

    answers = True
    asleep = True

    def note(self, what: str, detail: str) -> None:
        raise PermissionError(13, f"probe: {what} {detail}")

    def passed(self, what: str, detail: str) -> None:
        """Nothing is claimed while the world is probed."""

    def installed(self) -> None:
        """The program does not run yet."""

    def will_write(self, path: str) -> None:
        """Nothing that we open ourselves is the program's."""

    def will_read(self, path: str) -> None:
        """Nor what we read."""


def start(settings: dict[str, str]) -> None:
    """Replay this process from the tape that the engine handed over. Where that fails, the process ends: never live."""
    try:
        _start(settings)
    except Exception as fault:  # noqa: BLE001 - whatever it was, the program must not run without us
        os.write(
            2, f"tachograph: this process cannot be replayed ({type(fault).__name__}: {fault}): stopping\n".encode()
        )
        os._exit(127)


def _start(settings: dict[str, str]) -> None:
    fd, size = int(settings["TAPE"]), int(settings["TAPE_SIZE"])
    os.set_inheritable(fd, False)
    report = reporter(fd)
    at = place_behind(size)
    memory = mmap.mmap(fd, at + int(settings["LEDGER_SIZE"]))
    view = memoryview(memory)
    touched = forgetting(memory, size)
    log = read_for_playback(view[:size].toreadonly(), touched)
    ledger = Ledger(log.effects, fd=fd, memory=view[at:], counted=bool(settings.get("COUNTED")))
    ledger.paced = bool(settings.get("PACE"))
    playback = Playback(
        log, report=report, asleep=not log.of(fr.RUN), ledger=ledger, lends=(fd,), touched=touched
    )  # fmt: skip
    playback.guarded = settings.get("GUARD") != "off"
    transports.install()
    listeners.share(ledger)
    port.listen(_Probing())  # type: ignore[arg-type]
    held = probe() if playback.guarded else {}
    report(fr.READY, 0, values.encode({"held": held, "seamsFailed": [name for name, _ in imports.failures]}))
    os.register_at_fork(
        before=lambda: ledger.before_fork(counts=not context.starting.get()),
        after_in_parent=ledger.after_fork,
        after_in_child=lambda: _forked(ledger, playback),
    )
    atexit.register(playback.finish)
    context.decision.set(int(settings.get("DECISION") or 0))
    if settings.get("INBOUND") and context.process() == context.ROOT == "0":
        from tachograph.replay.driving import Drive  # here and not at the top: few replays send a request

        playback.openings.drive = Drive(playback, int(settings["INBOUND"]), report)
    port.listen(playback)


def forgetting(memory: mmap.mmap, size: int) -> Callable[[int], None]:
    """Return what is told how many bytes of the tape were read: it lets go of the tape's pages when they are many.

    They are the memory file's, and come again where they are read again; here they would count as the program's.
    """
    read = 0

    def touched(count: int) -> None:
        nonlocal read
        read += count
        if read > MOST_TOUCHED and hasattr(mmap, "MADV_DONTNEED"):
            read = 0
            memory.madvise(mmap.MADV_DONTNEED, 0, size)

    return touched


def _forked(ledger: Ledger, playback: Playback) -> None:
    ledger.after_fork()
    if context.starting.get():  # by `subprocess`, to become another program
        port.listen(None)
    else:
        playback.forked()

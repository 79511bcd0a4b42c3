"""The engine: start the program again in a closed world, hand it the tape, and collect what it did.

Tape, ledger and report share one memory file that is never on disk: all processes of the replay read its first part,
agree in the second on what is consumed, and append frames to the third, so a report survives whatever they do. After
the first miss the child has 5 s; after 100 misses, or when nothing moves for longer than the whole recorded run took
and 30 s more, it is ended, and the result says so.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay import ledger
from tachograph.replay.confinement.launcher import World
from tachograph.replay.confinement.possible import AUTO, WAYS
from tachograph.replay.confinement.probes import Doors
from tachograph.replay.confinement.watching import Settings
from tachograph.replay.plan import temp_folders
from tachograph.seams import injection
from tachograph.supervision import supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tachograph.formats.effect_log import EffectLog
    from tachograph.replay.plan import Launch

REPLAY = "tachograph.replay.child"
AFTER_MISS_S = 5.0
MOST_MISSES = 100
STILL_S = 30.0


@dataclass
class Outcome:
    """What a replayed program did: its end, its streams, and the frames of its report."""

    exit_code: int
    signal: int | None
    stdout: bytes
    stderr: bytes
    ended_by: str | None
    duration_s: float
    frames: list[fr.Frame] = field(default_factory=list)
    came_out: list[str] = field(default_factory=list)
    """Doors of this machine through which a probe came out of the closed world."""

    def compared(self, change: Callable[[bytes], bytes]) -> Outcome:
        """Return the outcome with what the program wrote and said of its decisions as it is to be compared."""
        for frame in self.frames:
            if frame.kind in (fr.OUTPUT, fr.CLOSE, fr.REPLY):
                frame.payload = change(frame.payload)
        self.stdout, self.stderr = change(self.stdout), change(self.stderr)
        return self

    def of(self, kind: int) -> list[tuple[fr.Frame, Any]]:
        """Return the report's frames of one kind, decoded."""
        return [(f, values.decode(f.payload) if f.payload else None) for f in self.frames if f.kind == kind]


class _Watch:
    """Collects the program's output, and decides when a replay that went astray is over."""

    def __init__(self, report: _Report, patience_s: float) -> None:
        self.out: list[bytes] = []
        self.err: list[bytes] = []
        self._report = report
        self._patience_s = patience_s
        self._moved = monotonic()
        self._missed_at = 0.0

    def wrote(self, stream: str, data: bytes) -> None:
        (self.out if stream == "stdout" else self.err).append(data)
        self._moved = monotonic()

    def read(self, data: bytes) -> None:
        """What it is fed is known."""

    def started(self, pid: int) -> None:
        """It runs."""

    def tick(self) -> str | None:
        """Say why the child must be ended now, or None."""
        frames, now = self._report.take(), monotonic()
        if frames:
            self._moved = now
        if self._report.misses and not self._missed_at:
            self._missed_at = now
        if self._report.misses >= MOST_MISSES:
            return f"{MOST_MISSES} misses"
        if self._missed_at and now - self._missed_at > AFTER_MISS_S:
            return f"still running {AFTER_MISS_S:.0f} s after its first miss"
        if now - self._moved > self._patience_s:
            return f"no progress for {self._patience_s:.0f} s"
        return None


class _Report:
    """The report as it grows behind the tape."""

    def __init__(self, fd: int, start: int) -> None:
        self._fd = fd
        self._at = start
        self.frames: list[fr.Frame] = []
        self.misses = 0

    def take(self) -> int:
        """Read the frames that came since the last time; returns how many."""
        taken, end = 0, os.fstat(self._fd).st_size
        data = os.pread(self._fd, end - self._at, self._at) if end > self._at else b""
        at = 0
        while at + 4 <= len(data):
            (length,) = fr.LENGTH.unpack_from(data, at)
            if at + 4 + length > len(data):
                break
            try:
                frame = fr.read_frame(data[at + 4 : at + 4 + length])
            except FormatError:
                break
            self.misses += frame.kind == fr.MISS
            self.frames.append(frame)
            at += 4 + length
            taken += 1
        self._at += at
        return taken


def memory_file(tape: Iterable[bytes], log: EffectLog) -> tuple[int, int, int]:
    """Return a descriptor of a file with the tape, given in parts, and an empty ledger behind it.

    Also how long the tape is, and where the report begins behind both.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tachograph-tape", 0)
    else:
        with tempfile.TemporaryFile() as file:  # unlinked before its first byte
            fd = os.dup(file.fileno())
    size = 0
    for part in tape:
        rest = memoryview(part)
        size += len(rest)
        while rest:
            rest = rest[os.write(fd, rest) :]
    start = ledger.place_behind(size) + ledger.size_for(log.effects)
    os.ftruncate(fd, start)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd, size, start


def tape_settings(fd: int, size: int, log: EffectLog) -> dict[str, str]:
    """Return what the replayed program is told of the memory file."""
    return {
        "TAPE": str(fd), "TAPE_SIZE": str(size), "LEDGER_SIZE": str(ledger.size_for(log.effects)),
        "LIBS": injection.libraries(), "UNWATCHED_EXIT": "127",  # a process that cannot be answered must not run
    }  # fmt: skip


def own_ports(log: EffectLog) -> tuple[int, ...]:
    """Return the ports that the recorded run was given for listeners of its own."""
    return tuple(sorted({draw.value for draw in log.draws if draw.site[0] == "socket.bind"}))


def run_again(
    plan: Launch, tape: Iterable[bytes], log: EffectLog, *, confinement: str = AUTO, lent_folder: str | None = None,
    lay_out: Callable[[], list[str]] | None = None, pace: bool = False,
) -> Outcome:  # fmt: skip
    """Start the planned program over the tape and wait for its end. Raises OSError if it cannot be started at all.

    `confinement`: a key of `possible.WAYS`, so that a test can show what each part holds alone. `lent_folder`: a folder
    that the replay may write to where no overlay can be made; so may it to the run's temp folders. `lay_out` makes
    files what they were before the run, inside an overlay. `pace`: wait as long as the recorded program did.
    """
    ways, guarded = WAYS[confinement]
    fd, size, start = memory_file(tape, log)
    doors = Doors()
    try:
        report = _Report(fd, start)
        last = max((arrival.at_ns for effect in log.effects for arrival in effect.arrivals), default=0)
        watch = _Watch(report, STILL_S + 2 * last / 1e9)
        settings = {**tape_settings(fd, size, log), **plan.settings}
        if not guarded:
            settings["GUARD"] = "off"
        if pace:
            settings["PACE"] = "1"
        folders = (*temp_folders(plan), *([lent_folder] if lent_folder is not None else []))
        needed = tuple(map(os.path.realpath, (plan.cwd, *temp_folders(plan))))
        terminal = "terminal" in plan.kinds
        world = World(
            Settings(ways, fd, terminal, doors.targets, folders, (*own_ports(log), *plan.ports), lay_out, needed)
        )
        environment = {**plan.environment, "PYTHONHASHSEED": plan.hash_seed}
        began = monotonic()
        ending = supervisor.supervise(
            plan.argv,
            env=injection.inject(environment, entry=REPLAY, settings=settings),
            cwd=plan.cwd,
            umask=plan.umask,
            kinds=supervisor.StreamKinds(*plan.kinds, columns=plan.columns, rows=plan.rows),
            watcher=watch,
            pass_fds=(fd,),
            stdin_bytes=plan.stdin,
            forward=False,
            on_tick=watch.tick,
            surrounding=world if ways else None,
        )
        report.take()
        return Outcome(
            exit_code=ending.exit_code, signal=ending.signal, stdout=b"".join(watch.out), stderr=b"".join(watch.err),
            ended_by=getattr(ending, "ended_by", None), duration_s=monotonic() - began, frames=report.frames,
            came_out=doors.passed(),
        )  # fmt: skip
    finally:
        doors.close()
        os.close(fd)

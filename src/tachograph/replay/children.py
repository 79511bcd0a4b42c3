"""The run's other processes in a replay: which are run again, and whether they behave as they did.

A program that the recorded one started is run again if it was a Python that recorded itself: the record has a process
on the child's task path, with the process id that was started, whose arguments end in the command's. So a shell that
merely led to a Python is not run; its stub is played, and what was recorded on its path is consumed with it. Nothing
else is ever started.

A child that runs again is watched as it was in the recording: what it is fed must be what it was fed, and what its
parent reads of it, and its exit status, are compared; a difference stands in the report at the effect's answer.
Standard library only.
"""

from __future__ import annotations

import os

from tachograph.comparison.leaves import common_prefix
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay.stub import StubOf
from tachograph.seams.context import is_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tachograph.formats.effect_log import EffectLog
    from tachograph.model.effect import Effect
    from tachograph.replay.playback import Playback

_BEFORE, _SHOWN = 40, 400  # bytes of an output that a divergence shows: before the first difference, and in all
_DIGITS = str.maketrans("", "", "0123456789")
_STREAMS = {1: "stdout", 2: "stderr"}


class Recorded:
    """The processes that recorded themselves, by their task paths."""

    def __init__(self, log: EffectLog) -> None:
        self._log = log
        self._facts: list[dict[str, Any]] = [fact.said for fact in log.of(fr.PROCESS)]

    def runs_again(self, effect: Effect) -> bool:
        """Say whether the started program of this effect was a Python that recorded itself."""
        path, args = effect.child_path, effect.command["args"]
        return bool(path) and any(
            said.get("path") == path and said.get("pid") == effect.child_pid and _ends_in(said.get("argv"), args)
            for said in self._facts
        )

    def may_start(self, what: str, words: list[str], path: str) -> bool:
        """Say whether a process of these words was started on this path in the recorded run, and recorded itself."""
        for said in self._facts:
            there = str(said.get("path"))
            if there == path or (is_worker(there) and is_worker(path)):  # how many a pool starts is its own affair
                argv = said.get("argv") or []
                tail = argv[len(argv) - len(words) :] if len(words) <= len(argv) else [""]
                if not _is_program(said, words[0], tail[0]):
                    continue
                # `multiprocessing` names descriptors and process ids in the command, which are others each time.
                if what == "process.fork_exec" and [word.translate(_DIGITS) for word in argv[1:]] == [
                    word.translate(_DIGITS) for word in words[1:]
                ]:
                    return True
                if tail[1:] == words[1:]:
                    return True
        return False

    def inside(self, effect: Effect) -> Iterator[Effect]:
        """Return what was recorded in the process that this effect started, and in those that it started."""
        path = effect.child_path
        if path:
            below = path + "/"
            yield from (one for one in self._log.effects if one.path == path or one.path.startswith(below))


def _is_program(said: dict[str, Any], file: str, script: str) -> bool:
    """Say whether `file` is the interpreter of that process, or the script that named it."""
    known = [str(said.get(name) or "") for name in ("executable", "binary")]
    if "/" not in file:  # looked up on PATH
        return file in [word.rpartition("/")[2] for word in (*known, script)]
    return file == script or os.path.realpath(file) in map(os.path.realpath, filter(None, known))


def _ends_in(argv: Any, args: list[str]) -> bool:
    """Say whether a Python that says it was started as `argv` is what this command started.

    Before the command's words may stand the interpreter that a script names in its first line; and a script that was
    found on PATH has its folder before its name. A wrapper is another program, though it becomes Python.
    """
    if not isinstance(argv, list) or len(argv) < len(args) or not args:
        return False
    tail = argv[len(argv) - len(args) :]
    return bool(tail[1:] == args[1:]) and str(tail[0]).rpartition("/")[2] == args[0].rpartition("/")[2]


class ChildOf(StubOf):
    """A Python child that is run again: watched, and held against what its parent saw of it in the recorded run."""

    __slots__ = ("_differs", "_ended", "_read")

    def __init__(self, playback: Playback, effect: Effect) -> None:
        super().__init__(playback, effect, None)
        self.again, self.path = True, effect.child_path
        self._read = {1: b"", 2: b""}
        self._differs: set[str] = set()
        self._ended = False

    def chunk(self, data: bytes, stream: int = 0) -> None:
        """Compare what the parent reads of it so far."""
        if stream in self._read:
            self._read[stream] += data
            recorded = self._effect.output(stream)
            if not recorded.startswith(self._read[stream]):
                self._differ(_STREAMS[stream], *_shown(recorded, self._read[stream]))

    def exited(self, status: int) -> None:
        """Compare how it ended."""
        if not self._ended:
            self._ended = True
            if self._effect.exit_status is not None and status != self._effect.exit_status:
                self._differ("status", self._effect.exit_status, status)

    def finish(self) -> None:
        """The parent ends: what it has not read by now it never will."""
        for stream, name in _STREAMS.items():
            recorded = self._effect.output(stream)
            if recorded != self._read[stream]:
                self._differ(name, *_shown(recorded, self._read[stream]))
        if self._effect.exit_status is not None and not self._ended:
            self._differ("status", self._effect.exit_status, None)

    def _differ(self, what: str, recorded: Any, replayed: Any) -> None:
        if what not in self._differs:
            self._differs.add(what)
            said = {"path": f"/answer/{what}", "recorded": recorded, "replayed": replayed}
            self._playback.answered_otherwise(self._effect, values.encode(said))


def _shown(recorded: bytes, replayed: bytes) -> tuple[str, str]:
    start = max(0, common_prefix(recorded, replayed) - _BEFORE)
    ours, theirs = (data[start : start + _SHOWN].decode("utf-8", "backslashreplace") for data in (recorded, replayed))
    return ours, theirs

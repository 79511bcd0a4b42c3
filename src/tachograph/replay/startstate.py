"""The start state: the files that a run wrote, as they were before it; and how it left them.

Code and files that a run only read are today's; a file that it wrote must stand as it was before its first write, or
the replay begins where the run ended. Pure: read from the log, nothing is touched here. Rules:

- of several processes that kept the same path, the earliest state is the one before the run, the latest the one after;
- a file that was opened for writing and left as it was counts as read: today's is used, and named where it changed;
- paths below the run's folder are those below `cwd` where a replay is given another one; all others stay;
- what was not kept (larger than 64 MB, no regular file, its parts lost) is in `not_kept` with the reason, and a final
  state that no process told (it was killed) in `not_told`: neither is compared, and neither is invented.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tachograph.formats import frame as fr
from tachograph.formats.file_state import ABSENT, FILE, SPECIAL, FileState, states_of

if TYPE_CHECKING:
    from collections.abc import Set

    from tachograph.formats.effect_log import EffectLog


@dataclass(frozen=True)
class StartState:
    """Files by absolute path, in the folder of the replay.

    `files` is what must stand there before the program starts (`absent` ones must not be there), `written` how the
    recorded run left what it wrote, `opened` what it opened for writing and left as it was.
    """

    cwd: str
    files: dict[str, FileState] = field(default_factory=dict)
    written: dict[str, FileState] = field(default_factory=dict)
    opened: dict[str, FileState] = field(default_factory=dict)
    not_kept: dict[str, str] = field(default_factory=dict)
    not_told: dict[str, str] = field(default_factory=dict)

    @property
    def known(self) -> set[str]:
        """Every path that the run is known to have opened for writing."""
        return {*self.files, *self.written, *self.opened, *self.not_kept, *self.not_told}

    @property
    def lasting(self) -> list[str]:
        """The paths where a replay without a world of its own would change what is there, sorted.

        Files that came and went with the run (a temporary folder, a lock file) are none of them.
        """
        return sorted(
            path
            for path in {*self.files, *self.written, *self.not_kept, *self.not_told}
            if self._stood(path, self.files) or self._stood(path, self.written)
        )

    def _stood(self, path: str, states: dict[str, FileState]) -> bool:
        return path not in states or states[path].kind != ABSENT


def start_state(log: EffectLog, *, cwd: str | None = None) -> StartState:
    """Read a run's start state from its log, with the paths below its folder moved to `cwd`.

    Raises FormatError where a frame is not what it says.
    """
    old = recorded_folder(log)
    here = cwd or old
    state = StartState(here)
    before: dict[str, FileState] = {}
    for path, kept in states_of(log.facts, fr.FILE_BEFORE):
        before.setdefault(moved(path, old, here), kept)
    after = {moved(path, old, here): left for path, left in states_of(log.facts, fr.FILE_AFTER)}
    same = {path for path, kept in before.items() if path in after and kept.holds_as(after[path])}
    for path, kept in before.items():
        left = after.get(path)
        if path in same and kept.kind != ABSENT and not beside(path, before.keys() - same):
            state.opened[path] = kept
            continue
        if left is None:
            state.not_told[path] = "no process told how it was left"
        else:
            state.written[path] = left
        reason = _not_kept(kept)
        if reason is None:
            state.files[path] = kept
        else:
            state.not_kept[path] = reason
    return state


_BESIDE = ("-wal", "-journal", "-shm")


def beside(path: str, paths: Set[str]) -> list[str]:
    """Return which of these paths belong to the same SQLite database: it, its log and its journal stand together."""
    base = database_of(path)
    return [one for one in (base, *(base + end for end in _BESIDE)) if one in paths and one != path]


def database_of(path: str) -> str:
    """Return the database that a log or journal stands beside; any other path as it is."""
    return next((path[: -len(end)] for end in _BESIDE if path.endswith(end)), path)


def _not_kept(kept: FileState) -> str | None:
    if kept.kind == SPECIAL:
        return "no regular file"
    if kept.kind == FILE and not kept.content:
        return f"its {kept.size} bytes from before the run were not kept"
    return None


def recorded_folder(log: EffectLog) -> str:
    """Return the folder that the run was started in."""
    said: dict[str, Any] = log.first(fr.RUN) or log.first(fr.PROCESS)
    return os.path.normpath(str(said.get("cwd") or "/"))


def watches_files(log: EffectLog) -> bool:
    """Say whether the recorder kept files at all: one of an earlier version did not, and then nothing is compared."""
    return any(fact.said.get("watchesFiles") for fact in log.of(fr.PROCESS))


def without_files(tape: bytes) -> bytes:
    """Return a tape without the files' frames: a replayed program needs none of them, but what rides in them."""
    parts, start, at = [], 0, 0
    while at + fr.LENGTH.size < len(tape):
        after = at + fr.LENGTH.size + int(fr.LENGTH.unpack_from(tape, at)[0])
        if tape[at + fr.LENGTH.size] in _FILES:
            parts += [tape[start:at], _draws_alone(tape[at + fr.LENGTH.size : after])]
            start = after
        at = after
    return b"".join([*parts, tape[start:]]) if parts else tape


def _draws_alone(written: bytes) -> bytes:
    """What was drawn before a file's frame rides in it."""
    frame = fr.read_frame(written)
    if not frame.draws:
        return b""
    return fr.write_log([fr.Frame(fr.DRAWS, 0, frame.decision, 0, frame.path, 0, frame.at_ns, frame.draws, b"")])[0]


_FILES = frozenset((fr.FILE_BEFORE, fr.FILE_AFTER, fr.FILE_PART, fr.FILES_READ))


def moved(path: str, old: str, new: str) -> str:
    """Return a path of the record as it is in the replay's folder."""
    if old in ("/", new):
        return path
    if path == old or path.startswith(old + os.sep):
        return os.path.normpath(os.path.join(new, os.path.relpath(path, old)))
    return path


def named(path: str, cwd: str) -> str:
    """Return a path as a step of a JSON pointer: relative to the folder where it lies below it."""
    inside = path.startswith(cwd.rstrip(os.sep) + os.sep) and cwd != os.sep
    shown = os.path.relpath(path, cwd) if inside else path
    return shown.encode("utf-8", "backslashreplace").decode().replace("~", "~0").replace("/", "~1")

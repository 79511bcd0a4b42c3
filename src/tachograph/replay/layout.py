"""Lay out a start state: make the files under a folder what they were before the run.

Only where nothing of the user's can be lost: inside an overlay, or in a folder that `--cwd` names. Files that the run
did not write are never touched: a folder that it made is taken away only where nothing else stands in it. Standard
library only: the launcher of a closed world does this before it starts the program.
"""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISREG

from tachograph.formats.file_state import ABSENT, FILE, FOLDER, LINK, FileState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def lay_out(files: Mapping[str, FileState]) -> list[str]:
    """Make each path what its state says. Returns the paths where that failed, each with the reason."""
    failed = []
    for path in sorted((one for one, state in files.items() if state.kind == ABSENT), reverse=True):
        failed += _tried(path, _remove, path)
    for path in sorted(one for one, state in files.items() if state.kind == FOLDER):
        failed += _tried(path, _make_folder, path, files[path])
    for path, state in files.items():
        if state.kind == FILE and state.content:
            failed += _tried(path, _write, path, state)
        elif state.kind == LINK:
            failed += _tried(path, _link, path, state)
    return failed


def _tried(path: str, act: object, *given: object) -> list[str]:
    try:
        act(*given)  # type: ignore[operator]
    except OSError as fault:
        return [f"{path}: {fault.strerror or fault}"]
    return []


def _remove(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
        if not S_ISDIR(mode):
            os.unlink(path)
        elif not os.listdir(path):
            os.rmdir(path)
    except (FileNotFoundError, NotADirectoryError):
        pass


def _make_folder(path: str, state: FileState) -> None:
    if not os.path.isdir(path):
        os.makedirs(path)
        os.chmod(path, state.mode or 0o755)


def _write(path: str, state: FileState) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        if not S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)  # a link that has come there since: its target is not the run's
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(state.data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fchmod(fd, state.mode or 0o644)
        if state.mtime_ns:
            os.utime(fd, ns=(state.mtime_ns, state.mtime_ns))
    finally:
        os.close(fd)


def _link(path: str, state: FileState) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        os.unlink(path)
    os.symlink(state.target, os.fsencode(path))

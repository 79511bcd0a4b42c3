"""What of a work tree is not in its commit, as one digest.

`git status` says which files; what stands in them is read here, so that the digest hangs on no setting of git's. It is
SHA-256 over a line per file, by path: the path, what it is (file, executable, link, folder, gone) and its SHA-256.
Files that git ignores do not count. What is said holds for the moment of asking, shortly after the program's start.

Nothing of the repository's own is run: no hook, no file system monitor, no filter that its own settings name, no
program in a submodule; no lock is taken, nothing is written, nothing is fetched. Runs beside the program, never in it.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING

from tachograph.capture.repository import find_repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tachograph.capture.repository import Repository

MOST_FILES = 10_000
_PIECE = 1 << 20
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "-uall", "--no-renames", "--ignore-submodules=dirty")
_FILTERS = ("config", "--show-scope", "-z", "--name-only", "--get-regexp", r"^filter\..")
_OWN_SCOPES = (b"local", b"worktree")
_QUIET = {
    "core.fsmonitor": "false", "core.hooksPath": os.devnull, "core.untrackedCache": "false", "protocol.allow": "never",
}  # fmt: skip
_FIELDS = {b"1": 8, b"u": 10, b"?": 1}  # parts of a line before its path


class _Unknown(Exception):
    """Why nothing is known: a reason code."""


def uncommitted(
    repository: Repository, commit: str, *, environ: Mapping[str, str], until: float, most: int = MOST_FILES
) -> str:  # fmt: skip
    """Return what follows the commit in a code version.

    Nothing where all is committed, `+sha256:` and 64 hex digits where it is not, `+unknown:` and a reason code where
    that could not be found out: `git_missing`, `git_failed`, `moved` (another commit by now), `too_many` files,
    `timed_out`. `until`: the monotonic time in seconds at which it is given up; `most`: files that are looked into.
    """
    try:
        lines = sorted(_lines(repository, commit, environ, until, most))
    except _Unknown as fault:
        return f"+unknown:{fault}"
    return f"+sha256:{sha256(b''.join(lines)).hexdigest()}" if lines else ""


def _lines(
    repository: Repository, commit: str, environ: Mapping[str, str], until: float, most: int
) -> Iterator[bytes]:  # fmt: skip
    settings = dict(_QUIET)
    parts = _git(repository, _FILTERS, settings, environ, until, fine=(0, 1)).split(b"\0")  # 1: there are none
    for scope, name in zip(parts[::2], parts[1::2], strict=False):
        if scope in _OWN_SCOPES:
            owner = os.fsdecode(name.rpartition(b".")[0])
            settings |= {f"{owner}.clean": "", f"{owner}.process": "", f"{owner}.required": "false"}
    said = _git(repository, _STATUS, settings, environ, until).split(b"\0")
    if b"# branch.oid " + commit.encode() not in said:
        raise _Unknown("moved")
    paths = []
    for line in said:
        if line[:1] in _FIELDS:
            paths.append(line.split(b" ", _FIELDS[line[:1]])[-1])
    if len(paths) > most:
        raise _Unknown("too_many")
    for path in paths:
        yield b"%s\0%s\n" % (path, _state(os.path.join(os.fsencode(repository.root), path), until))


def _state(path: bytes, until: float) -> bytes:
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return b"link " + sha256(os.readlink(path)).hexdigest().encode()
        if stat.S_ISDIR(mode):  # a submodule, or a repository of its own
            inner = find_repository(os.fsdecode(path))
            return b"folder " + ((inner.commit() if inner else None) or "").encode()
        if not stat.S_ISREG(mode):
            return b"special"
        found = sha256()
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
            while piece := file.read(_PIECE):
                found.update(piece)
                if monotonic() > until:
                    raise _Unknown("timed_out")
        return (b"executable " if mode & stat.S_IXUSR else b"file ") + found.hexdigest().encode()
    except (FileNotFoundError, NotADirectoryError):
        return b"gone"
    except OSError:
        return b"unread"


def _git(
    repository: Repository, words: tuple[str, ...], settings: Mapping[str, str], environ: Mapping[str, str],
    until: float, *, fine: tuple[int, ...] = (0,),
) -> bytes:  # fmt: skip
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for place, (name, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{place}": name, f"GIT_CONFIG_VALUE_{place}": value}
    try:
        # A session of its own: the keys and signals of the program's terminal are the program's.
        process = subprocess.Popen(
            ["git", *words], cwd=repository.root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError:
        raise _Unknown("git_missing") from None
    except OSError:
        raise _Unknown("git_failed") from None
    try:
        said, _ = process.communicate(timeout=max(0.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise _Unknown("timed_out") from None
    if process.returncode not in fine:
        raise _Unknown("git_failed")
    return said

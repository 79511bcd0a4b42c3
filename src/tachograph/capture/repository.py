"""Which commit a folder's code is of: read from git's own files, so that no program is started for it.

Read are `.git` (a folder, or the file that a worktree or submodule has in its place), `HEAD`, loose and packed refs.
A repository whose refs are kept otherwise (reftable) has no commit here. Standard library only, and cheap to import:
`tachograph.install()` reads it inside the program.
"""

from __future__ import annotations

import os

_MOST_BYTES = 64 << 20  # of packed-refs
_MOST_LINKS = 5  # symbolic refs that lead to one another: git's own bound
_LENGTHS = (40, 64)  # hex digits of SHA-1 and of SHA-256


class Repository:
    """A work tree at `root`; its own git folder, and the one that it shares with other worktrees."""

    __slots__ = ("common", "git", "root")

    def __init__(self, root: str, git: str) -> None:
        self.root = root
        self.git = git
        shared = _text(os.path.join(git, "commondir")).strip()
        self.common = os.path.normpath(os.path.join(git, shared)) if shared else git

    def commit(self) -> str | None:
        """Return the hex digits of the commit that is checked out, None where there is none or it is kept otherwise."""
        said = _text(os.path.join(self.git, "HEAD")).strip()
        for _ in range(_MOST_LINKS):
            if not said.startswith("ref:"):
                return said if is_commit(said) else None
            said = self._ref(said[4:].strip())
        return None

    def _ref(self, name: str) -> str:
        if not name.startswith("refs/") or ".." in name.split("/"):
            return ""
        for folder in (self.git, self.common):
            said = _text(os.path.join(folder, name)).strip()
            if said:
                return said
        for line in _text(os.path.join(self.common, "packed-refs")).splitlines():
            digits, _, packed = line.partition(" ")
            if packed == name:
                return digits
        return ""


def find_repository(folder: str) -> Repository | None:
    """Return the repository whose work tree holds a folder, as git would find it from there, or None."""
    folder = os.path.realpath(folder)
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(git):
            said = _text(git).strip()
            git = os.path.join(folder, said[7:].strip()) if said.startswith("gitdir:") else git
        if os.path.isfile(os.path.join(git, "HEAD")):
            return Repository(folder, os.path.normpath(git))
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def is_commit(text: str) -> bool:
    """Say whether a text is the name of a commit: 40 or 64 hex digits."""
    return len(text) in _LENGTHS and all(digit in "0123456789abcdef" for digit in text)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return ""

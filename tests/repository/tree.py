"""The tracked tree as values: what the tests in this folder look at.

Only what git tracks is looked at, so that a scratch file never fails a test and a forgotten one never passes it.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Tracked:
    """One tracked file: its path relative to the root, with forward slashes, and its text."""

    path: str
    text: str

    @property
    def is_module(self) -> bool:
        return self.path.endswith(".py")

    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=self.path)


@functools.cache
def tracked() -> tuple[Tracked, ...]:
    """Every tracked file that still exists. Bytes that are no UTF-8 are read as Latin-1, so that they are searched."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(
        Tracked(path, _text((ROOT / path).read_bytes()))
        for path in listed.split("\0")
        if path and (ROOT / path).is_file()
    )


def modules(*folders: str) -> tuple[Tracked, ...]:
    """The tracked Python modules, all of them or those below `folders` ("src/", "tests/")."""
    return tuple(f for f in tracked() if f.is_module and (not folders or f.path.startswith(folders)))


def pages() -> tuple[Tracked, ...]:
    """The tracked Markdown pages."""
    return tuple(f for f in tracked() if f.path.endswith(".md"))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")

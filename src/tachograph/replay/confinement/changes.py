"""What a program changed in its closed world: found in the upper layers when it has ended.

Guarantees:
- Each file, link and folder that was made, changed or deleted is named once, with where its present content lies; one
  that only took another time or mode, or was opened for writing and left as it was, is not.
- A folder that was deleted, or emptied and made anew, is told file by file.
- Order is that of the paths. Nothing is followed: a link is a link.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from tachograph.replay.confinement.file_tree import LAYERS, NEW, OLD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tachograph.replay.confinement.file_tree import Tree

MADE, CHANGED, DELETED = "made", "changed", "deleted"
_OPAQUE = "user.overlay.opaque"
_PIECE = 1 << 20


class Change(NamedTuple):
    """One path of the world, what happened to it, and where the warden finds what is there now (empty if nothing)."""

    path: str
    what: str
    place: str


def changes(tree: Tree) -> Iterator[Change]:
    """Every change in the world, by its path within each layer."""
    for layer in sorted(tree.layers):
        yield from _in_layer(f"{LAYERS}/{layer.name}/upper", OLD + layer.path, layer.path)
    for folder, made in sorted(tree.remade.items()):
        yield from _in_remade(folder, made, tree)


def _in_layer(upper: str, lower: str, path: str) -> Iterator[Change]:
    for entry in sorted(os.scandir(upper), key=lambda one: one.name):
        here, below = f"{path.rstrip('/')}/{entry.name}", f"{lower}/{entry.name}"
        found = entry.stat(follow_symlinks=False)
        before = _mode(below)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
            yield from _gone(below, here, before)
        elif not entry.is_dir(follow_symlinks=False):
            if stat.S_ISDIR(before):
                yield from _gone(below, here, before)
            if not before or stat.S_ISDIR(before):
                yield Change(here, MADE, entry.path)
            elif not _same(entry.path, below, found.st_mode, before):
                yield Change(here, CHANGED, entry.path)
        elif stat.S_ISDIR(before):
            if _is_opaque(entry.path):
                yield from _hidden(entry.path, below, here)
            yield from _in_layer(entry.path, below, here)
        else:
            yield Change(here, CHANGED if before else MADE, entry.path)
            yield from _in_layer(entry.path, below, here)


def _in_remade(folder: str, made: frozenset[str], tree: Tree) -> Iterator[Change]:
    """A folder that is no overlay: what stands in it now against what was put there, and its copies of files."""
    present = set(os.listdir(NEW + folder))
    for name in sorted(present | made):
        path = os.path.join(folder, name)
        if name not in present:
            yield Change(path, DELETED, "")
        elif name not in made:
            yield from _all_of(path)
        elif path in tree.copies:
            found = os.lstat(NEW + path)
            touched = (found.st_size, found.st_mtime_ns) != tree.copies[path] or not stat.S_ISREG(found.st_mode)
            if touched and not _same(NEW + path, OLD + path, found.st_mode, _mode(OLD + path)):
                yield Change(path, CHANGED, NEW + path)


def _all_of(path: str) -> Iterator[Change]:
    yield Change(path, MADE, NEW + path)
    if stat.S_ISDIR(_mode(NEW + path)):
        for name in sorted(os.listdir(NEW + path)):
            yield from _all_of(f"{path}/{name}")


def _gone(below: str, path: str, before: int) -> Iterator[Change]:
    if before:
        yield Change(path, DELETED, "")
        if stat.S_ISDIR(before):
            yield from _hidden("", below, path)


def _hidden(upper: str, lower: str, path: str) -> Iterator[Change]:
    """What a folder held that was deleted, but for the names that were made anew in `upper`."""
    try:
        names = os.listdir(lower)
    except OSError:
        return
    for name in sorted(names):
        if not upper or not os.path.lexists(f"{upper}/{name}"):
            yield from _gone(f"{lower}/{name}", f"{path}/{name}", _mode(f"{lower}/{name}"))


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE, follow_symlinks=False) in (b"y", b"x")
    except OSError:
        return False


def _same(one: str, other: str, mode: int, before: int) -> bool:
    if stat.S_IFMT(mode) != stat.S_IFMT(before):
        return False
    if stat.S_ISLNK(mode):
        return os.readlink(one) == os.readlink(other)
    if not stat.S_ISREG(mode):
        return True
    if os.lstat(one).st_size != os.lstat(other).st_size:
        return False
    try:
        with open(one, "rb") as file, open(other, "rb") as before_file:
            while piece := file.read(_PIECE):
                if piece != before_file.read(_PIECE):
                    return False
    except OSError:
        return False
    return True

"""The seam of files: says what the program is about to write, and what it reads, before it does.

Fed by the audit hook of `hooks`, whoever opens (the program, a library, `sqlite3` through its own C code). A listener
hears of each path once per process, absolute and with the links of its folders followed:

- `will_write` before a file is opened for writing, made, replaced, cut, linked, moved or removed, and before a folder
  is made or removed; of a database also what SQLite may put beside it;
- `will_read` before a file is opened for reading only, but for installed code: the standard library, site-packages.

Neither for devices, `/proc` and `/sys`, nor for caches of compiled code. Not seen: native code that opens files itself;
paths relative to a descriptor in `os.open(..., dir_fd=)`, which are taken as relative to the working folder.

Cheap where nothing is new: an open of a known path is a look-up in a set (0.2 us).
"""

from __future__ import annotations

import os
from _thread import get_ident

from tachograph.seams import port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOBODYS = ("/dev/", "/proc/", "/sys/")
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_CACHE = os.sep + "__pycache__"
_MOST_KNOWN = 50_000  # paths remembered as they were given; then all are looked at anew
_MOST_MOVED = 2_000  # entries of a folder that is moved as a whole

_written: set[Any] = set()
_read: set[Any] = set()
_inside: set[int] = set()  # threads in which a listener looks at a file just now: its own opens are nobody's


def _open(event: str, args: tuple[Any, ...]) -> None:
    path, _, flags = args
    try:
        if flags & _WRITES:
            if path not in _written:
                _writes(path, _written)
        elif path not in _read:
            _reads(path)
    except TypeError:  # a path of the program's own kind that has no hash
        if flags & _WRITES:
            _writes(path, _written)


def _name(path: Any, folder: Any = -1) -> str | None:
    """Return a path as text, absolute; None where it is a descriptor or no path at all."""
    if isinstance(path, int) or path is None:
        return None
    try:
        name = os.fsdecode(path)
        if not name or "\0" in name:
            return None
        if isinstance(folder, int) and folder >= 0 and not name.startswith(os.sep):
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
        return os.path.abspath(name)
    except (TypeError, ValueError, OSError):
        return None


def _writes(path: Any, known: set[Any] | None = None, *, folder: Any = -1, itself: bool = False) -> None:
    """Tell of a write. `itself`: the name is changed, and not what a link of that name leads to."""
    if get_ident() in _inside:
        return
    name = _name(path, folder)
    if name is not None and not name.startswith(_NOBODYS) and _CACHE not in name:
        if itself:
            above, _, last = name.rpartition(os.sep)
            name = os.path.join(os.path.realpath(above or os.sep), last)
        else:
            name = os.path.realpath(name)
        _told(name)
    if known is not None:  # only now: another thread that opens the same file waits for the listener
        _remember(known, path)


def _told(name: str) -> None:
    listener = port.current
    if listener is None:
        return
    thread = get_ident()
    _inside.add(thread)
    try:
        listener.will_write(name)
    finally:
        _inside.discard(thread)


def _reads(path: Any) -> None:
    if get_ident() in _inside:
        return
    _remember(_read, path)
    if type(path) is str and (path.endswith(".pyc") or path.startswith((_LIBRARY, _OURS))):
        return
    name = _name(path)
    if name is None or name.startswith(_NOBODYS) or name.startswith((_LIBRARY, _OURS)):
        return
    if _CACHE in name or any(part in name for part in _INSTALLED):
        return
    listener = port.current
    if listener is not None:
        listener.will_read(os.path.realpath(name))


def _remember(known: set[Any], path: Any) -> None:
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known.add(path)


def _database(event: str, args: tuple[Any, ...]) -> None:
    path = _name(args[0])
    given = os.fsdecode(args[0]) if path is not None else ""
    if not given or given == ":memory:" or "mode=memory" in given or given.startswith("file::memory:"):
        return
    if given.startswith("file:"):
        from urllib.parse import unquote, urlsplit  # here: only for a database that is named by an address

        parts = urlsplit(given)
        path = _name(unquote(parts.path))
        if path is None or "mode=ro" in parts.query or "immutable=1" in parts.query:
            if path is not None:
                _reads(path)
            return
    for end in ("", "-wal", "-journal"):
        _writes(f"{path}{end}")


def _removed(event: str, args: tuple[Any, ...]) -> None:
    _writes(args[0], folder=args[-1], itself=True)


def _made(event: str, args: tuple[Any, ...]) -> None:
    _writes(args[0], folder=args[-1], itself=True)


def _cut(event: str, args: tuple[Any, ...]) -> None:
    _writes(args[0])


def _linked(event: str, args: tuple[Any, ...]) -> None:
    _writes(args[1], folder=args[-1], itself=True)


def _moved(event: str, args: tuple[Any, ...]) -> None:
    source, target, source_folder, target_folder = args
    _writes(source, folder=source_folder, itself=True)
    _writes(target, folder=target_folder, itself=True)
    here, there = _name(source, source_folder), _name(target, target_folder)
    if here is None or there is None or not os.path.isdir(here) or os.path.islink(here):
        return
    count = 0
    for above, folders, names in os.walk(here):
        for name in (*folders, *names):
            count += 1
            if count > _MOST_MOVED:
                return
            inside = os.path.join(above, name)
            _writes(inside, itself=True)
            _writes(os.path.join(there, os.path.relpath(inside, here)), itself=True)


def _elsewhere(event: str, args: tuple[Any, ...]) -> None:
    """The working folder changes: what was known by a relative name is another file now."""
    for known in (_written, _read):
        for path in [one for one in tuple(known) if not str(one).startswith(os.sep)]:
            known.discard(path)


EVENTS: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
    "open": _open, "os.rename": _moved, "os.remove": _removed, "os.rmdir": _removed, "os.mkdir": _made,
    "os.truncate": _cut, "os.link": _linked, "os.symlink": _linked, "sqlite3.connect": _database,
    "os.chdir": _elsewhere, "os.fchdir": _elsewhere,
}  # fmt: skip

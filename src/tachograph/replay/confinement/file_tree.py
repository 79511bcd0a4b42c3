"""The files of a closed world: everything as it lies on this machine, and nothing written to it.

Each ordinary folder is an overlay whose upper layer lies in memory and ends with the world. Guarantees:
- No write reaches what lay there before; a mount that cannot be overlaid is read-only, and named.
- A folder that the program may not write to stays so; files keep their owners, modes and times.
- Sockets and FIFOs of the machine lead nowhere. /dev has the devices that any program needs and those for computing;
  /sys and the kernel's settings in /proc are read-only.
- What was mounted read-only is so still.

A tree is made of *places*. Only a folder below which nothing is mounted can be an overlay (the kernel would show what
a mount hides), so one that has mounts below it is made anew, entry by entry.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from tachograph.replay.confinement import system_calls as sc

if TYPE_CHECKING:
    from collections.abc import Iterable

BASES = ("/tmp", "/mnt", "/var", "/usr")  # any folder does: it is only hidden from ourselves
OLD, NEW, LAYERS = "/old", "/new", "/layers"
"""Where, for the process that keeps the world, the machine's files are, the world's, and what was written."""

_COPIED_BYTES = 8 << 20  # a file in a folder that cannot be an overlay, up to this size, is a copy; above, read-only
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_COMPUTING = ("nvidia", "dri", "kfd", "accel", "dxg")
_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")  # in /proc: the machine's, not a process's
_EMPTY = frozenset(("autofs", "binfmt_misc", "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs", "configfs"))


class Mount(NamedTuple):
    """A mount of this machine as /proc/self/mountinfo tells it."""

    path: str
    kind: str
    read_only: bool


class Layer(NamedTuple):
    """An overlay: the folder of the world and where its upper layer lies (both without `OLD`, `NEW` or `LAYERS`)."""

    path: str
    name: str


class Tree(NamedTuple):
    """What was made: the overlays, the copies (path, size and time as made), and what could only be read-only."""

    layers: list[Layer]
    copies: dict[str, tuple[int, int]]
    remade: dict[str, frozenset[str]]
    read_only: list[str]


class Seen(NamedTuple):
    """The machine's tree as seen from outside: in a user namespace foreign owners all look like one."""

    mounts: dict[str, Mount]
    split: frozenset[str]
    found: dict[str, os.stat_result]


def look(needed: Iterable[str]) -> Seen:
    """Look at the mounts, at the folders that have mounts below them, and at those that the program needs."""
    here = mounts()
    split = frozenset(parent for path in here for parent in _parents(path))
    found: dict[str, os.stat_result] = {}
    for folder in split:
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            try:
                found[path] = os.lstat(path)
            except OSError:
                continue
    for path in (*here, *needed):
        try:
            found[path] = os.lstat(path)
        except OSError:
            continue
    return Seen(here, split, found)


def mounts() -> dict[str, Mount]:
    """The visible mounts by their paths; of several on one path, the last is on top."""
    found: dict[str, Mount] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.split()
            mark = words.index("-")
            path = words[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
            read_only = "ro" in words[5].split(",") or "ro" in words[mark + 3].split(",")
            found[path] = Mount(path, words[mark + 1], read_only)
    return found


def build(seen: Seen, *, terminal: bool, needed: Iterable[str] = ()) -> Tree:
    """Make the tree at `NEW`, in a mount namespace of our own. Raises OSError where the kernel refuses.

    `seen` is what `look` saw before the namespaces were left. `terminal`: the program has one of this machine's, so
    that it must see those. `needed`: folders in which it must be able to make files as it could. Afterwards our root
    is a folder in memory with `OLD`, `NEW` and `LAYERS` in it.
    """
    sc.mount(None, "/", None, sc.RECURSIVE | sc.PRIVATE)
    base = next(path for path in BASES if os.path.isdir(path))
    sc.mount("tachograph", base, "tmpfs", sc.NO_SUID | sc.NO_DEV, "mode=755")
    for folder in (OLD, NEW, LAYERS):
        os.mkdir(base + folder)
    sc.pivot_root(base, base + OLD)
    os.chdir("/")
    sc.mount(NEW, NEW, None, sc.BIND)  # only a mount can become a root
    builder = _Builder(seen, terminal=terminal)
    builder.fill_folder("/")
    builder.open_foreign(needed)
    return builder.tree


def insist(tree: Tree, needed: Iterable[str]) -> None:
    """Raise OSError where one of these folders could only be made read-only, or nothing could be overlaid at all.

    Folders are named without links.
    """
    for folder in needed:
        shut = next((path for path in tree.read_only if f"{folder}/".startswith(f"{path}/")), None)
        if shut is not None:
            raise OSError(30, "no overlay can be made over it", shut)
    if not tree.layers:
        raise OSError(30, "no overlay can be made here")


class _Builder:
    def __init__(self, seen: Seen, *, terminal: bool) -> None:
        self._seen = seen
        self._terminal = terminal
        self.tree = Tree([], {}, {}, [])

    def fill_folder(self, path: str) -> None:
        """Make anew a folder that has mounts below it."""
        new = NEW + path
        os.makedirs(new, exist_ok=True)
        for entry in sorted(self._seen.found):
            if entry != path and os.path.dirname(entry) == path:
                try:
                    self._place(entry, self._seen.found[entry])
                except OSError:
                    if entry == "/proc":  # a container hides parts of it, and so lets nobody make a new one
                        raise
                    self.tree.read_only.append(entry)
        self.tree.remade[path] = frozenset(os.listdir(new))
        _like(new, self._seen.found[path])

    def _place(self, path: str, found: os.stat_result) -> None:
        mounted = self._seen.mounts.get(path)
        kind = mounted.kind if mounted is not None else ""
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(OLD + path), NEW + path)
        elif stat.S_ISREG(found.st_mode):
            self._file(path, found)
        elif not stat.S_ISDIR(found.st_mode):
            return
        elif kind == "proc":
            self._proc(path)
        elif path == "/dev":
            self._devices()
        elif kind in ("sysfs", "cgroup", "cgroup2") or (mounted is not None and mounted.read_only):
            self._read_only(path)
        elif kind in _EMPTY:
            os.mkdir(NEW + path)
        elif path in self._seen.split:
            self.fill_folder(path)
        else:
            self._overlay(path, found)

    def open_foreign(self, needed: Iterable[str]) -> None:
        """Give a folder of another user or group an overlay of its own: in one above it, it could not be copied up."""
        known = {layer.path for layer in self.tree.layers} | set(self.tree.remade)
        for path in sorted(set(needed) - known):
            found = self._seen.found.get(path)
            if found is not None and stat.S_ISDIR(found.st_mode) and not _is_ours(found):
                self._overlay(path, found)

    def _overlay(self, path: str, found: os.stat_result) -> None:
        name = str(len(self.tree.layers))
        upper, work = f"{LAYERS}/{name}/upper", f"{LAYERS}/{name}/work"
        os.makedirs(upper)
        os.mkdir(work)
        os.makedirs(NEW + path, exist_ok=True)
        _like(upper, found)
        lower = "".join("\\" + letter if letter in "\\:," else letter for letter in OLD + path)
        options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
        try:
            sc.mount("overlay", NEW + path, "overlay", 0, options)
        except OSError:
            self._read_only(path)
            self.tree.read_only.append(path)
        else:
            self.tree.layers.append(Layer(path, name))

    def _read_only(self, path: str) -> None:
        os.makedirs(NEW + path, exist_ok=True)
        sc.mount(OLD + path, NEW + path, None, sc.BIND | sc.RECURSIVE)
        sc.make_read_only(NEW + path)

    def _file(self, path: str, found: os.stat_result) -> None:
        if found.st_size <= _COPIED_BYTES and os.access(OLD + path, os.R_OK):
            with open(OLD + path, "rb") as source, open(NEW + path, "xb") as copy:
                copy.write(source.read())
            _like(NEW + path, found)
            os.utime(NEW + path, ns=(found.st_atime_ns, found.st_mtime_ns))
            self.tree.copies[path] = (found.st_size, found.st_mtime_ns)
            return
        with open(NEW + path, "xb"):
            pass
        sc.mount(OLD + path, NEW + path, None, sc.BIND)
        sc.make_read_only(NEW + path)

    def _proc(self, path: str) -> None:
        os.makedirs(NEW + path, exist_ok=True)
        sc.mount("proc", NEW + path, "proc", sc.NO_SUID | sc.NO_DEV)
        for name in _SETTINGS:
            place = f"{NEW}{path}/{name}"
            if os.path.exists(place):
                sc.mount(place, place, None, sc.BIND | sc.RECURSIVE)
                sc.make_read_only(place)

    def _devices(self) -> None:
        new, old = NEW + "/dev", OLD + "/dev"
        os.mkdir(new, 0o755)
        computing = [name for name in os.listdir(old) if name.startswith(_COMPUTING)]
        for name in (*_DEVICES, *computing):
            if not os.path.exists(f"{old}/{name}"):
                continue
            if os.path.isdir(f"{old}/{name}"):
                os.mkdir(f"{new}/{name}")
            else:
                with open(f"{new}/{name}", "xb"):
                    pass
            sc.mount(f"{old}/{name}", f"{new}/{name}", None, sc.BIND | sc.RECURSIVE)
        for name, target in _LINKS.items():
            os.symlink(target, f"{new}/{name}")
        os.mkdir(f"{new}/pts", 0o755)
        if self._terminal:
            sc.mount(f"{old}/pts", f"{new}/pts", None, sc.BIND | sc.RECURSIVE)
            with open(f"{new}/ptmx", "xb"):
                pass
            sc.mount(f"{old}/ptmx", f"{new}/ptmx", None, sc.BIND)
        else:
            sc.mount("devpts", f"{new}/pts", "devpts", sc.NO_SUID, "newinstance,ptmxmode=0666,mode=0620")
            os.symlink("pts/ptmx", f"{new}/ptmx")
        if "/dev/shm" in self._seen.found and os.path.isdir(f"{old}/shm"):
            os.mkdir(f"{new}/shm")
            self._overlay("/dev/shm", self._seen.found["/dev/shm"])


def _parents(path: str) -> list[str]:
    parents = []
    while path != "/":
        path = os.path.dirname(path)
        parents.append(path)
    return parents


def _is_ours(found: os.stat_result) -> bool:
    """Whether owner and group of a file are mapped here; root has mapped all."""
    return os.geteuid() == 0 or (found.st_uid, found.st_gid) == (os.geteuid(), os.getegid())


def _like(path: str, found: os.stat_result) -> None:
    """Give `path` the owner and the mode that were found; where the owner is unknown here, what he allowed us."""
    mode = stat.S_IMODE(found.st_mode)
    mine = os.geteuid()
    if found.st_uid != mine:
        try:
            os.chown(path, found.st_uid, found.st_gid)
        except OSError:
            groups = {os.getegid(), *os.getgroups()}
            allowed = (mode >> 3) & 7 if found.st_gid in groups else mode & 7
            mode = (mode & ~0o700) | (allowed << 6)
    elif found.st_gid != os.getegid():
        try:
            os.chown(path, -1, found.st_gid)
        except OSError:
            pass
    os.chmod(path, mode)

"""The book of files: what one process was about to write and what it read, and how both stand when it ends.

Listeners hold one each. It looks at a file before the first write to it, in parts of at most a megabyte per frame, and
again when the process ends. Guarantees:

- a file is looked at once before it is written, however many threads open it; content is kept up to 64 MB, and up to
  256 MB of a process in all; what is not kept is known by size, time and inode;
- at the end content is kept up to 1 MB (a SQLite database: 16 MB, since its bytes mean nothing), the digest up to 1 GB;
- descriptors on databases are left open at the end: closing one would take the program's own locks on the file away;
- nothing raises but what the program's own signal handlers raise.
"""

from __future__ import annotations

import os
from _thread import RLock
from hashlib import sha256
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG
from time import monotonic_ns

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.file_state import FILE, FOLDER, LINK, NOTHING, SPECIAL, FileState, pack_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST, MOST_ALL = 64 << 20, 256 << 20
MOST_LEFT, MOST_DATABASE, MOST_DIGEST = 1 << 20, 16 << 20, 1 << 30
MOST_WRITTEN, MOST_READ = 10_000, 2_000
_PIECE = 1 << 20
_DATABASE = b"SQLite format 3\0"


def look(path: str, *, most: int, digest: int, databases: int = 0) -> FileState:
    """Return what stands at a path, with content up to `most` bytes (`databases` of a SQLite one).

    Its digest is made up to `digest` bytes. Never raises OSError: what cannot be read is known by its size alone.
    """
    try:
        found = os.lstat(path)
        if S_ISLNK(found.st_mode):
            return FileState(LINK, target=os.readlink(os.fsencode(path)))
    except OSError:
        return NOTHING
    facts: dict[str, Any] = {"mode": S_IMODE(found.st_mode), "mtime_ns": found.st_mtime_ns, "inode": found.st_ino}
    if not S_ISREG(found.st_mode):
        return FileState(FOLDER if S_ISDIR(found.st_mode) else SPECIAL, **facts)
    state = FileState(FILE, size=found.st_size, **facts)
    if found.st_size <= max(most, digest, databases):
        try:
            _read(path, state, most=most, databases=databases)
        except OSError:
            pass
    return state


def _read(path: str, state: FileState, *, most: int, databases: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    piece = b""
    try:
        piece = first = os.read(fd, _PIECE)
        is_database = first.startswith(_DATABASE)
        keep = state.size <= (max(most, databases) if is_database else most)
        hashed, parts, size = sha256(), [], 0
        while piece:
            hashed.update(piece)
            size += len(piece)
            if keep:
                parts.append(piece)
            piece = os.read(fd, _PIECE)
        state.digest, state.size = hashed.hexdigest(), size
        if keep:
            state.data, state.content = b"".join(parts), True
    finally:
        if not (databases and state.data.startswith(_DATABASE)):
            os.close(fd)


class FileBook:
    """What one process writes and reads. `tell(kind, payload, decision)` takes a frame; `own` is never looked at."""

    def __init__(
        self, tell: Callable[[int, bytes, int], object], *, own: tuple[str, ...] = (), keep: int = MOST
    ) -> None:
        self._tell = tell
        self._own = own
        self._keep = keep
        self._left = MOST_ALL
        self._lock = RLock()
        self._written: dict[str, int] = {}
        self._read: dict[str, tuple[int, int, int]] = {}
        self._key = b""
        self.forked()

    def forked(self) -> None:
        """In a child after a fork: what was kept before stays kept, and is looked at again when the child ends."""
        self._lock = RLock()
        self._read.clear()
        self._key = b"%d.%d." % (os.getpid(), monotonic_ns())
        self._states = 0

    def will_write(self, path: str, decision: int = 0) -> None:
        """Keep what stands at a path before it is written for the first time."""
        with self._lock:
            if path in self._written or path.startswith(self._own) or len(self._written) >= MOST_WRITTEN:
                return
            if self._keep:
                state = look(path, most=min(self._keep, self._left), digest=0)
                self._left -= len(state.data)
                self._put(fr.FILE_BEFORE, path, state, decision)
            self._written[path] = decision

    def will_read(self, path: str) -> None:
        """Remember a file that is read only: its size, time and inode now, its digest when the process ends."""
        if path in self._written or path in self._read or path.startswith(self._own) or len(self._read) >= MOST_READ:
            return
        try:
            found = os.lstat(path)
        except OSError:
            return
        if S_ISREG(found.st_mode):
            self._read[path] = found.st_size, found.st_mtime_ns, found.st_ino

    @property
    def is_full(self) -> bool:
        """Whether there were more files than are kept."""
        return len(self._written) >= MOST_WRITTEN

    def _put(self, kind: int, path: str, state: FileState, decision: int) -> None:
        self._states += 1
        for number, payload in pack_state(kind, self._key + b"%d" % self._states, path, state):
            self._tell(number, payload, decision)

    def finish(self) -> None:
        """The process ends: tell how it leaves what it wrote, and what it read."""
        for path, decision in list(self._written.items()):
            state = look(path, most=MOST_LEFT, digest=MOST_DIGEST, databases=MOST_DATABASE)
            self._put(fr.FILE_AFTER, path, state, decision)
        read: dict[str, Any] = {}
        for path, known in list(self._read.items()):
            if path not in self._written:
                state = look(path, most=0, digest=MOST)
                same = (state.size, state.mtime_ns, state.inode) == known
                read[path] = [*known[:2], state.digest if same else "", not same]
        if read:
            self._tell(fr.FILES_READ, values.encode(read), 0)

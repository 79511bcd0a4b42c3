"""What the processes of a recorded run tell each other of their listeners: a file beside the spool.

`<run id>.listeners` holds two numbers for each socket with which a process of the run listened, appended in one write:
its inode, and what stands for its path. It is no evidence: it only keeps calls from one process of the run to another
from being taken for calls to the world outside. It is made when something listens first, and intake takes it away.
Where it cannot be written or read, other processes' listeners are not known, and calls to them are recorded or counted
like any other. Standard library only.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

LISTENERS = ".listeners"
_PAIR = struct.Struct("<QQ")


class SharedListeners:
    """The listeners of one run's processes."""

    def __init__(self, folder: str, run_id: str) -> None:
        """`folder` is the store's spool folder."""
        self._path = os.path.join(folder, run_id + LISTENERS)

    def add_listener(self, inode: int, name: int) -> bool:
        """A socket of this process, with that inode number, listens. There is room for all."""
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, _PAIR.pack(inode, name))
            finally:
                os.close(fd)
        except OSError:  # disk full, folder gone: the spool says so
            pass
        return True

    def keep_listeners(self, inodes: Container[int]) -> None:
        """Nothing needs to be forgotten here."""

    def listeners(self) -> frozenset[int]:
        """Return the inode numbers of all sockets with which a process of the run has listened."""
        return frozenset(inode for inode, _ in self._read())

    def names(self) -> frozenset[int]:
        """Return what stands for the paths of unix sockets among them."""
        return frozenset(name for _, name in self._read() if name)

    def _read(self) -> list[tuple[int, ...]]:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(fd, os.fstat(fd).st_size)
            finally:
                os.close(fd)
        except OSError:
            return []
        return list(_PAIR.iter_unpack(data[: len(data) - len(data) % _PAIR.size]))

"""The few operations by which a store becomes durable, in one place.

Everything in the store that must survive a crash is written through a `Disk`; a test passes one that stops between any
two of these steps, or half way through a write, and looks at what is left. Invariants:

- a short write is continued or raises; it is never taken for a whole one;
- `replace` is atomic, and durable once it returns: the folder is synced behind it;
- a failed fsync raises and is never tried again: after it nobody knows what the disk holds (the sealer stops, exit 4).
"""

from __future__ import annotations

import os


class Disk:
    """The real one. Every method raises OSError where the operating system refuses."""

    def write(self, fd: int, data: bytes) -> None:
        """Write all of `data` at the descriptor's place."""
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, memoryview(data)[written:])

    def sync(self, fd: int) -> None:
        """Return once the file's bytes are on the disk."""
        os.fsync(fd)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(fd, size)

    def replace(self, source: str, target: str) -> None:
        """Put a finished file in the place of another, durably."""
        os.replace(source, target)
        self.sync_folder(os.path.dirname(target))

    def remove(self, path: str) -> None:
        """Remove a file; none being there is the wished-for state already."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def sync_folder(self, path: str) -> None:
        """Return once the names in this folder are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def create(self, path: str, data: bytes) -> None:
        """Write a private file whole and durably: under another name first, then in place of what was there."""
        temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                self.write(fd, data)
                self.sync(fd)
            finally:
                os.close(fd)
            self.replace(temporary, path)
        except OSError:
            self.remove(temporary)
            raise


DISK = Disk()

"""One sealer per store: an exclusive lock on `<store>/sealer.lock` (capture-v1, rule 5).

`flock` belongs to the open file, so the lock holds between processes and between threads of one; it ends with the
process, however that ends. Other processes only write spool files and need no lock. Invariants:

- the lock file is never removed: removing it would let two processes each hold a lock on a file of that name;
- a child made by fork and not exec'd would share the lock; sealing processes do not fork.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from types import TracebackType

from tachograph.errors import StoreLocked

NAME = "sealer.lock"
_PAUSE = 0.02  # seconds between two tries: below what a person notices, above what a batch takes


class SealerLock:
    """The right to seal into a store, as a context manager."""

    def __init__(self, store: str) -> None:
        self.path = os.path.join(store, NAME)
        self._fd = -1

    def acquire(self, *, wait: float = 0.0) -> SealerLock:
        """Take the lock, trying for `wait` seconds. Raises StoreLocked, or OSError on a read-only store."""
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as fault:
                left = until - time.monotonic()
                if fault.errno not in (errno.EAGAIN, errno.EACCES) or left <= 0:
                    os.close(fd)
                    if fault.errno in (errno.EAGAIN, errno.EACCES):
                        raise StoreLocked(
                            f"{os.path.dirname(self.path)}: another process seals into this store; what is recorded "
                            "stays in the spool and is taken in by it or by the next command"
                        ) from None
                    raise
                time.sleep(min(_PAUSE, left))
            else:
                self._fd = fd
                return self

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd >= 0

    def release(self) -> None:
        """Give the lock back. Twice is once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> SealerLock:
        return self if self.held else self.acquire()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.release()

"""System calls that the standard library does not offer: tee, send without waiting, inotify.

Guarantees: none of them waits. Where the system has no such call, `HAS_TEE` is false and `Modifications` raises
OSError; the caller then takes a way that needs none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_SPLICE_F_NONBLOCK = 0x02  # linux/splice.h
_IN_MODIFY = 0x02  # linux/inotify.h
_EVENT = struct.Struct("iIII")
_MSG_DONTWAIT, _MSG_NOSIGNAL = 0x40, 0x4000  # linux/socket.h

HAS_TEE = hasattr(_LIBC, "tee")


def tee(source: int, sink: int, size: int) -> int:
    """Copy up to `size` bytes from pipe to pipe and leave them in `source`; 0 at the end of the source.

    Raises BlockingIOError where nothing can be copied now. tee(2).
    """
    copied: int = _LIBC.tee(source, sink, ctypes.c_size_t(size), ctypes.c_uint(_SPLICE_F_NONBLOCK))
    return _checked(copied)


def send_now(fd: int, data: bytes) -> int:
    """Send what fits now into the socket `fd`, whatever its blocking mode is; send(2) with MSG_DONTWAIT.

    Raises BlockingIOError where nothing fits, BrokenPipeError where the reader is gone.
    """
    _LIBC.send.restype = ctypes.c_ssize_t
    sent: int = _LIBC.send(fd, data, ctypes.c_size_t(len(data)), _MSG_DONTWAIT | _MSG_NOSIGNAL)
    return _checked(sent)


class Modifications:
    """Which of some files were written to, in order; inotify(7). Raises OSError where it cannot be watched.

    `paths` has the paths of each file: one may be reached by several, which have events of their own.
    """

    def __init__(self, paths: Sequence[Sequence[str]]) -> None:
        if not hasattr(_LIBC, "inotify_init1"):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self.fd: int = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._places: dict[int, int] = {}
        try:
            for place, names in enumerate(paths):
                for name in names:
                    watch = _checked(_LIBC.inotify_add_watch(self.fd, name.encode(), _IN_MODIFY))
                    self._places[watch] = place
        except OSError:
            os.close(self.fd)
            raise

    def since(self) -> list[int]:
        """The places (in `paths`) of the files written to since the last question; repeated writes may count once."""
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            return []
        # Events of a watched file carry no name, so that all are of one size.
        return [self._places[watch] for watch, _, _, _ in _EVENT.iter_unpack(data) if watch in self._places]

    def close(self) -> None:
        """Stop watching."""
        os.close(self.fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

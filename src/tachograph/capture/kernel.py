"""Two system calls that the standard library does not offer: `tee` and `send` without waiting.

Guarantees: neither waits. `HAS_TEE` says whether the system has the first; where it has not, the caller takes a way
that needs none.
"""

from __future__ import annotations

import ctypes
import os

_LIBC = ctypes.CDLL(None, use_errno=True)
_SPLICE_F_NONBLOCK = 0x02  # linux/splice.h
_MSG_DONTWAIT, _MSG_NOSIGNAL = 0x40, 0x4000  # linux/socket.h

HAS_TEE = hasattr(_LIBC, "tee")


def tee(source: int, sink: int, size: int) -> int:
    """Copy up to `size` bytes from pipe to pipe and leave them in `source`; 0 at the end of the source.

    Raises BlockingIOError where nothing can be copied now. tee(2).
    """
    copied: int = _LIBC.tee(source, sink, ctypes.c_size_t(size), ctypes.c_uint(_SPLICE_F_NONBLOCK))
    if copied < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return copied


def send_now(fd: int, data: bytes) -> int:
    """Send what fits now into the socket `fd`, whatever its blocking mode is; send(2) with MSG_DONTWAIT.

    Raises BlockingIOError where nothing fits, BrokenPipeError where the reader is gone.
    """
    _LIBC.send.restype = ctypes.c_ssize_t
    sent: int = _LIBC.send(fd, data, ctypes.c_size_t(len(data)), _MSG_DONTWAIT | _MSG_NOSIGNAL)
    if sent < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return sent

"""When has the peer read what was sent? Asked of the kernel, not guessed with a sleep.

On Linux `/proc/net/tcp` lists both ends of a loopback connection with the bytes that wait in each. Sent is when
nothing waits at our end, read is when nothing waits at either. Where that list is not there (or the peer is on another
machine) a pause of 20 ms stands in, and chunks may reach the peer joined.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

_TABLE = Path("/proc/net/tcp")
_BLIND_PAUSE_S = 0.02
_POLL_S = 0.0005
# A client that stops reading must not hold the server's thread for ever.
LIMIT_S = 10.0


def wait_until_read(connection: socket.socket, *, stopping: threading.Event, limit_s: float = LIMIT_S) -> bool:
    """Wait until the peer's program has read every byte sent so far.

    Returns whether that was seen; False after `limit_s` seconds, once `stopping` is set, or where the kernel cannot be
    asked.
    """
    return _wait(connection, stopping, ours_only=False, limit_s=limit_s)


def wait_until_sent(connection: socket.socket, *, stopping: threading.Event, limit_s: float = LIMIT_S) -> bool:
    """Wait until every byte lies in the peer's receive queue, whence a reset does not take it back."""
    return _wait(connection, stopping, ours_only=True, limit_s=limit_s)


def _wait(connection: socket.socket, stopping: threading.Event, *, ours_only: bool, limit_s: float) -> bool:
    try:
        here, there = _address(connection.getsockname()), _address(connection.getpeername())
    except OSError:  # the peer has reset already: nothing waits any more
        return False
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        waiting = _waiting(here, there, ours_only=ours_only)
        if waiting is None:
            stopping.wait(_BLIND_PAUSE_S)
            return False
        if waiting == 0:
            return True
        if stopping.wait(_POLL_S):
            return False
    return False


def _waiting(here: str, there: str, *, ours_only: bool) -> int | None:
    """Bytes on their way: in our send queue and, unless `ours_only`, in the peer's receive queue."""
    try:
        lines = _TABLE.read_text().splitlines()[1:]
    except OSError:
        return None
    total, seen = 0, False
    for line in lines:
        columns = line.split()
        sending, receiving = columns[4].split(":")
        if (columns[1], columns[2]) == (here, there):
            total, seen = total + int(sending, 16), True
        elif (columns[1], columns[2]) == (there, here) and not ours_only:
            total += int(receiving, 16)
    return total if seen else None


def _address(name: tuple[str, int]) -> str:
    # The kernel prints the address as it lies in memory: four bytes in the machine's order, here little-endian.
    return f"{socket.inet_aton(name[0])[::-1].hex().upper()}:{name[1]:04X}"

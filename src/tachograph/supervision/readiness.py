"""Which descriptors became ready, in the order in which they did.

Guarantees:
- Each readiness is told once; `exhausted` asks to be told again after a read or write found nothing more to do.
- With epoll the answers of one `wait` come in the order in which the descriptors became ready. stdout and stderr are
  read through two pipes, and this order is all that is left of the order in which the program wrote to the two.
- No timer of its own: with nothing to do it sleeps.
"""

from __future__ import annotations

import select

READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
WRITABLE = select.POLLOUT
BROKEN = select.POLLERR | select.POLLHUP


class Readiness:
    """epoll, edge-triggered, where it exists; elsewhere poll, made to behave alike by forgetting what it has told."""

    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll = select.poll() if self._epoll is None else None
        self._wanted: dict[int, int] = {}

    def watch(self, fd: int, *, read: bool = False, write: bool = False) -> bool:
        """Tell about `fd` from now on (that its other end is gone is always told). False where it cannot be watched."""
        wanted = (select.POLLIN if read else 0) | (select.POLLOUT if write else 0)
        known = fd in self._wanted
        self._wanted[fd] = wanted
        if self._poll is not None:
            self._poll.register(fd, wanted)
        elif self._epoll is not None:
            flags = wanted | select.EPOLLET
            try:
                if known:
                    self._epoll.modify(fd, flags)
                else:
                    self._epoll.register(fd, flags)
            except PermissionError:  # a regular file is always ready and cannot be waited for
                del self._wanted[fd]
                return False
        return True

    def exhausted(self, fd: int) -> None:
        """`fd` had nothing more to give or take: tell when that changes."""
        if self._poll is not None and fd in self._wanted:
            self._poll.register(fd, self._wanted[fd])

    def forget(self, fd: int) -> None:
        """Tell nothing about `fd` any more. To be called before it is closed."""
        if self._wanted.pop(fd, None) is None:
            return
        try:
            if self._epoll is not None:
                self._epoll.unregister(fd)
            elif self._poll is not None:
                self._poll.unregister(fd)
        except (OSError, KeyError):  # told once and forgotten already
            return

    def wait(self, timeout_s: float | None) -> list[tuple[int, int]]:
        """Descriptors and their events, first ready first; an empty list when `timeout_s` seconds have passed."""
        if self._epoll is not None:
            return self._epoll.poll(-1 if timeout_s is None else timeout_s)
        assert self._poll is not None
        told = self._poll.poll(None if timeout_s is None else timeout_s * 1000)
        for fd, _ in told:
            self._poll.unregister(fd)
        return told

    def close(self) -> None:
        """Give the kernel's object back."""
        if self._epoll is not None:
            self._epoll.close()

"""Signals as something that can be read from a descriptor, and the dispositions as they were before.

Guarantees:
- While a `Catcher` is open, the signals it was given do nothing to our process but make `fd` readable.
- `ignored` names those that our process had inherited as ignored, so that the program can inherit the same.
- Closing it puts every handler back. It works in the main thread only (the interpreter's rule).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def _noticed(number: int, frame: object) -> None:
    """The interpreter has written the number to the wake-up descriptor; there is no more to do."""


class Catcher:
    """Catches signals until closed; used as a context manager."""

    def __init__(self, signals: Iterable[int]) -> None:
        self.fd, self._wake = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._wake, False)
        self._before: dict[int, Any] = {}
        self._wakeup_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in signals:
            self._before[number] = signal.signal(number, _noticed)

    @property
    def caught(self) -> frozenset[int]:
        """The signals that are caught."""
        return frozenset(self._before)

    @property
    def ignored(self) -> frozenset[int]:
        """Those of them that were ignored when we came."""
        return frozenset(number for number, handler in self._before.items() if handler is signal.SIG_IGN)

    def arrived(self) -> list[int]:
        """The signals that came since the last question, each once, in order of arrival."""
        try:
            numbers = os.read(self.fd, 4096)
        except BlockingIOError:
            return []
        return list(dict.fromkeys(number for number in numbers if number in self._before))

    def stop_ourselves(self, number: int) -> None:
        """Stop our process as the signal does by default; returns when we are let go on, or if nothing stops us."""
        if number == signal.SIGSTOP:
            os.kill(os.getpid(), number)
            return
        handler = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, handler)

    def close(self) -> None:
        """Put the handlers back as they were."""
        for number, handler in self._before.items():
            if handler is not None:  # None: installed by something else than the interpreter, cannot be put back
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._wake)


def ignored_children() -> frozenset[int]:
    """SIGCHLD, if our process was started with it ignored. It is not caught, and the keeper needs it for itself."""
    return frozenset({signal.SIGCHLD} if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN else ())

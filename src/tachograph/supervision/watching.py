"""The watcher, and the one edge at which its faults end.

Guarantees: a watcher that raises (its disk is full, its store is gone) changes nothing for the program. The exception
is given to its `failed`, if it has one, and everything goes on; the watcher is asked again the next time.
"""

from __future__ import annotations

from typing import Literal, Protocol


class Watcher(Protocol):
    """Sees what a program reads and writes on its standard streams. It may also have `failed(exc: Exception)`."""

    def wrote(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        """The program wrote `data`; called before it is passed on."""

    def read(self, data: bytes, /) -> None:
        """The program's stdin holds `data`: what it took from a pipe, the keys of a terminal, the rest of a file."""

    def started(self, pid: int, /) -> None:
        """The program runs as process `pid`; called before everything else that it causes."""


class Guarded:
    """A watcher whose exceptions end here."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def wrote(self, stream: str, data: bytes) -> None:
        """As the watcher's."""
        try:
            self._watcher.wrote("stderr" if stream == "stderr" else "stdout", data)
        except Exception as fault:  # noqa: BLE001  the program's streams must go on, whatever the recorder runs into
            self.failed(fault)

    def read(self, data: bytes) -> None:
        """As the watcher's."""
        try:
            self._watcher.read(data)
        except Exception as fault:  # noqa: BLE001  as above
            self.failed(fault)

    def started(self, pid: int) -> None:
        """As the watcher's."""
        try:
            self._watcher.started(pid)
        except Exception as fault:  # noqa: BLE001  as above
            self.failed(fault)

    def failed(self, fault: Exception) -> None:
        """Tell the watcher that it failed, if it wants to know."""
        told = getattr(self._watcher, "failed", None)
        if told is not None:
            try:
                told(fault)
            except Exception:  # noqa: BLE001  as above; there is nobody left to tell
                return

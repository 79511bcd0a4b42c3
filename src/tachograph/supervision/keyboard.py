"""Keys of the real terminal, handed to the program's own terminal as they are typed.

Guarantees:
- Keys are read only while the real terminal is taken and we are in its foreground.
- The program's line discipline makes of them what the real one would have made: an edited line, an end of file, a
  signal. A key that signals also signals the other processes of our job (the rest of a pipeline, the script that
  started us), which the real terminal, taken, no longer does.
- A key goes by the modes that the program has set up to that moment, on whichever of its terminals.
"""

from __future__ import annotations

import os
import select
import signal
import termios
from typing import TYPE_CHECKING

from tachograph.supervision.inflow import events_now
from tachograph.supervision.terminal import CC, KEYS, LFLAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tachograph.supervision.echo import Echo
    from tachograph.supervision.readiness import Readiness
    from tachograph.supervision.terminal import Modes, ProgramTerminals, RealTerminal
    from tachograph.supervision.watching import Guarded

_KEYS = 1024  # a quarter of what the line discipline holds
_FULL_S = 0.02  # it took no more because the program reads no keys: look again then


class Keyboard:
    """From the real terminal to the program's, an `inflow.Inflow`.

    `watcher` is None where the program's stdin is something else and the keys reach it by its terminal alone.
    `signal_job` is told the number of the signal for the rest of our job.
    """

    def __init__(
        self, real: RealTerminal, terminals: ProgramTerminals, *, watcher: Guarded | None, readiness: Readiness,
        echo: Echo, signal_job: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._real = real
        self._terminals = terminals
        self._watcher = watcher
        self._readiness = readiness
        self._echo = echo
        self._signal_job = signal_job
        self._pending = b""
        self._literal = False
        self._gone = False
        readiness.watch(real.fd, read=True)

    def fds(self) -> tuple[int, ...]:
        """As `Inflow.fds`."""
        return () if self._gone else (self._real.fd,)

    def run(self) -> float | None:
        """As `Inflow.run`."""
        while self._real.taken and not self._gone and (self._pending or self._read()):
            master = self._terminals.masters.get(KEYS)
            try:
                if master is None:
                    self._gone = True
                else:
                    self._pending = self._pending[os.write(master, self._pending) :]
            except BlockingIOError:
                return _FULL_S
            except OSError:  # hung up
                self._gone = True
        return None

    def _read(self) -> bool:
        if not self._real.in_foreground() or not events_now(self._real.fd, select.POLLIN):
            self._readiness.exhausted(self._real.fd)
            return False
        try:
            keys = os.read(self._real.fd, _KEYS)
        except BlockingIOError:
            self._readiness.exhausted(self._real.fd)
            return False
        except OSError:  # EIO: hung up
            keys = b""
        if not keys:
            self._gone = True
            return False
        if self._watcher is not None:
            self._watcher.read(keys)
        self._echo.typed(keys, self._terminals.agreed)
        self._pending = keys
        if self._real.controlling:
            for number in self._signals_in(keys):
                self._signal_job(number)
        return True

    def _signals_in(self, keys: bytes) -> Iterator[int]:
        """The signals that the program's terminal will make of these keys."""
        modes = self._terminals.agreed
        if not modes[LFLAG] & termios.ISIG:
            return
        meaning = signal_keys(modes)
        quote = modes[CC][termios.VLNEXT] if modes[LFLAG] & termios.IEXTEN else None
        for number in keys:
            key = bytes((number,))
            if self._literal:
                self._literal = False
            elif key == quote:
                self._literal = True
            elif key in meaning:
                yield meaning[key]

    def finish(self) -> None:
        """As `Inflow.finish`."""
        self._readiness.forget(self._real.fd)


def signal_keys(modes: Modes) -> dict[bytes, int]:
    """Which key makes which signal in a terminal of these modes. A key set to NUL is none."""
    keys = {
        modes[CC][termios.VSUSP]: signal.SIGTSTP,
        modes[CC][termios.VQUIT]: signal.SIGQUIT,
        modes[CC][termios.VINTR]: signal.SIGINT,
    }
    return {key: int(number) for key, number in keys.items() if key != b"\0"}

"""How a program ended, and how our own process ends the same way.

Guarantees:
- `Ending` holds what a shell would see: the exit code, or the signal and 128 plus its number.
- `exit_like` leaves by the same door: with the same code, or killed by the same signal, so that whoever started us
  reads from `wait` what the program's parent would have read. It writes no core file of our own process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import NamedTuple, NoReturn


class Ending(NamedTuple):
    """The end of a supervised program.

    `exit_code` is 0 to 255, or 128 plus `signal` where a signal killed it. `ended_by` says why the supervisor ended it
    (what `on_tick` answered, or `deadline`), None where it ended by itself. `refused` is the sentence that a shell
    would say where the program could not be started (exit code 126 or 127), else None. `held_open` names the output
    streams that other processes still held when the grace after the program's end was over: what they write later is
    not seen.
    """

    exit_code: int
    signal: int | None = None
    ended_by: str | None = None
    refused: str | None = None
    held_open: tuple[str, ...] = ()


def from_status(status: int) -> Ending:
    """The ending that a wait status (as from `os.waitpid`) stands for."""
    code = os.waitstatus_to_exitcode(status)
    return Ending(code) if code >= 0 else Ending(128 - code, signal=-code)


def exit_like(ending: Ending) -> NoReturn:
    """End our own process as `ending` says. Buffered output is written first; no exit hook runs."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # the reader is gone or the stream is closed: as for any program that ends
            continue
    if ending.signal is not None:
        # The program's core file, if any, has been written; one of ours would show this process instead of it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if ending.signal not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(ending.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {ending.signal})
        os.kill(os.getpid(), ending.signal)
    os._exit(ending.exit_code)

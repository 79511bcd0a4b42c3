"""Signals, stopping and going on: our process behaves towards the shell as the program would.

Guarantees:
- A signal reaches the program once. One sent to our process alone is sent on. One that the terminal or `kill` sent to
  our whole process group is sent on only where the program stands in another group than we.
- When the program stops, the real terminal gets its modes back and our process stops by the same signal, so that the
  shell sees its job stopped. When the shell lets us go on, the program goes on, in the foreground if we are.
- The real terminal is taken only in the foreground. A program that reads its terminal in the background, or that reads
  it although its stdin is something else, is stopped by the kernel like any other; that tells us that it wants it.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tachograph.supervision import keeper as kp
from tachograph.supervision.keyboard import Keyboard
from tachograph.supervision.streams import window_size

if TYPE_CHECKING:
    from tachograph.supervision.keeper import Keeper
    from tachograph.supervision.signals import Catcher
    from tachograph.supervision.wiring import Wiring

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
CAUGHT = (*FORWARDED, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_FROM_KEYS = frozenset((signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP))
_WANTS_TERMINAL = frozenset((signal.SIGTTIN, signal.SIGTTOU))


class Job:
    """The program as a job of the shell that started us. `keeper` is set once it runs."""

    def __init__(self, wiring: Wiring, catcher: Catcher) -> None:
        self._wiring = wiring
        self._catcher = catcher
        self._self_made: set[int] = set()
        self.keeper: Keeper | None = None
        if wiring.real is not None and wiring.terminals is not None:
            wiring.inflows.append(
                Keyboard(
                    wiring.real,
                    wiring.terminals,
                    watcher=wiring.watcher if wiring.kinds.stdin == "terminal" else None,
                    readiness=wiring.readiness,
                    echo=wiring.echo,
                    signal_job=self.signal_job,
                )
            )

    @property
    def own_session(self) -> bool:
        """Whether the program stands in a session of its own, with a terminal of its own."""
        return self._wiring.controls is not None

    @property
    def taken(self) -> bool:
        """Whether the real terminal is ours now."""
        return self._wiring.real is not None and self._wiring.real.taken

    def take_first(self) -> bool:
        """Before the start: take the terminal if it is the program's stdin and we may; whether it was taken."""
        if self._wiring.kinds.stdin == "terminal":
            self._take()
        return self.taken

    def started(self, keeper: Keeper) -> None:
        """The program has been started by `keeper`."""
        self.keeper = keeper
        if self.taken:
            keeper.tell(kp.TERMINAL_TAKEN)

    def signal_job(self, number: int) -> None:
        """A key was typed that signals: signal the rest of our process group, as the real terminal would."""
        self._self_made.add(number)
        os.killpg(os.getpgrp(), number)

    def follow_modes(self) -> None:
        """The program may have changed its terminals' modes: let all of them, and the real one, agree."""
        terminals, real = self._wiring.terminals, self._wiring.real
        if terminals is not None and terminals.agree() and real is not None:
            real.follow(terminals.agreed)

    def on_signal(self, number: int) -> None:
        """One of `CAUGHT` has arrived."""
        if self.keeper is None or number == signal.SIGCONT:
            return
        if number in self._self_made:
            self._self_made.discard(number)
        elif number == signal.SIGWINCH:
            self._resize()
        elif not self.own_session:
            self.keeper.tell(kp.SIGNAL_UNLESS_SEEN, number)
            if number == signal.SIGTSTP:
                self._catcher.stop_ourselves(number)
                self.keeper.tell(kp.CONTINUE)
        elif number in _FROM_KEYS and not self.taken:
            # Most likely typed at the real terminal, which signals the whole job; the program's group is part of it.
            self.keeper.tell(kp.SIGNAL_GROUP, number)
        else:
            self.keeper.tell(kp.SIGNAL, number)

    def on_stop(self, number: int) -> None:
        """The program was stopped by signal `number`; what it wrote before has been passed on."""
        real = self._wiring.real
        if not self.own_session or self.keeper is None or real is None:
            return
        if number in _WANTS_TERMINAL and not self.taken and real.in_foreground():
            self._take()
        elif self._stop(number):
            if self._wiring.kinds.stdin == "terminal":
                self._take()
            if not self.taken:
                self.keeper.tell(kp.TO_BACKGROUND)
        elif number in _WANTS_TERMINAL:
            # Nobody could let us go on, so the kernel did not stop us. Nobody types here: let it wait for keys.
            self.keeper.tell(kp.TO_FOREGROUND)
        self.keeper.tell(kp.CONTINUE)

    def _stop(self, number: int) -> bool:
        """Stop our process; when this returns it goes on again. False where the kernel did not stop it."""
        had_it = self.taken
        self.give_back()
        self._catcher.arrived()
        self._catcher.stop_ourselves(number)
        arrived = self._catcher.arrived()
        for late in arrived:
            self.on_signal(late)
        stopped = signal.SIGCONT in arrived
        if had_it and not stopped:
            self._take()
        self._resize()
        return stopped

    def _take(self) -> None:
        real, terminals = self._wiring.real, self._wiring.terminals
        if real is not None and terminals is not None and real.in_foreground():
            terminals.adopt(real.modes())
            real.take(terminals.agreed)
            if self.keeper is not None:
                self.keeper.tell(kp.TERMINAL_TAKEN)
                self.keeper.tell(kp.TO_FOREGROUND)

    def give_back(self, *, left: list[object] | None = None) -> None:
        """Put the real terminal's modes back, or those in which the program `left` its own."""
        if self.taken and self._wiring.real is not None:
            self._wiring.real.give_back(left)
            if self.keeper is not None:
                self.keeper.tell(kp.TERMINAL_GIVEN_BACK)

    def _resize(self) -> None:
        terminals = self._wiring.terminals
        if terminals is not None:
            terminals.resize(window_size(self._wiring.first_terminal()))
            if self.own_session and not self.taken and self.keeper is not None:
                self.keeper.tell(kp.SIGNAL_GROUP, signal.SIGWINCH)  # the kernel tells the foreground only

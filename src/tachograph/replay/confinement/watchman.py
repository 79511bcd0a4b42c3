"""The watchman: watches over a program that stays in this machine's namespaces, under Landlock and the filter."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from tachograph.replay.confinement import landlock, probes, seccomp
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.watching import LANDLOCK, Prepared, Watching, end_like
from tachograph.supervision.program import PROBLEM, STARTED_AS


class Watchman(Watching):
    """The leader itself, where the program stays in this machine's namespaces, under Landlock and the filter."""

    way = LANDLOCK
    inside = False

    def found(self) -> NoReturn:
        """Start the program and watch it. Raises OSError or Failed where this way does not hold here."""
        sc.adopt_orphans()
        self.start_program()
        self.watch()

    def prepare(self) -> Prepared:
        sc.own_proc_entry()  # so that our parent may take the listener
        open_ = landlock.restrict(self.settings.folders, self.settings.ports)
        listener = sc.install_filter(seccomp.program(seccomp.SHUT))

        def then() -> dict[str, bool]:
            doors = probes.try_doors(self.settings.targets, write=False)
            return {**doors, "file": probes.try_write(__file__), **probes.try_calls()}

        return Prepared({}, open_, listener, then)

    def last_step(self) -> None:
        sc.die_with_parent()

    def on_start(self) -> None:
        sc.die_with_parent()
        os.write(self._problem, PROBLEM.pack(self._program, STARTED_AS))

    def on_end(self, status: int) -> None:
        for _ in range(3):  # what forks while we look is found the next time
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
                left = [int(word) for word in file.read().split()]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        end_like(status)

"""Start a program so that it notices nothing, while everything it reads and writes on its standard streams is seen.

Live, the program has streams of the kinds that it would have without us, and what passes them goes on at once. In a
replay it has streams of recorded kinds, is fed a recorded stdin, and can be ended. Guarantees:
- Bytes are exact, and shown to the watcher before they are passed on. A watcher that fails harms nothing.
- Signals and keys, the terminal's size, a slow reader, a reader that leaves: each acts on the program as without us.
- The real terminal's modes are put back however we end, by SIGKILL too; then the program ends with us.
- After the program's end its output is passed on to the last byte. If other processes hold its streams open, half a
  second more is seen and `Ending.held_open` says so: a daemon left behind must not keep us for ever.

What a program can notice all the same: output into a file is a pipe to it; on a terminal, stdout is another device than
stdin, stderr and /dev/tty (modes set on one hold for the other from the next key or output on; lines written to both
within microseconds can change places). Keys typed ahead that it does not read are not left for the shell.
"""

from __future__ import annotations

import os
import select
import signal
from time import monotonic
from typing import TYPE_CHECKING

from tachograph.supervision import keeper as kp
from tachograph.supervision.ending import Ending, exit_like, from_status
from tachograph.supervision.inflow import events_now
from tachograph.supervision.job import CAUGHT, Job
from tachograph.supervision.outflow import Outflow
from tachograph.supervision.program import Program, Surrounding, refusal_sentence
from tachograph.supervision.readiness import BROKEN, WRITABLE, Readiness
from tachograph.supervision.script import Sleep
from tachograph.supervision.signals import Catcher, ignored_children
from tachograph.supervision.streams import Kind, StreamKinds, StreamName, look, plug
from tachograph.supervision.watching import Guarded, Watcher
from tachograph.supervision.wiring import Wiring, live, replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Ending", "Kind", "StreamKinds", "StreamName", "Watcher", "exit_like", "look", "plug", "supervise"]

GRACE_S = 0.5
"""How long output is still seen after the program's end while other processes hold its streams open."""
KILL_AFTER_S = 1.0
"""How long a program that is to be ended has from SIGTERM to SIGKILL."""
TICK_S = 0.05
_CLOSED_S = 0.05  # a stdout that ended this long before the program was closed by it, not by its end
_FATAL = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT))


def supervise(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    umask: int | None = None,
    kinds: StreamKinds | None = None,
    watcher: Watcher,
    pass_fds: Sequence[int] = (),
    stdin_bytes: bytes | None = None,
    forward: bool = True,
    deadline_s: float | None = None,
    on_tick: Callable[[], str | None] | None = None,
    surrounding: Surrounding | None = None,
) -> Ending:
    """Run `argv` to its end.

    Live (`forward`): in the main thread only, best before other threads start. `kinds` is what `look` said, asked here
    where it is not given. Replay (not `forward`): `kinds` are the recorded ones, `stdin_bytes` is fed and then ends,
    output goes to the watcher alone, all descriptors above 2 but `pass_fds` are closed, and whatever is left of the
    program's session at the end is killed. `surrounding` is put around the program before it is executed. `on_tick` is
    asked every 50 ms; a string from it, or `deadline_s` seconds, end the program (SIGTERM, a second later SIGKILL) and
    become `Ending.ended_by`.

    A program that cannot be started gives exit code 126 or 127 and `Ending.refused`; live, that sentence is written to
    stderr as a shell would. Raises OSError where no process can be made, ValueError for an empty argv and, live,
    outside the main thread.
    """
    if not argv:
        raise ValueError("there is no program to start: argv is empty")
    found = look()
    plug(found)
    keep = None if forward else tuple(pass_fds)
    program = Program(tuple(argv), env, cwd=cwd, umask=umask, keep=keep, surrounding=surrounding)
    supervision = _Supervision(Guarded(watcher), deadline_s=deadline_s, on_tick=on_tick)
    try:
        if forward:
            supervision.wire_live(kinds or found)
        else:
            supervision.wire_replay(kinds or found, stdin_bytes)
        return supervision.start(program) or supervision.run()
    finally:
        supervision.close()


class _Supervision:
    """One program from its start to its end."""

    def __init__(self, watcher: Guarded, *, deadline_s: float | None, on_tick: Callable[[], str | None] | None) -> None:
        self._watcher = watcher
        self._on_tick = on_tick
        self._readiness = Readiness()
        self._sleep = Sleep()
        self._wiring: Wiring | None = None
        self._catcher: Catcher | None = None
        self._job: Job | None = None  # live only
        self._keeper: kp.Keeper | None = None
        self._queue: list[Outflow] = []  # what can be read, first ready first
        self._closed: list[Outflow] = []
        self._status: int | None = None
        self._ended_by: str | None = None
        self._killed_by: int | None = None  # a signal that came after the program's end and before its output's
        self._finished = False
        self._at: dict[str, float] = {}  # what is to be done when, by monotonic time
        if deadline_s is not None:
            self._at["deadline"] = monotonic() + deadline_s
        if on_tick is not None:
            self._at["tick"] = monotonic()

    # --- before ------------------------------------------------------------------------------------------------------

    def wire_live(self, kinds: StreamKinds) -> None:
        self._catcher = Catcher(CAUGHT)
        self._readiness.watch(self._catcher.fd, read=True)
        self._wiring = live(kinds, self._watcher, self._readiness)
        self._job = Job(self._wiring, self._catcher)

    def wire_replay(self, kinds: StreamKinds, stdin_bytes: bytes | None) -> None:
        self._wiring = replayed(kinds, self._watcher, self._readiness, stdin_bytes=stdin_bytes, sleep=self._sleep)

    def start(self, program: Program) -> Ending | None:
        """Start the program; its ending, if it cannot be started."""
        wiring, job, catcher = self._wiring, self._job, self._catcher
        assert wiring is not None
        own_session = job is None or job.own_session
        program = program._replace(
            files=tuple(wiring.files),
            ignored=frozenset() if catcher is None else catcher.ignored | ignored_children(),
            caught=frozenset() if catcher is None else catcher.caught,
            own_group=own_session,
            terminal=wiring.controls,
            foreground=job is None or job.take_first(),
        )
        restore = None if wiring.real is None else (wiring.real.fd, wiring.real.saved)
        # The last close of an inotify descriptor takes 10 to 20 ms: the keeper's, for which nobody waits.
        hold = None if wiring.weave is None else wiring.weave.fd
        self._keeper = kp.Keeper(program, kp.Surroundings(own_session, job is None, restore, hold))
        if job is not None:
            job.started(self._keeper)
        wiring.hand_over()
        said = self._keeper.report()
        if said is None:
            raise ChildProcessError("the process that should start the program ended before it did")
        letter, number = said
        if letter != kp.STARTED:
            self._finished = True
            return self._refuse(program, number, in_folder=letter == kp.PROBLEM_IN_FOLDER)
        self._sleep.pid = number
        self._watcher.started(number)
        self._readiness.watch(self._keeper.fd, read=True)
        return None

    def _refuse(self, program: Program, number: int, *, in_folder: bool) -> Ending:
        code, sentence = refusal_sentence(program.argv[0], number, of_folder=program.cwd if in_folder else None)
        if self._job is not None:
            self._job.give_back()
            try:
                os.write(2, f"tacho: {sentence}\n".encode(errors="surrogateescape"))
            except OSError:  # nobody reads it
                pass
        return Ending(code, refused=sentence)

    # --- during ------------------------------------------------------------------------------------------------------

    def run(self) -> Ending:
        """Serve the program until it and its output have ended."""
        while True:
            self._move()
            self._keep_time()
            if self._done():
                break
            for fd, events in self._readiness.wait(self._patience()):
                self._notice(fd, events)
        self._finished = self._status is not None
        return self._ending()

    @property
    def _served(self) -> Wiring:
        assert self._wiring is not None
        return self._wiring

    def _notice(self, fd: int, events: int) -> None:
        if self._keeper is not None and fd == self._keeper.fd:
            self._hear(self._keeper)
            self._readiness.exhausted(fd)
        elif self._catcher is not None and fd == self._catcher.fd:
            for number in self._catcher.arrived():
                self._on_signal(number)
            self._readiness.exhausted(fd)
        for outflow in self._served.outflows:
            if outflow.fd == fd and not outflow.ready:
                outflow.ready = True
                self._queue.append(outflow)
        for outlet in self._served.outlets.values():
            if outlet.fd == fd and events & BROKEN:
                outlet.give_up()
            elif outlet.fd == fd and events & WRITABLE:
                outlet.flush()

    def _on_signal(self, number: int) -> None:
        if self._status is None and self._job is not None:
            self._job.on_signal(number)
        elif number in _FATAL:
            self._killed_by = number

    def _hear(self, keeper: kp.Keeper) -> None:
        """Take the keeper's reports."""
        while self._status is None and events_now(keeper.fd, select.POLLIN):
            letter, number = keeper.report() or (kp.ENDED, signal.SIGKILL)  # somebody has killed the keeper
            if letter == kp.STOPPED and self._job is not None:
                self._read_all()
                self._move()
                self._job.on_stop(number)
            elif letter == kp.ENDED:
                self._status = number
                self._at["grace"] = monotonic() + GRACE_S
                if self._job is not None:
                    by_itself = os.WIFEXITED(number)
                    self._job.give_back(left=self._served.modes_left if by_itself else None)
                for inflow in self._served.inflows:
                    inflow.finish()
                self._read_all()

    def _read_all(self) -> None:
        for outflow in self._served.outflows:
            outflow.expect_rest()
            if outflow.open and outflow not in self._queue:
                self._queue.append(outflow)

    def _move(self) -> None:
        """Move what can be moved now, a few pieces of each stream."""
        if self._job is not None:
            self._job.follow_modes()
        if self._queue:
            self._sleep.stirred()
        weave = self._served.weave
        for outflow in [*self._queue, *(flow for flow in self._served.outflows if flow.deserted)]:
            if weave is not None and outflow in weave.flows and not outflow.deserted:
                weave.run()
            else:
                outflow.run()
        for outflow in self._served.outflows:
            if not outflow.open and outflow not in self._closed:
                self._closed.append(outflow)
                self._on_closed(outflow)
        self._queue = [outflow for outflow in self._queue if outflow.open and outflow.ready]
        self._at.pop("inflow", None)
        for inflow in self._served.inflows if self._status is None else ():
            delay_s = inflow.run()
            if delay_s is not None:
                self._at["inflow"] = min(monotonic() + delay_s, self._at.get("inflow", float("inf")))

    def _on_closed(self, outflow: Outflow) -> None:
        wiring = self._served
        if wiring.terminals is not None and outflow.device is not None:
            wiring.terminals.drop(outflow.device)
        if outflow.name == "stdout" and wiring.ends_alone(outflow) and self._status is None:
            self._at["close"] = monotonic() + _CLOSED_S

    def _keep_time(self) -> None:
        now = monotonic()
        due = [name for name, at in self._at.items() if at <= now and name != "grace"]
        for name in due:
            del self._at[name]
        if self._status is not None:
            return
        if "tick" in due:
            self._at["tick"] = now + TICK_S
            self._end_program(self._ask())
        if "deadline" in due:
            self._end_program("deadline")
        if "kill" in due:
            self._signal_program(signal.SIGKILL)
        if "close" in due:
            self._served.outlet(1).end()

    def _ask(self) -> str | None:
        assert self._on_tick is not None
        try:
            return self._on_tick()
        except Exception as fault:
            if self._job is None:
                raise
            self._watcher.failed(fault)
            return None

    def _end_program(self, reason: str | None) -> None:
        if reason is not None and self._ended_by is None:
            self._ended_by = reason
            self._signal_program(signal.SIGTERM)
            self._signal_program(signal.SIGCONT)
            self._at["kill"] = monotonic() + KILL_AFTER_S

    def _signal_program(self, number: int) -> None:
        assert self._keeper is not None
        own_group = self._job is None or self._job.own_session
        self._keeper.tell(kp.SIGNAL_GROUP if own_group else kp.SIGNAL, number)

    def _patience(self) -> float | None:
        if any(outflow.runnable for outflow in self._queue):
            return 0
        return max(0, min(self._at.values()) - monotonic()) if self._at else None

    # --- after -------------------------------------------------------------------------------------------------------

    def _done(self) -> bool:
        if self._status is None:
            return False
        if self._killed_by is not None:
            return True
        over = monotonic() >= self._at["grace"]
        for outflow in self._served.outflows:
            if outflow.outlet is not None and outflow.outlet.full:
                return False
            if outflow.open and outflow.ready and (outflow.owed > 0 or not over):
                return False
            if outflow.open and outflow.name != "stdin" and not over:
                return False
        return True

    def _ending(self) -> Ending:
        assert self._status is not None
        ending = from_status(self._status)
        if self._killed_by is not None:
            ending = Ending(128 + self._killed_by, signal=self._killed_by)
        held = tuple(flow.name for flow in self._served.outflows if flow.open and flow.name != "stdin")
        return ending._replace(ended_by=self._ended_by, held_open=held)

    def close(self) -> None:
        """Put everything back; a program that has not ended is killed."""
        if self._job is not None:
            self._job.give_back()
        if self._keeper is not None:
            self._keeper.close(finished=self._finished)
        if self._wiring is not None:
            self._wiring.close()
        if self._catcher is not None:
            self._catcher.close()
        self._readiness.close()

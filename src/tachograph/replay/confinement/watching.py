"""Watching over a program in its world: what is the same in every way of closing one.

The watching process is the program's parent. In order: fork; the child enters the world, sets its filter and hands over
the filter's listener; it probes; what held is told; it becomes the program. From then on signals are passed on, the
filter is answered, whatever is orphaned is reaped. Until the program is let go nothing has been started, and a failure
is `Failed`; after that none is.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.notify import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from tachograph.replay.confinement.probes import Targets

NAMESPACES, LANDLOCK = "namespaces", "landlock"


class Settings(NamedTuple):
    """How the world is to be closed. `ways`: which to try, in order. `report`: the descriptor of the replay's report.

    `terminal`: the program has one. `targets`: the doors to try from inside. `folders`: where it may write for real
    if no overlay can be made. `ports`: those that it listens on itself, let through if it has no network of its own.
    `lay_out`: called in the world, if it is one of namespaces, before the program starts: it makes files what they were
    before the run, by the paths that the program sees, and returns what it could not. `needed`: folders that the
    program must be able to write to: a world in which one is read-only is none.
    """

    ways: tuple[str, ...]
    report: int
    terminal: bool
    targets: Targets
    folders: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    lay_out: Callable[[], list[str]] | None = None
    needed: tuple[str, ...] = ()


class Failed(Exception):
    """This way cannot close a world here; nothing was started."""


class Report:
    """The replay's report, as the launcher writes it; `failed` is which ways did not hold, and why."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.failed: list[tuple[str, str]] = []

    def tell(self, kind: int, said: Any) -> None:
        """Append one frame."""
        frame = fr.Frame(kind, 0, 0, 0, 0, 0, monotonic_ns(), b"", values.encode(said)).written()
        os.write(self._fd, fr.LENGTH.pack(len(frame)) + frame)


class Prepared(NamedTuple):
    """What a process that is about to become the program has done: what the probes found, and its filter's listener.

    `then` tries what only the filter holds, once somebody listens.
    """

    held: dict[str, bool]
    open: list[str]
    listener: int
    then: Callable[[], dict[str, bool]]


class Watching:
    """The program's parent: starts it, answers the filter, passes signals on, reaps, and tells its end."""

    way = ""
    proc, world_at = "/proc", "/"
    inside = True

    def __init__(self, report: Report, settings: Settings, start: Callable[[], None], problem: int) -> None:
        self.report = report
        self.settings = settings
        self._start = start
        self._problem = problem
        self._program = 0
        self._listener: Listener | None = None
        self.underway = False

    def prepare(self) -> Prepared:
        """In the process that becomes the program: enter the world and set the filter up to the last step."""
        raise NotImplementedError

    def last_step(self) -> None:
        """In that process: everything is told, the program is next."""

    def on_start(self) -> None:
        """The program is about to start."""

    def on_end(self, status: int) -> None:
        """The program has ended with this wait status."""
        raise NotImplementedError

    def leader_fd(self) -> int:
        """A descriptor that breaks when we are to end; -1 for none."""
        return -1

    # --- starting the program ----------------------------------------------------------------------------------------

    def start_program(self) -> None:
        """Fork it, follow it to its last step, tell what held, and let it go. Raises Failed, having started nothing."""
        ready_read, ready = os.pipe()
        go_read, go = os.pipe()
        self._program = os.fork()
        if self._program == 0:
            try:
                os.close(ready_read)
                os.close(go)
                self._become_program(ready, go_read)
            except BaseException as fault:  # noqa: BLE001  told to the process that waits for it
                os.write(ready, b"F" + told_of(fault).encode("utf-8", "backslashreplace"))
            finally:
                os._exit(70)
        os.close(ready)
        os.close(go_read)
        try:
            held, open_ = self._hear_program(ready_read, go)
        finally:
            os.close(ready_read)
        said = {"way": self.way, "held": held, "open": open_, "failed": self.report.failed}
        self.report.tell(fr.CONFINED, said)
        self.underway = True
        self.on_start()
        os.close(self._problem)
        os.closerange(0, 3)  # the program's streams: their end is its end
        os.write(go, b"g")
        os.close(go)

    def _hear_program(self, ready: int, go: int) -> tuple[dict[str, bool], list[str]]:
        while True:
            data = os.read(ready, 65536)
            if data[:1] == b"L":
                fd = sc.descriptor_of(self._program, int(data[1:]))
                self._listener = Listener(
                    fd,
                    proc=self.proc,
                    world=self.world_at,
                    inside=self.inside,
                    ports=self.settings.ports,
                    tell=self._attempt,
                )
                os.write(go, b"l")
                self._serve_until(ready)
            elif data[:1] == b"R":
                said = values.decode(data[1:])
                if self._listener is not None:
                    self._listener.probing = False
                return said["held"], said["open"]
            else:
                os.waitpid(self._program, 0)
                self._program = 0
                raise Failed(data[1:].decode("utf-8", "replace") or "the program's process ended")

    def _serve_until(self, ready: int) -> None:
        assert self._listener is not None
        waiting = select.poll()
        waiting.register(ready, select.POLLIN)
        waiting.register(self._listener.fd, select.POLLIN)
        while True:
            for fd, _ in waiting.poll():
                if fd == ready:
                    return
                self._listener.answer_next()

    def _attempt(self, what: str, where: str, path: str) -> None:
        said = {"what": what, "where": f"{where} by {path}".strip(), "stoppedBy": "seccomp"}
        self.report.tell(fr.ATTEMPT, said)

    # --- the process that becomes the program ------------------------------------------------------------------------

    def _become_program(self, ready: int, go: int) -> None:
        prepared = self.prepare()
        held = prepared.held
        if prepared.listener >= 0:
            os.write(ready, b"L%d" % prepared.listener)
            os.read(go, 1)
            os.close(prepared.listener)
            held.update(prepared.then())
        os.write(ready, b"R" + values.encode({"held": held, "open": prepared.open}))
        if os.read(go, 1) != b"g":
            os._exit(70)
        os.close(ready)
        os.close(go)
        self.last_step()
        self._start()

    # --- until its end -----------------------------------------------------------------------------------------------

    def watch(self) -> NoReturn:
        """Reap, pass signals on and answer the filter, until nothing runs here any more or the leader is gone."""
        signals = sc.signal_descriptor()
        waiting = select.poll()
        waiting.register(signals, select.POLLIN)
        leader = self.leader_fd()
        if leader >= 0:
            waiting.register(leader, 0)
        if self._listener is not None:
            waiting.register(self._listener.fd, select.POLLIN)
        self._reap()
        while True:
            for fd, events in waiting.poll():
                if fd == signals:
                    number = sc.next_signal(signals)
                    if number == signal.SIGCHLD:
                        self._reap()
                    elif self._program:
                        os.killpg(self._program, number)
                elif fd == leader:
                    if self._program:
                        os._exit(70)
                    waiting.unregister(fd)
                elif self._listener is not None and events & select.POLLIN:
                    self._listener.answer_next()
                else:  # nobody has the filter any more
                    waiting.unregister(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(0)
            if not pid:
                return
            if pid == self._program:
                self._program = 0
                self.on_end(status)


def end_like(status: int) -> NoReturn:
    """End this process as the wait status says: by the same exit code, or by the same signal and without a core."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        sc.leave_no_core()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def told_of(fault: BaseException) -> str:
    """A fault in a word: its errno, and what it is about."""
    if isinstance(fault, OSError) and fault.errno:
        where = f" ({fault.filename})" if fault.filename else ""
        return f"{errno.errorcode.get(fault.errno, fault.errno)}{where}"
    return f"{type(fault).__name__}: {fault}"

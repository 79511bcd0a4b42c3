"""The keeper: a small process between us and the program, which is the program's parent.

It exists for what only a parent of its own kind can do. Guarantees:
- With a terminal, it leads the session of the program's terminal, so that the program is what it is under a shell: the
  leader of a foreground group that is not orphaned, which Ctrl-Z can stop and Ctrl-C reaches.
- Without one, it is a witness. It stands in our process group and lets signals lie: a signal that lies there too was
  sent to the whole group, so that the program has it already and must not get it twice.
- Killing us kills the program (SIGKILL), as if we were it, and puts the real terminal's modes back.
- It keeps none of our descriptors but those it needs, and runs nothing but this file.

Both directions speak in records of five bytes: a letter and a number.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios
from time import sleep
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tachograph.supervision.program import IN_FOLDER, PROBLEM, STARTED_AS, Program, become

if TYPE_CHECKING:
    from tachograph.supervision.terminal import Modes

RECORD = struct.Struct("<ci")
STARTED, PROBLEM_IN_FOLDER, PROBLEM_IN_EXEC, STOPPED, ENDED = b"P", b"D", b"X", b"S", b"E"
SIGNAL, SIGNAL_GROUP, SIGNAL_UNLESS_SEEN = b"k", b"g", b"u"
CONTINUE, TO_FOREGROUND, TO_BACKGROUND, FINISH = b"c", b"f", b"b", b"z"
TERMINAL_TAKEN, TERMINAL_GIVEN_BACK = b"t", b"r"


class Surroundings(NamedTuple):
    """What the keeper sets up around the program.

    `own_session`: it and the program leave our session. `sweep`: at the end it kills what is left of that session.
    `restore`: the real terminal and the modes that it had, to be put back should we die while we have taken it. `hold`:
    a descriptor that the keeper is to close last, None for none.
    """

    own_session: bool
    sweep: bool
    restore: tuple[int, Modes] | None
    hold: int | None


class Keeper:
    """Our side of the keeper process."""

    def __init__(self, program: Program, surroundings: Surroundings) -> None:
        _leaving[:] = [pid for pid in _leaving if not _reap(pid, os.WNOHANG)]
        self._sweeps = surroundings.sweep
        commands, self._commands = os.pipe()
        self.fd, reports = os.pipe()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            program = program._replace(mask=frozenset(before))
            self._pid = os.fork()
            if self._pid == 0:
                try:
                    _Keeping(program, surroundings, commands, reports).keep()
                finally:
                    os._exit(70)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(commands)
            os.close(reports)

    def report(self) -> tuple[bytes, int] | None:
        """The next report, waited for; None where the keeper is gone."""
        data = os.read(self.fd, RECORD.size)
        if len(data) < RECORD.size:
            return None
        letter, number = RECORD.unpack(data)
        return letter, number

    def tell(self, letter: bytes, number: int = 0) -> None:
        """Give a command; it is no error that nobody is there to follow it any more."""
        try:
            os.write(self._commands, RECORD.pack(letter, number))
        except BrokenPipeError:
            return

    def close(self, *, finished: bool) -> None:
        """Let the keeper go. Unless `finished`, it kills the program first, and that is waited for."""
        if finished:
            self.tell(FINISH)
        os.close(self._commands)
        os.close(self.fd)
        if self._sweeps or not finished:
            _reap(self._pid, 0)
        else:
            _leaving.append(self._pid)


_leaving: list[int] = []  # keepers that were let go: what the kernel has still to do for them is not waited for


def _reap(pid: int, options: int) -> bool:
    try:
        return bool(os.waitpid(pid, options)[0])
    except ChildProcessError:  # the system has reaped it: we were started with SIGCHLD ignored
        return True


class _Keeping:
    """The keeper process itself."""

    def __init__(self, program: Program, surroundings: Surroundings, commands: int, reports: int) -> None:
        self._program = program
        self._surroundings = surroundings
        self._commands = commands
        self._reports = reports
        self._wake_read, wake = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, _noticed)
        self._kept = {commands, reports, self._wake_read, wake}
        self._pid = 0
        self._stopped_it = False
        self._taken = False

    def keep(self) -> NoReturn:
        """Start the program, follow commands and report what becomes of it, until told to finish."""
        terminal = self._program.terminal
        if self._surroundings.own_session:
            os.setsid()
        if terminal is not None:
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            self._kept.add(terminal)
        if self._surroundings.restore is not None:
            self._kept.add(self._surroundings.restore[0])
        if self._surroundings.hold is not None:
            self._kept.add(self._surroundings.hold)
        self._start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        waiting = select.poll()
        waiting.register(self._commands, select.POLLIN)
        waiting.register(self._wake_read, select.POLLIN)
        self._reap()
        while True:
            for fd, _ in waiting.poll():
                if fd == self._wake_read:
                    os.read(fd, 4096)
                    self._reap()
                else:
                    self._obey()

    def _start(self) -> None:
        problem_read, problem = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            become(self._program, problem)
        os.close(problem)
        if self._program.own_group:
            try:
                os.setpgid(self._pid, self._pid)
            except OSError:  # it has done so itself, and may have executed already
                pass
        self._kept.add(problem_read)
        low = 0
        for fd in sorted(self._kept):
            os.closerange(low, fd)
            low = fd + 1
        os.closerange(low, os.sysconf("SC_OPEN_MAX"))
        started = self._pid
        while True:
            said = os.read(problem_read, PROBLEM.size)  # its end is exec, which closes the other end
            if len(said) < PROBLEM.size:
                break
            number, what = PROBLEM.unpack(said)
            if what == STARTED_AS:
                started = number
                continue
            self._report(PROBLEM_IN_FOLDER if what == IN_FOLDER else PROBLEM_IN_EXEC, number)
            os._exit(0)
        self._report(STARTED, started)

    def _reap(self) -> None:
        while self._pid:
            pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if not pid:
                return
            if os.WIFSTOPPED(status):
                self._report(STOPPED, os.WSTOPSIG(status))
            else:
                self._pid = 0
                self._leave_terminal()
                self._report(ENDED, status)

    def _report(self, letter: bytes, number: int) -> None:
        try:
            os.write(self._reports, RECORD.pack(letter, number))
        except BrokenPipeError:  # we have died; the end of the commands says so next
            return

    def _obey(self) -> None:
        data = os.read(self._commands, RECORD.size)
        if not data:
            self._bereaved()
        letter, number = RECORD.unpack(data)
        if letter == SIGNAL:
            self._signal(number)
        elif letter == SIGNAL_GROUP:
            self._signal(number, group=True)
        elif letter == SIGNAL_UNLESS_SEEN:
            # The kernel signals the members of a group in one go, so that ours lies here when we are asked.
            if number in signal.sigpending():
                signal.sigwait({number})
            else:
                self._signal(number)
                self._stopped_it = number == signal.SIGTSTP
        elif letter == CONTINUE and (self._program.own_group or self._stopped_it):
            self._stopped_it = False
            self._signal(signal.SIGCONT, group=self._program.own_group)
        elif letter == TO_FOREGROUND:
            self._set_foreground(self._pid)
        elif letter == TO_BACKGROUND:
            self._set_foreground(os.getpgrp())
        elif letter in (TERMINAL_TAKEN, TERMINAL_GIVEN_BACK):
            self._taken = letter == TERMINAL_TAKEN
        elif letter == FINISH:
            self._finish()

    def _signal(self, number: int, *, group: bool = False) -> None:
        if self._pid:  # 0 once it is reaped: its number may be another's
            try:
                (os.killpg if group else os.kill)(self._pid, number)
            except (ProcessLookupError, PermissionError):  # gone, or set-user-ID
                return

    def _set_foreground(self, group: int) -> None:
        if self._program.terminal is not None and group:
            try:
                os.tcsetpgrp(self._program.terminal, group)
            except OSError:  # the group has no member left, or the terminal hung up
                return

    def _leave_terminal(self) -> None:
        """The program has ended: nothing that it left behind may be hung up on, and only that may keep its terminal."""
        terminal = self._program.terminal
        if terminal is not None:
            # With our end the terminal hangs up, which signals its foreground: only we are in it then.
            self._set_foreground(os.getpgrp())
            os.close(terminal)
            self._program = self._program._replace(terminal=None)

    def _finish(self) -> NoReturn:
        self._leave_terminal()
        if self._surroundings.sweep:
            sweep_session(os.getpid())
        os._exit(0)

    def _bereaved(self) -> NoReturn:
        if self._taken and self._surroundings.restore is not None:
            fd, modes = self._surroundings.restore
            try:
                termios.tcsetattr(fd, termios.TCSANOW, modes)
            except termios.error:  # it hung up: perhaps that is why we died
                pass
        self._signal(signal.SIGKILL)
        for _ in range(100):  # a second, then it hangs in the kernel and nobody can do anything about it
            if not self._pid or os.waitpid(self._pid, os.WNOHANG)[0]:
                break
            sleep(0.01)
        self._finish()


def _noticed(number: int, frame: object) -> None:
    """The wake-up descriptor has it."""


def sweep_session(session: int) -> None:
    """Kill every process of the session `session` but the one that leads it. Does nothing without /proc."""
    for _ in range(3):  # what forks while we look is found the next time
        found = [pid for pid in _members(session) if pid != session]
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not found:
            return


def _members(session: int) -> list[int]:
    members = []
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for pid in numbers:
        try:
            if os.getsid(pid) == session:
                members.append(pid)
        except OSError:
            continue
    return members

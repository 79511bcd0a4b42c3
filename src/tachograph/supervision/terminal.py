"""The real terminal and the terminals that the program gets, kept as if they were one.

The program's stdout is a pseudo-terminal of its own, so that it can be told apart. Its stdin, its stderr and /dev/tty
are another one: programs that need the terminal while stdin is something else (`less`, `more`, `vim -`) read keys from
what stderr is. To the program the two must look like one terminal. Guarantees:
- Modes that the program sets on one are set on the other before a key is handed on (`agree`), so that curses, which
  sets its modes on stdout, gets its keys unechoed from stdin.
- The program's terminals have the real one's modes from the start, output processing included. What that processing
  added to the bytes is taken back (`LineEnds`), and the real terminal adds it again; where the program turns it off,
  it is turned off on the real one as well (`follow`).
- The real terminal gets keys unprocessed only while it is `taken`, and only if we are in its foreground.
"""

from __future__ import annotations

import os
import termios
from typing import Any

from tachograph.supervision.streams import set_window_size

KEYS, STDOUT = "keys", "stdout"
"""The two devices of the program: that of stdin, stderr and /dev/tty, and that of stdout."""

IFLAG, OFLAG, CFLAG, LFLAG, ISPEED, OSPEED, CC = range(7)
Modes = list[Any]

# Flow control stays with the real terminal: Ctrl-S must stop what it shows, whichever stream wrote it.
_FLOW = termios.IXON | termios.IXOFF | termios.IXANY
_COOKED_INPUT = (
    termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP | termios.INLCR | termios.IGNCR | termios.ICRNL
)
_COOKED_KEYS = termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN


def adds_returns(modes: Modes) -> bool:
    """Whether a terminal in these modes writes CR LF for every LF."""
    wanted = termios.OPOST | termios.ONLCR
    return bool(modes[OFLAG] & wanted == wanted)


def is_controlling(fd: int) -> bool:
    """Whether the terminal `fd` is the one that controls our session."""
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    return True


def _set_modes(fd: int, modes: Modes) -> None:
    try:
        termios.tcsetattr(fd, termios.TCSANOW, modes)
    except termios.error:  # it hung up; that reaches the program on its own way
        return


class LineEnds:
    """Takes back the CR that a terminal put before every LF. Exact for whatever was written while it did so."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """`data` without the added CRs. A CR at its end waits for the byte after it."""
        data = self._held + data
        self._held = b"\r" if data.endswith(b"\r") else b""
        return (data[:-1] if self._held else data).replace(b"\r\n", b"\n")

    def flush(self) -> bytes:
        """The CR that waits, if one does: nothing comes after it."""
        held, self._held = self._held, b""
        return held


class RealTerminal:
    """The terminal that we were started on; `fd` is a description of our own, so its flags are nobody else's."""

    def __init__(self, fd: int, *, controlling: bool) -> None:
        self.fd = fd
        self.controlling = controlling
        self.taken = False
        self.saved: Modes = termios.tcgetattr(fd)
        self._now = self.saved

    @property
    def adds_returns(self) -> bool:
        """Whether it writes CR LF for an LF of ours."""
        return adds_returns(self._now)

    def in_foreground(self) -> bool:
        """Whether we may read it and change its modes; a shell takes that away from a background job."""
        if not self.controlling:
            return True
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    def modes(self) -> Modes:
        """Its modes at this moment."""
        return termios.tcgetattr(self.fd)

    def take(self, like: Modes) -> None:
        """From now on every key is ours as it is typed. `like`: the modes of the program's terminals."""
        self.saved = self.modes()
        self.taken = True
        self.follow(like)

    def follow(self, like: Modes) -> None:
        """Treat output, and the keys that stop it, as the program has asked its own terminal to do."""
        if not self.taken:
            return
        modes = [*self.saved]
        modes[CC] = [*self.saved[CC]]
        modes[IFLAG] = (modes[IFLAG] & ~(_COOKED_INPUT | _FLOW)) | (like[IFLAG] & _FLOW)
        modes[OFLAG] = like[OFLAG]
        modes[LFLAG] &= ~_COOKED_KEYS
        modes[CC][termios.VMIN], modes[CC][termios.VTIME] = 1, 0
        for key in (termios.VSTART, termios.VSTOP):
            modes[CC][key] = like[CC][key]
        self._set(modes)

    def give_back(self, left: Modes | None = None) -> None:
        """Put its modes back. `left`: the modes in which the program left its terminal on purpose, as `stty` does."""
        if self.taken:
            self.taken = False
            modes = self.saved
            if left is not None:  # speed and character size are the line's, not the program's
                modes = [*self.saved]
                for part in (IFLAG, OFLAG, LFLAG, CC):
                    modes[part] = left[part]
            self._set(modes)

    def _set(self, modes: Modes) -> None:
        if self.in_foreground():
            _set_modes(self.fd, modes)
            self._now = modes


def open_controlling() -> RealTerminal | None:
    """The terminal that controls our session, None where there is none."""
    try:
        fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    return RealTerminal(fd, controlling=True)


def open_again(fd: int, flags: int) -> int | None:
    """A description of our own of what `fd` is (terminal or pipe), non-blocking; None where the system refuses."""
    try:
        return os.open(f"/proc/self/fd/{fd}", flags | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


class ProgramTerminals:
    """The pseudo-terminals of the program: `masters` are ours, `slaves` go to the program, both by device."""

    def __init__(self, devices: tuple[str, ...], *, modes: Modes | None) -> None:
        self.masters: dict[str, int] = {}
        self.slaves: dict[str, int] = {}
        for device in devices:
            master, slave = os.openpty()
            os.set_blocking(master, False)
            self.masters[device], self.slaves[device] = master, slave
            if modes is not None:
                termios.tcsetattr(slave, termios.TCSANOW, modes)
        self.first: Modes = termios.tcgetattr(self.masters[devices[0]])
        self.agreed: Modes = self.first

    def agree(self) -> bool:
        """Find the terminal whose modes the program changed and set them on the others; whether there was one."""
        for device, master in self.masters.items():
            try:
                modes = termios.tcgetattr(master)
            except termios.error:  # hung up
                continue
            if modes != self.agreed:
                self.agreed = modes
                for other, fd in self.masters.items():
                    if other != device:
                        _set_modes(fd, modes)
                return True
        return False

    def adopt(self, modes: Modes) -> None:
        """Take over what the real terminal's modes have become, unless the program has set modes of its own.

        A shell that waits for a command has its own modes: those are what a background job finds at its start.
        """
        self.agree()
        if self.agreed == self.first:
            for master in self.masters.values():
                _set_modes(master, modes)
            self.first = self.agreed = modes
            self.agree()
            self.first = self.agreed

    def resize(self, size: tuple[int, int]) -> None:
        """Set the size of all; that of the keys last, because it controls the session, and that sends SIGWINCH."""
        for device in sorted(self.masters, reverse=True):
            set_window_size(self.masters[device], size)

    def hand_over(self) -> None:
        """Close the program's ends in our process: when the program's are closed too, ours see the end."""
        for fd in self.slaves.values():
            os.close(fd)
        self.slaves.clear()

    def drop(self, device: str) -> None:
        """Forget one whose master was closed."""
        self.masters.pop(device, None)

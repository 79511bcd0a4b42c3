"""What a line discipline shows by itself when keys are typed, so that it is not taken for output of the program.

stderr and the keys share one terminal (see `terminal`), and what comes out of it is both. Guarantees:
- Bytes are taken for an echo only where they are just what the keys typed a moment ago must show; in doubt they are
  the program's. An echo may be reported as output, output is never left out for an echo.
- Knows the keys that people type: characters, Enter, erasing, control keys, signals, end of file. After any other
  editing key nothing is expected.
"""

from __future__ import annotations

import termios
from time import monotonic
from typing import TYPE_CHECKING

from tachograph.supervision.terminal import CC, IFLAG, LFLAG, OFLAG

if TYPE_CHECKING:
    from tachograph.supervision.terminal import Modes

_SOON_S = 0.2  # the echo is in the terminal when the key has been written; the rest is our own being late
_ERASES = b"\b \b"


def caret(key: int) -> bytes:
    """How a control key is shown."""
    return b"^" + bytes((key ^ 0x40,))


class Echo:
    """The echo to come. `typed` before keys are handed on, `taken_from` with what came out of the terminal."""

    def __init__(self) -> None:
        self._expected = b""
        self._line: list[bytes] = []  # what each key of the unfinished line shows
        self._until = 0.0

    def typed(self, keys: bytes, modes: Modes) -> None:
        """These keys go to a terminal of these modes now."""
        if monotonic() > self._until:
            self._expected = b""
        for key in keys:
            shown = self._shown(key, modes)
            if shown is None:
                self._expected, self._line = b"", []
                break
            self._expected += shown
        self._until = monotonic() + _SOON_S

    @property
    def awaited(self) -> bool:
        """Whether keys were typed a moment ago, so that what comes out now may be their echo, foreseen or not."""
        return monotonic() < self._until

    def _shown(self, key: int, modes: Modes) -> bytes | None:
        """What this key shows; None where that is not known."""
        if not modes[LFLAG] & termios.ECHO:
            return b""
        if key == 0x0D and modes[IFLAG] & termios.ICRNL:
            key = 0x0A
        name = self._meaning(key, modes)
        if name in ("VERASE", "VWERASE", "VKILL"):
            if name != "VERASE" or not modes[LFLAG] & termios.ECHOE:
                return None
            return b"".join(_ERASES for _ in self._line.pop()) if self._line else b""
        if name == "VEOF":
            self._line = []
            return b""
        if name in ("VSTART", "VSTOP"):
            return b""
        if name in ("VINTR", "VQUIT", "VSUSP"):
            self._line = []
            return caret(key)
        if name is not None:
            return None
        if key == 0x0A:
            self._line = []
            return b"\r\n" if modes[OFLAG] & termios.OPOST and modes[OFLAG] & termios.ONLCR else b"\n"
        is_control = (key < 0x20 and key != 0x09) or key == 0x7F
        shown = caret(key) if is_control and modes[LFLAG] & termios.ECHOCTL else bytes((key,))
        if key == 0x09 or key >= 0x80:
            # How wide these are on the screen is not known here, so that nothing is when the line is edited.
            self._line = []
        elif modes[LFLAG] & termios.ICANON:
            self._line.append(shown)
        return shown

    def _meaning(self, key: int, modes: Modes) -> str | None:
        """The name of the function that the key has, None for a plain one."""
        names = ["VSTART", "VSTOP"] if modes[IFLAG] & termios.IXON else []
        if modes[LFLAG] & termios.ISIG:
            names += ["VINTR", "VQUIT", "VSUSP"]
        if modes[LFLAG] & termios.ICANON:
            names += ["VERASE", "VKILL", "VEOF", "VWERASE", "VREPRINT", "VLNEXT"]
        return next((name for name in names if modes[CC][getattr(termios, name)] == bytes((key,)) and key), None)

    def taken_from(self, data: bytes) -> tuple[bytes, bytes]:
        """Take the echo from the beginning of `data`: the echo, and the rest, which is the program's."""
        if not self._expected or monotonic() > self._until:
            return b"", data
        length = 0
        while length < min(len(data), len(self._expected)) and data[length] == self._expected[length]:
            length += 1
        if length < len(data) and length < len(self._expected):
            # Something else has come between: from here on nobody knows what is whose.
            self._expected = b""
            return b"", data
        self._expected = self._expected[length:]
        return data[:length], data[length:]

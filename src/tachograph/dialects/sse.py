"""Server-Sent Events, read as they arrive.

- Lines end at CR, LF or CRLF and nowhere else: U+0085, U+2028 and U+2029 are text (R20);
- bytes are UTF-8 whatever a header says, and a character may be split over chunks (R21): only whole lines are decoded;
- an event is complete at its blank line. What stands after the last one is given by `finish`, marked as not terminated
  (R19), and never taken for a complete event;
- a byte order mark at the start and comment lines are skipped, fields that the standard does not know are ignored.

The reader keeps the unfinished line only, and each byte is looked at once however the chunks are cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Event(NamedTuple):
    """One event: its name (`message` if it has none), its data lines joined by LF, and whether its blank line came.

    `damaged` says that bytes were no UTF-8 and stand as U+FFFD.
    """

    name: str
    data: str
    last_id: str | None = None
    terminated: bool = True
    damaged: bool = False


class EventReader:
    """Give it chunks, take events."""

    __slots__ = ("_damaged", "_data", "_id", "_line", "_name", "_skip_newline", "_started", "_touched")

    def __init__(self) -> None:
        self._line = bytearray()
        self._started = False
        self._skip_newline = False  # the chunk before ended with CR: an LF now belongs to it
        self._id: str | None = None
        self._clear()

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete."""
        if not self._started:
            chunk = bytes(self._line) + chunk
            self._line.clear()
            if chunk != b"\xef\xbb\xbf"[: len(chunk)] or len(chunk) == 3:
                self._started = True
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            else:
                self._line += chunk
                return []
        if self._skip_newline and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._skip_newline = False
        events: list[Event] = []
        # bytes.splitlines splits at LF, CR and CRLF only (str.splitlines also at U+2028 and others)
        for line in chunk.splitlines(keepends=True):
            self._line += line.rstrip(b"\r\n")
            if line[-1] in b"\r\n":
                self._end_line(events)
        self._skip_newline = self._skip_newline or chunk.endswith(b"\r")
        return events

    def finish(self) -> Event | None:
        """Return what stands after the last complete event, marked as not terminated, or None if nothing does."""
        if self._line:
            self._field(bytes(self._line))
            self._line.clear()
        event = self._event(terminated=False) if self._touched else None
        self._clear()
        return event

    def _end_line(self, events: list[Event]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if line:
            self._field(line)
            return
        if self._data:
            events.append(self._event(terminated=True))
        self._clear()

    def _field(self, line: bytes) -> None:
        if line[0] == 58:  # a comment: keeps the connection open, says nothing
            return
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("utf-8", "replace")
            self._damaged = True
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        self._touched = True
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._id = value

    def _event(self, *, terminated: bool) -> Event:
        return Event(self._name or "message", "\n".join(self._data), self._id, terminated, self._damaged)

    def _clear(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._touched = False
        self._damaged = False


def read_events(chunks: Iterable[bytes]) -> list[Event]:
    """Return all events of a stream; the last one may be unterminated."""
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    rest = reader.finish()
    return [*events, rest] if rest is not None else events

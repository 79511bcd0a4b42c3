"""Requests that come in, followed so that a decision can keep the one in whose handling it was opened.

A connection that the program accepted is read along as HTTP/1.x: which bytes are the request under way, which are its
answer. Until a decision opens, they lie in memory; from then on each goes into the spool as a frame of the decision.
Which request a decision belongs to is said by its context (`context.inbound`): that of the task or thread which reads
the request, and of whatever these start. Never by time. So a decision has no request, and says why, where

- requests were sent ahead of the answers before them on its connection, or another came after its own was answered;
- the connection went over to another protocol, or never spoke HTTP/1.x (TLS is none that can be read here);
- more than `MOST` bytes had come or gone before it opened, or more than `MOST_AFTER` where it opened after the answer.

Credentials of both heads are replaced where they stand before anything is written; a request in which no decision opens
costs its parsing alone.
"""

from __future__ import annotations

from time import monotonic_ns

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.wire import Deframer, HeadTaker
from tachograph.formats.wire_request import Sending, redact_request_head
from tachograph.seams import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tachograph.capture.recorder import Recorder
    from tachograph.formats.wire_request import Begun

MOST, MOST_AFTER = 16 << 20, 64 << 10  # bytes of a request and its answer that are kept in memory
AHEAD = "requests were sent ahead of the answers before them on its connection"
LATER = "its request had been answered, and another had come on the connection"
FOREIGN = "its connection speaks no HTTP/1.x, or went over to another protocol"
LONG = f"more than {MOST >> 20} MB of its request or answer had passed before it opened"
LONG_AFTER = f"its request had been answered, and is longer than the {MOST_AFTER >> 10} KB that are kept after that"


def list_of(address: Any) -> Any:
    """Return a socket's address as a value can hold it: host and port, or a unix path."""
    return list(address[:2]) if isinstance(address, tuple) else address


class Request:
    """One request of a connection, and the answer to it."""

    __slots__ = (
        "_answer",
        "_began_ns",
        "_children",
        "_connection",
        "_decisions",
        "_path",
        "_pieces",
        "_redacted",
        "_reply",
        "_size",
        "_tags",
        "_taker",
        "answered",
        "begun",
        "why",
    )  # fmt: skip

    def __init__(self, connection: Connection, why: str = "") -> None:
        self._connection = connection
        self._pieces: list[bytes] = []
        self._reply: list[bytes] = []
        self._size = self._began_ns = 0
        self._decisions: list[tuple[int, int, dict[str, int]]] = []
        self._taker, self._answer = HeadTaker(), Deframer()
        self._path, self._tags = "", b""
        self._children: dict[str, int] = {}
        self.begun = self.answered = self._redacted = False
        self.why = why

    # -- what passes

    def take(self, data: bytes, begun: Begun | None) -> None:
        """Some of it has come; `begun` where its head is whole now."""
        if not self._began_ns:
            self._connection.recorder.settle()
            place = context.here()
            self._path, self._children, self._began_ns = place.path, place.counted(), monotonic_ns()
        if self.begun:
            self._keep(self._pieces, fr.INBOUND, data)
            return
        self._pieces.append(data)
        if begun is None:
            return
        whole = b"".join(self._pieces).lstrip(b"\r\n")
        end = whole.find(b"\r\n\r\n") + 4
        self._pieces, self.begun = [whole[:end]], True
        self._answer = Deframer(bodiless=begun.method == "HEAD")
        if len(whole) > end:
            self._pieces.append(whole[end:])
        self._size = len(whole)
        for number, path, children in self._decisions:
            self._tell(number, path, children)
        if self._size > MOST:
            self._forget(LONG)

    def sent(self, data: bytes) -> None:
        """Some of its answer goes out."""
        if self.answered:
            return
        self._answer.feed(data)
        self._keep(self._reply, fr.REPLY, self._may_be_written(data) if self._decisions else data)
        if self._answer.status == 101:
            self._connection.off(FOREIGN)
        if self._answer.complete:
            self._whole()

    def _may_be_written(self, data: bytes) -> bytes:
        """Return the next bytes of its answer without credentials."""
        return data if self._taker.done else self._taker.take(data)[0]

    def closed(self) -> None:
        """Its connection is closed, and with that an answer of no said length ends."""
        if self.begun and not self.answered and self._answer.until_closed:
            self._whole()

    def _whole(self) -> None:
        self.answered = True
        for number, path, _ in self._decisions:
            self._connection.recorder.write(fr.REPLY, b"", 1, number, 0, path, 0)
        if self._size > MOST_AFTER:
            self._forget(LONG_AFTER)

    def _keep(self, kept: list[bytes], kind: int, data: bytes) -> None:
        for number, path, _ in self._decisions:
            self._connection.recorder.write(kind, data, 0, number, 0, path, 0)
        if not self.why:
            self._size += len(data)
            kept.append(data)
            if self._size > MOST:
                self._forget(LONG)

    def _forget(self, why: str) -> None:
        """Decisions that open from now on are not told of it."""
        self._pieces.clear()
        self._reply.clear()
        self.why = self.why or why

    def spoil(self, why: str) -> None:
        """It cannot be sent again, not for the decisions that have it either."""
        self._forget(why)
        for number, path, _ in self._decisions:
            self._say_why(number, path, why)
        self._decisions.clear()

    # -- who wants it

    def opened(self, number: int, path: int) -> None:
        """A decision opens while it is handled."""
        why = self.why or (LATER if self.answered and self._connection.request is not self else "")
        if why:
            self._say_why(number, path, why)
            return
        children = context.here().counted()
        self._decisions.append((number, path, children))
        if self.begun:
            if len(self._decisions) == 1:  # until now nobody kept any of it
                self._reply = [self._may_be_written(piece) for piece in self._reply]
            self._tell(number, path, children)

    def _say_why(self, number: int, path: int, why: str) -> None:
        self._connection.recorder.write(fr.INBOUND, values.encode({"why": why}), 1, number, 0, path, 0)

    def _tell(self, number: int, path: int, children: dict[str, int]) -> None:
        if not self._redacted:
            self._pieces[0], removed = redact_request_head(self._pieces[0])
            self._redacted, self._tags = True, self._connection.recorder.tags(removed)
        write, now = self._connection.recorder.write, monotonic_ns()
        said: dict[str, Any] = {
            **self._connection.facts, "since": now - self._began_ns, "serving": now - self._connection.serving_ns,
            "path": self._path, "children": self._children, "opened": children, "tags": self._tags,
            "answered": self.answered,
        }  # fmt: skip
        write(fr.INBOUND, values.encode(said), 1, number, 0, path, 0)
        for piece in self._pieces:
            write(fr.INBOUND, piece, 0, number, 0, path, 0)
        for piece in self._reply:
            write(fr.REPLY, piece, 0, number, 0, path, 0)
        if self.answered:
            write(fr.REPLY, b"", 1, number, 0, path, 0)


class Connection:
    """A connection that the program accepted: the tap through which its reads and sends are heard."""

    __slots__ = ("_off", "_read", "_sending", "facts", "recorder", "request", "serving_ns")

    def __init__(self, recorder: Recorder, serving_ns: int, facts: dict[str, Any]) -> None:
        """`facts`: where the run listens (`listener`), and who connected (`peer`)."""
        self.recorder, self.serving_ns, self.facts = recorder, serving_ns, facts
        self._sending = Sending()
        self._read = self._off = False  # the request under way has been read whole; nothing more is followed
        self.request = Request(self)

    def came(self, data: bytes) -> None:
        """The program has read this."""
        if not self._off:
            self._follow(data)
        context.inbound.set(self.request)

    def _follow(self, data: bytes) -> None:
        at = 0
        for piece in self._sending.feed(data):
            end = len(data) - piece.left
            self._part(data[at:end], piece.begun)
            at = end
            self._read = piece.whole
        if self._sending.foreign:
            self.off(FOREIGN)
        elif at < len(data):
            self._part(data[at:], None)

    def _part(self, data: bytes, begun: Begun | None) -> None:
        if self._read:
            if not data.strip(b"\r\n"):  # empty lines between two requests are to be ignored (RFC 9112, section 2.2)
                return
            ahead = not self.request.answered
            self.request, self._read = Request(self), False
            if ahead:
                self.off(AHEAD)
        self.request.take(data, begun)

    def off(self, why: str) -> None:
        """What comes from here on cannot be followed."""
        self._off = True
        self.request.spoil(why)

    def sent(self, data: bytes) -> None:
        """The program sends this."""
        if self.request.begun:
            self.request.sent(data)

    def closed(self) -> None:
        """The program closes the connection."""
        self.request.closed()
        if context.inbound.get() in (self, self.request):
            context.inbound.set(None)

    def opened(self, number: int, path: int) -> None:
        """A decision opens in a task that was started for this connection."""
        self.request.opened(number, path)

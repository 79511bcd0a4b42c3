"""Puts one behaviour on a socket, exactly: the borders, the pauses, the break.

- Each chunk is one `send` of its own with Nagle's algorithm off; under `borders="reads"` the next one waits until the
  peer has read all before it.
- A break by reset comes after every byte sent has reached the peer's queue, so that the client gets all of them first.
- A peer that goes away while being sent to is no fault of the server: the delivery says `client_gone`.
- An iterable of chunks is closed when the delivery ends, however it ends.

What was produced and what went out are told apart: `Delivery.sent` counts body bytes handed to the kernel.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

from tachograph.testing.pacing import wait_until_read, wait_until_sent
from tachograph.testing.replies import Behaviour, Chunk, Ending, Hangup, Raw, Reply, Silence
from tachograph.testing.wire import Headers, Request

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: close() sends RST
# How long a server that is ending its side waits for the client's last bytes, so that FIN does not become RST.
_DRAIN_S = 0.2

Outcome = Literal["complete", "reset", "cut", "hung", "client_gone", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How one request was answered: its number, the body bytes sent, and how it ended."""

    number: int
    sent: int
    ended: Outcome


class Courier:
    """Delivers behaviours over one connection; `keep_alive` says whether another request may follow."""

    def __init__(self, connection: socket.socket, stopping: threading.Event) -> None:
        self._connection = connection
        self._stopping = stopping
        self._sent = 0
        self.keep_alive = True
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def deliver(self, request: Request, behaviour: Behaviour) -> Delivery:
        """Act out one behaviour. Raises only what the behaviour's own chunks raise."""
        self._sent = 0
        try:
            ended = self._act(request, behaviour)
        except OSError:
            self.keep_alive = False
            ended = "stopped" if self._stopping.is_set() else "client_gone"
        return Delivery(number=request.number, sent=self._sent, ended=ended)

    def go_on(self) -> None:
        """Tell a client that waits to send its body to send it."""
        self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _act(self, request: Request, behaviour: Behaviour) -> Outcome:
        match behaviour:
            case Reply():
                return self._reply(request, behaviour)
            case Raw():
                for data in self._paced(behaviour.chunks):
                    self._send(data)
                    self._sent += len(data)
                return self._end(behaviour.ending, finished=False)
            case Silence():
                return self._end("hang", finished=False)
            case Hangup():
                return self._end(behaviour.ending, finished=False)

    def _reply(self, request: Request, reply: Reply) -> Outcome:
        bodiless = request.method == "HEAD" or reply.status in (204, 304)
        self.keep_alive = request.keeps_alive and not _closes(reply)
        try:
            self._pause(reply.delay)
            for status, headers in reply.interim:
                self._send(_head(status, "", headers))
            self._send(_head(reply.status, reply.reason, (*reply.headers, *_framing(request, reply))))
            self._border(reply)
            whole = bodiless or self._body(reply)
            return self._end(reply.ending, finished=whole)
        finally:
            if hasattr(reply.chunks, "close"):  # a generator: what feeds it learns that nobody listens any more
                reply.chunks.close()

    def _body(self, reply: Reply) -> bool:
        """Send the chunks; False when `cut_after` ended them."""
        left = reply.cut_after
        chunked = reply.framing == "chunked"
        for data in self._paced(reply.chunks):
            framed = b"%x\r\n%b\r\n" % (len(data), data) if chunked else data
            if left is not None and left <= len(data):
                ahead = framed.index(b"\n") + 1 if chunked else 0
                self._send(framed[: ahead + left])
                self._sent += left
                return False
            self._send(framed)
            self._sent += len(data)
            left = None if left is None else left - len(data)
            self._border(reply)
        if chunked and reply.ending == "complete":
            self._send(b"0\r\n\r\n")
        return True

    def _border(self, reply: Reply) -> None:
        if reply.borders == "reads":
            wait_until_read(self._connection, stopping=self._stopping)

    def _end(self, ending: Ending, *, finished: bool) -> Outcome:
        if ending == "complete" and finished and self.keep_alive:
            return "complete"
        self.keep_alive = False
        match ending:
            case "reset":
                wait_until_sent(self._connection, stopping=self._stopping)
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                return "reset"
            case "hang":
                self._until_closed()
                return "stopped" if self._stopping.is_set() else "hung"
            case _:
                self._finish()
                return "complete" if ending == "complete" and finished else "cut"

    def _until_closed(self) -> None:
        while self._connection.recv(65536):
            pass

    def _finish(self) -> None:
        """FIN, then whatever the client still sends: a close over unread bytes would send RST instead."""
        self._connection.shutdown(socket.SHUT_WR)
        self._connection.settimeout(_DRAIN_S)
        try:
            self._until_closed()
        except TimeoutError:
            pass

    def _paced(self, chunks: Iterable[Chunk]) -> Iterator[bytes]:
        for item in chunks:
            if isinstance(item, bytes):
                if item:
                    yield item
            else:
                self._pause(item)

    def _pause(self, seconds: float) -> None:
        if seconds > 0 and self._stopping.wait(seconds):
            raise OSError("the server is ending")

    def _send(self, data: bytes) -> None:
        self._connection.sendall(data)


def _head(status: int, reason: str, headers: Headers) -> bytes:
    phrase = reason or (HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "")
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _closes(reply: Reply) -> bool:
    says = any(name.lower() == "connection" and "close" in value.lower() for name, value in reply.headers)
    return says or reply.framing == "until_close"


def _framing(request: Request, reply: Reply) -> Headers:
    given = {name.lower() for name, _ in reply.headers}
    needed: list[tuple[str, str]] = []
    if reply.status in (204, 304):
        pass
    elif reply.framing == "chunked":
        needed.append(("transfer-encoding", "chunked"))
    elif reply.framing == "content_length":
        length = sum(len(chunk) for chunk in reply.chunks if isinstance(chunk, bytes))
        needed.append(("content-length", str(length)))
    if reply.framing == "until_close" or not request.keeps_alive:
        needed.append(("connection", "close"))
    return tuple((name, value) for name, value in needed if name not in given)

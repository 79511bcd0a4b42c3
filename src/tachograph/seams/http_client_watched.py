"""A connection of `http.client` under a recorder: the program's own socket, and what passes over it handed on.

- an effect begins before its bytes go out; what one read returned is in the record before the program gets it;
- an answer ends `eof` where its own framing or the connection ends it, `closed_early` where the program does, `error`
  where a read fails, or where a request could not be sent and nobody read an answer;
- everything else is the socket's own, and what asks for its class is told the socket's.
"""

from __future__ import annotations

import socket

from tachograph.formats import values
from tachograph.formats.wire import Deframer
from tachograph.formats.wire_request import Sending
from tachograph.seams import port
from tachograph.seams.http_client_sockets import LIBRARY, Tapped, as_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WatchedSocket(Tapped):
    """A connected socket; what passes over it is handed to the recorder. Everything else is the socket's own."""

    def __init__(self, inner: Any, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = endpoint
        self._sending = Sending()
        self._exchange: port.Exchange | None = None
        self._answer = Deframer()
        self._fault: BaseException | None = None
        self._foreign = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what asks `isinstance` learns what it would have learned
        return type(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    # -- what the program sends

    def sendall(self, data: Any, *args: Any) -> Any:
        """Send all of it; the effect begins before."""
        try:
            given = as_bytes(data)
        except TypeError:
            return self._inner.sendall(data, *args)  # it says itself what is wrong with it
        self._goes(given)
        try:
            return self._inner.sendall(data, *args)
        except BaseException as fault:
            self._stopped(fault)
            raise

    def send(self, data: Any, *args: Any) -> Any:
        """Send some of it. `http.client` itself never does."""
        sent = self._inner.send(data, *args)
        self._goes(as_bytes(data)[:sent])
        return sent

    def sendmsg(self, buffers: Any, *args: Any) -> Any:
        """Send some of several buffers."""
        parts = list(buffers)
        sent = self._inner.sendmsg(parts, *args)
        self._goes(b"".join(map(as_bytes, parts))[:sent])
        return sent

    def _stopped(self, fault: BaseException) -> None:
        """A send failed. An answer may have come before, and the client may read it."""
        self._fault = fault
        if self._exchange is not None and isinstance(fault, OSError):
            self._exchange.move(port.SEND_FAILED + values.encode(fault))

    def _goes(self, data: bytes) -> None:
        listener = port.current
        for piece in self._sending.feed(data):
            begun = piece.begun
            if begun is not None:
                self.finish()
                if listener is None or listener.answers:
                    continue
                whole = begun.body if piece.whole else None
                self._exchange = listener.call(LIBRARY, begun.method, begun.url(self._endpoint), begun.headers, whole)
                self._answer = Deframer(bodiless=begun.method == "HEAD")
                self._fault = None
            exchange: Any = self._exchange
            if exchange is None:
                continue
            if piece.body:
                exchange.part(piece.body)
            if piece.whole and (begun is None or begun.body is None):
                exchange.sent()
        if self._sending.foreign and not self._foreign:
            self._foreign = True
            if listener is not None:
                listener.note("socket.connect", f"{self._endpoint} (no HTTP/1.x)")

    # -- what it reads

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer; what came is in the record first."""
        if flags & socket.MSG_PEEK:
            return int(self._inner.recv_into(buffer, nbytes, flags))
        try:
            count = int(self._inner.recv_into(buffer, nbytes, flags))
        except BaseException as fault:
            self._failed(fault)
            raise
        self._came(bytes(memoryview(buffer).cast("B")[:count]), asked=nbytes or len(buffer))
        return count

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Read; what came is in the record first."""
        if flags & socket.MSG_PEEK:
            return bytes(self._inner.recv(bufsize, flags))
        try:
            data = bytes(self._inner.recv(bufsize, flags))
        except BaseException as fault:
            self._failed(fault)
            raise
        self._came(data, asked=bufsize)
        return data

    def _came(self, data: bytes, *, asked: int) -> None:
        exchange = self._exchange
        if exchange is None or not asked:
            return
        if data:
            exchange.wire(data)
            if not self._foreign:
                self._answer.feed(data)
        if not data or self._answer.complete:
            exchange.end(port.EOF_)

    def _failed(self, fault: BaseException) -> None:
        if self._exchange is not None and not isinstance(fault, (BlockingIOError, InterruptedError)):
            self._exchange.end(port.how_of(fault), fault)

    # -- its end

    def _file_closed(self) -> None:
        if self._answer.final:  # before, it was the file of an interim answer
            self.finish()

    def _real_close(self) -> None:
        self.finish()
        self._inner.close()

    def finish(self) -> None:
        """The program wants no more of the answer under way."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            fault = self._fault
            exchange.end(port.CLOSED_EARLY if fault is None else port.how_of(fault), fault)

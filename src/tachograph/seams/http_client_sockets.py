"""The two sockets that stand in for a connection's own: one that is watched, one that is played.

Both look like the socket of an `http.client` connection and give files like its own (`socket.SocketIO` under the
buffer that the program asks for), so that whoever reads, by line, by size or all of it, causes the reads that it would
have caused. What one read returned is one arrival, and comes back as one. Invariants:

- an effect begins before its bytes go out; what was read stands in the record before the program gets it;
- an answer ends `eof` where its own framing or the connection ends it, `closed_early` where the program does;
- nothing of a played socket reaches the kernel but a pair that `select` and `poll` can be asked about.
"""

from __future__ import annotations

import socket

from tachograph.formats.frame import END, WIRE
from tachograph.formats.wire import Deframer
from tachograph.seams import port
from tachograph.seams.http_client_sent import Begun, Sending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "http.client"


class _Tapped:
    """What both have in common: the files made of them, and the life that these give them."""

    _refs = 0
    _shut = False

    def makefile(self, *args: Any, **kwargs: Any) -> Any:
        """Return a file, as `socket.socket.makefile` does."""
        return socket.socket.makefile(self, *args, **kwargs)  # type: ignore[arg-type]

    @property
    def _io_refs(self) -> int:
        return self._refs

    @_io_refs.setter
    def _io_refs(self, count: int) -> None:
        self._refs = count

    def _decref_socketios(self) -> None:
        if self._refs > 0:
            self._refs -= 1
        if not self._refs:
            self._file_closed()
        if self._shut:
            self.close()

    def close(self) -> None:
        """Close, once every file made of it is closed."""
        self._shut = True
        if self._refs <= 0:
            self._real_close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._shut:
            self.close()

    def _file_closed(self) -> None:
        raise NotImplementedError

    def _real_close(self) -> None:
        raise NotImplementedError


def _as_bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))


class WatchedSocket(_Tapped):
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

    @property
    def __class__(self) -> Any:  # what asks `isinstance` learns what it would have learned
        return type(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    # -- what the program sends

    def sendall(self, data: Any, *args: Any) -> Any:
        """Send all of it; the effect begins before."""
        try:
            given = _as_bytes(data)
        except TypeError:
            return self._inner.sendall(data, *args)  # it says itself what is wrong with it
        self._goes(given)
        try:
            return self._inner.sendall(data, *args)
        except BaseException as fault:
            self._fault = fault
            raise

    def send(self, data: Any, *args: Any) -> Any:
        """Send some of it. `http.client` itself never does."""
        sent = self._inner.send(data, *args)
        self._goes(_as_bytes(data)[:sent])
        return sent

    def sendmsg(self, buffers: Any, *args: Any) -> Any:
        """Send some of several buffers."""
        parts = list(buffers)
        sent = self._inner.sendmsg(parts, *args)
        self._goes(b"".join(map(_as_bytes, parts))[:sent])
        return sent

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Send a file, read here: the kernel's own way passes by."""
        file.seek(offset)
        total = 0
        while count is None or total < count:
            data = file.read(8192 if count is None else min(8192, count - total))
            if not data:
                break
            self.sendall(data)
            total += len(data)
        return total

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

    def read(self, length: int = 1024, buffer: Any = None) -> Any:
        """Read from a TLS connection, as `ssl.SSLSocket.read` does."""
        return self.recv(length) if buffer is None else self.recv_into(buffer, length)

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


class PlayedSocket(_Tapped):
    """A connection that is not there: it takes a request, asks the playback, and reads what was recorded."""

    def __init__(self, endpoint: str, *, tls: bool, timeout: float | None) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._timeout = timeout
        self._sending = Sending()
        self._begun: Begun | None = None
        self._parts: list[bytes] = []
        self._answer: port.Answer | None = None
        self._deframer = Deframer()
        self._early: tuple[list[bytes], bool] | None = None
        self._given = 0  # of what was read before the request was whole
        self._rest = b""
        self._over = self._left = False
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._lit = False

    @property
    def __class__(self) -> Any:
        if self._tls:
            from ssl import SSLSocket  # a program with a TLS connection has it

            return SSLSocket
        return socket.socket

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.__class__, name):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> Any:
            self._refuse(f"socket.{name}")

        return refuse

    def _refuse(self, what: str) -> None:
        listener = port.current
        if listener is not None:
            listener.note(what, self._endpoint)
        raise PermissionError(13, f"a replay has no connection to {self._endpoint} that could answer {what}")

    # -- what the program sends

    def sendall(self, data: Any, *_: Any) -> None:
        """Take a part of a request; when it is whole, find its answer. Raises the miss if there is none."""
        if self._shut:
            raise OSError(9, "Bad file descriptor")
        for piece in self._sending.feed(_as_bytes(data)):
            begun = piece.begun
            if begun is not None:
                self._leave()
                self._begun, self._parts, self._answer, self._early = begun, [], None, None
                self._rest, self._given, self._over, self._left = b"", 0, False, False
                self._deframer = Deframer(bodiless=begun.method == "HEAD")
                self._parts.append(begun.body or b"")
            self._parts.append(piece.body)
            if piece.whole and self._answer is None:
                self._ask()
        if self._sending.foreign:
            self._refuse("socket.connect")

    def send(self, data: Any, *_: Any) -> int:
        """Take all of it."""
        self.sendall(data)
        return len(_as_bytes(data))

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        """Take all of them."""
        return self.send(b"".join(map(_as_bytes, buffers)))

    sendfile = WatchedSocket.sendfile

    def _ask(self) -> None:
        listener: Any = port.current
        begun: Any = self._begun
        body = b"".join(self._parts)
        self._parts = []
        answer = self._answer = listener.ask(LIBRARY, begun.method, begun.url(self._endpoint), begun.headers, body)
        for _ in range(self._given):
            answer.wait()

    # -- what it reads

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Read into a buffer what one read returned, or as much as there is room for."""
        view = memoryview(buffer).cast("B")
        data = self.recv(nbytes or len(view), flags)
        view[: len(data)] = data
        return len(data)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Read what one read returned, or as much as is asked for."""
        if self._shut and not self._refs:
            raise OSError(9, "Bad file descriptor")
        if not bufsize:
            return b""
        if not self._rest:
            self._rest = self._next()
        data = self._rest[:bufsize]
        if not flags & socket.MSG_PEEK:
            self._rest = self._rest[bufsize:]
        return data

    read = WatchedSocket.read

    def _next(self) -> bytes:
        if self._over:
            return b""
        if self._begun is None:
            self._refuse("socket.recv")
        if self._answer is None:
            early, whole = self._foreseen()
            if whole and self._given < len(early):
                self._given += 1
                return self._took(early[self._given - 1])
            self._ask()  # an answer that came before its request was whole
        answer: Any = self._answer
        while True:
            arrival = answer.wait()
            if arrival.kind == WIRE:
                return self._took(arrival.data)
            if arrival.kind == END:
                if arrival.how == port.ERROR:
                    raise arrival.error()
                self._over = True
                return b""

    def _took(self, data: bytes) -> bytes:
        self._deframer.feed(data)
        if self._deframer.complete:
            self._leave()  # nobody comes for its end
        return data

    def _foreseen(self) -> tuple[list[bytes], bool]:
        if self._early is None:
            listener: Any = port.current
            begun: Any = self._begun
            url = begun.url(self._endpoint)
            self._early = listener.connections.foresee(LIBRARY, begun.method, url, begun.headers)
        return self._early

    # -- what else a client asks of it

    def fileno(self) -> int:
        """A descriptor that is ready to be read where the recorded one was: an answer waits, or the peer has gone."""
        if self._shut and not self._refs:
            return -1
        if self._pair is None:
            self._pair = socket.socketpair()
            for one in self._pair:
                one.setblocking(False)
        if self._ready() != self._lit:
            self._lit = not self._lit
            if self._lit:
                self._pair[1].send(b"\0")
            else:
                self._pair[0].recv(1)
        return self._pair[0].fileno()

    def _ready(self) -> bool:
        if self._rest:
            return True
        if self._begun is None or self._deframer.complete or self._over:
            listener: Any = port.current
            return self._over or bool(listener.connections.refuses(LIBRARY, self._endpoint + "/"))
        if self._answer is not None:
            return True
        early, whole = self._foreseen()
        return self._given < len(early) if whole else bool(early)

    def settimeout(self, value: float | None) -> None:
        """Remember it: what timed out is in the record."""
        self._timeout = value

    def gettimeout(self) -> float | None:
        """What was set last."""
        return self._timeout

    @property
    def timeout(self) -> float | None:
        """What was set last."""
        return self._timeout

    def setblocking(self, flag: bool) -> None:
        """As `settimeout`."""
        self._timeout = None if flag else 0.0

    def getblocking(self) -> bool:
        """Whether a read would wait."""
        return self._timeout != 0

    def setsockopt(self, *_: Any) -> None:
        """There is no kernel that would care."""

    def shutdown(self, _how: int) -> None:
        """Reading and writing end."""
        self._leave()
        self._over = True

    def pending(self) -> int:
        """Bytes that a TLS connection has decrypted and not given yet."""
        return len(self._rest)

    # -- its end

    def _leave(self) -> None:
        if self._answer is not None and not self._left:
            self._left = True
            self._answer.close()

    def _file_closed(self) -> None:
        if self._deframer.final:
            self._leave()

    def _real_close(self) -> None:
        self._leave()
        self._over = True
        if self._pair is not None:
            for one in self._pair:
                one.close()
            self._pair = None

"""A connection of `http.client` in a replay: it is not there.

It takes a request's bytes until the request is whole, asks the playback, and gives what one recorded read returned to
one read: never two as one, and a part of it where the program's buffer is smaller. Nothing of it reaches the kernel but
a pair of sockets that `select` and `poll` can be asked about. What a record cannot say (a peer's address, its
certificate) is refused.
"""

from __future__ import annotations

import socket

from tachograph.formats.frame import END, WIRE
from tachograph.formats.wire import Deframer
from tachograph.formats.wire_request import Begun, Sending
from tachograph.seams import port
from tachograph.seams.http_client_sockets import LIBRARY, Tapped, as_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class PlayedSocket(Tapped):
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

    @property  # type: ignore[misc]
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
        for piece in self._sending.feed(as_bytes(data)):
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
        self._stop()

    def send(self, data: Any, *_: Any) -> int:
        """Take all of it."""
        self.sendall(data)
        return len(as_bytes(data))

    def sendmsg(self, buffers: Any, *_: Any) -> int:
        """Take all of them."""
        return self.send(b"".join(map(as_bytes, buffers)))

    def _stop(self) -> None:
        """Fail where sending failed: behind the same bytes, with the same error."""
        begun, listener = self._begun, port.current
        if begun is not None and self._answer is None and listener is not None and listener.answers:
            url = begun.url(self._endpoint)
            if not listener.connections.stops(LIBRARY, begun.method, url, begun.headers, self._parts):
                return
            self._ask()
        fault = None if self._answer is None else self._answer.send_fault()
        if fault is not None:
            raise fault

    def _ask(self) -> None:
        listener: Any = port.current
        begun: Any = self._begun
        parts, self._parts = self._parts, []
        answer = self._answer = listener.ask(LIBRARY, begun.method, begun.url(self._endpoint), begun.headers, parts)
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

"""A connection of aiohttp's client that is none: what is written finds its recording, whose bytes come back.

No name is looked up and no handshake made. The recorded bytes are fed to aiohttp's own protocol, each read when its
turn has come in the order of all arrivals, and not before the program's reader has made the moves that it had made by
then. No task is started for that, since a program counts its tasks: a coroutine of ours is stepped by the callbacks of
what it waits for. Then the connection ends as it did: it stays open for the next request, or is closed, or breaks.

Imported when aiohttp is, and not before: it needs asyncio.
"""

from __future__ import annotations

import asyncio

from tachograph.formats.frame import MOVE, WIRE
from tachograph.formats.wire_request import Begun, Sending
from tachograph.seams import aiohttp_transport, context, port
from tachograph.seams.bypasses import WEBSOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from typing import Any


async def connected(connector: Any, request: Any, origin: str, listener: port.Answers, client: Any) -> Any:
    """Return a protocol over a played connection, or raise what the recorded attempt to connect raised."""
    failed = listener.connections.ask(aiohttp_transport.LIBRARY, f"{origin}/")
    if failed is not None:
        try:
            arrival = await failed[0].wait_async()
        except BaseException:
            failed[0].close()
            raise
        raise _connect_fault(client, request, arrival.error())
    protocol = connector._factory()
    transport = Played(asyncio.get_running_loop(), protocol, origin)
    protocol._tachograph = transport.watched
    protocol.connection_made(transport)
    return protocol


def _connect_fault(client: Any, request: Any, fault: BaseException) -> BaseException:
    if not isinstance(fault, client.ClientConnectorError):
        return fault
    cause = fault.args[-1]
    if isinstance(fault, client.UnixClientConnectorError):
        made: BaseException = type(fault)(request.url.path, request.connection_key, cause)
    else:
        made = type(fault)(request.connection_key, cause)
    made.__cause__ = cause
    return made


class _Reader(aiohttp_transport.Watched):
    """The program's reader, as the played connection hears of it."""

    beforehand = False  # what came after a take comes when it was made

    def __init__(self, transport: Played) -> None:
        self._transport = transport
        self.place = context.here()

    def moved(self, reader: Any, what: bytes) -> None:
        """It waits, or takes: what had come in between before now comes."""
        if reader is self.payload:
            self._transport.moved(what)


class Played(asyncio.Transport):
    """The transport of a connection that is not there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any, origin: str) -> None:
        super().__init__()
        self.watched = _Reader(self)
        self._loop, self._protocol, self._origin = loop, protocol, origin
        self._sending = Sending()
        self._request: Begun | None = None
        self._whole = False
        self._body: list[bytes] = []
        self._foreseen = 0  # reads that the program was given before its request was whole
        self._early = False  # the answer came before the body, which then is not awaited
        self._answer: port.Answer | None = None
        self._moves: list[tuple[bytes, int]] = []
        self._waits: Coroutine[Any, Any, port.Arrival] | None = None
        self._closed = self._lost = False

    # -- what aiohttp writes

    def write(self, data: Any) -> None:
        """Take a part of a request; the last one asks for its answer. Raises the miss if it has none."""
        for piece in self._sending.feed(bytes(data)):
            begun = piece.begun
            if begun is not None:
                self._request, self._body = begun, [begun.body or b""]
                self._foreseen, self._early, self.watched.payload = 0, False, None
                if begun.header(b"upgrade") == b"websocket" and port.current is not None:
                    port.current.note(WEBSOCKET, aiohttp_transport.url_of(self._origin, begun.target))
            self._body.append(piece.body)
            self._whole = piece.whole
            request = self._request
            if request is None:
                continue
            if begun is not None and not piece.whole and begun.header(b"expect") == b"100-continue":
                self._invite(begun)
            if piece.whole and not self._early:
                self._ask(request)

    def _invite(self, request: Begun) -> None:
        """Give what had come before the body was sent: mostly that it may be; or the answer, and it never was."""
        listener = port.current
        if listener is None or not listener.answers:
            return
        url = aiohttp_transport.url_of(self._origin, request.target)
        with context.standing(self.watched.place):
            library = aiohttp_transport.LIBRARY
            came, whole = listener.connections.foresee(library, request.method, url, request.headers)
        self._early = not whole
        if self._early:
            self._ask(request)
        else:
            self._foreseen = len(came)
            self._loop.call_soon(self._feed, b"".join(came))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Take several parts."""
        self.write(b"".join(list_of_data))

    def _ask(self, request: Begun) -> None:
        listener = port.current
        if listener is None or not listener.answers:
            return
        url = aiohttp_transport.url_of(self._origin, request.target)
        try:
            with context.standing(self.watched.place):
                self._answer = listener.ask(aiohttp_transport.LIBRARY, request.method, url, request.headers, self._body)
        except BaseException as miss:
            if not self._closed:
                self._loop.call_soon(self._protocol.set_exception, miss)  # whoever waits for the answer sees it too
            raise
        self._body = []
        if not self._closed:
            self._loop.call_soon(self._pump)

    # -- what comes back

    def _pump(self) -> None:
        """Wait for the next arrival, unless the program's reader has to move before it comes."""
        answer = self._answer
        if answer is not None and self._waits is None and not self._moves and answer.due():
            self._waits = answer.wait_async()
            self._step()

    def _step(self, _done: object = None) -> None:
        waits = self._waits
        if waits is None:
            return
        try:
            future = waits.send(None)
        except StopIteration as given:
            self._waits = None
            self._given(given.value)
            return
        except BaseException:
            self._waits = None
            raise
        future._asyncio_future_blocking = False  # as a task says that it has taken what was yielded to it
        future.add_done_callback(self._step)

    def _given(self, arrival: port.Arrival) -> None:
        if arrival.kind == MOVE:
            self._moves = aiohttp_transport.read_moves(arrival.data)
        elif arrival.kind == WIRE:
            if self._foreseen:
                self._foreseen -= 1
            else:
                self._feed(arrival.data)
        else:
            self._answer = None
            self._end(arrival)
        self._pump()

    def _feed(self, data: bytes) -> None:
        if data and not self._lost:
            self._protocol.data_received(data)

    def _end(self, arrival: port.Arrival) -> None:
        fault = arrival.error() if arrival.how == port.ERROR else None
        payload = self.watched.payload
        if fault is None:
            if payload is None or not payload.is_eof():
                self._lose(None)
        elif type(fault).__module__.startswith("aiohttp.") and isinstance(fault, TimeoutError):
            self._protocol._on_read_timeout()
        elif type(fault).__module__.startswith("aiohttp."):
            self._lose(None)  # aiohttp makes it itself, out of bytes that break off
        else:
            self._lose(fault)

    def moved(self, what: bytes) -> None:
        """The program's reader moved. Raises the miss if it waits for more than was recorded."""
        moves = self._moves
        if moves:
            if moves[0][0] == what:
                left = moves[0][1] - 1
                moves[:1] = [(what, left)] if left else []
            elif what == b"W":  # it moves otherwise than it did: a wait that was recorded later stands for this one
                while moves and moves[0][0] != what:
                    moves.pop(0)
                if moves:
                    self.moved(what)
                    return
        elif what == b"W" and self._answer is not None and self._waits is None and not self._answer.due():
            self._waits = self._answer.wait_async()
            self._step()
        if not self._moves:
            if what == b"W":
                self._loop.call_soon(self._pump)
            else:
                self._pump()

    # -- how it ends

    def _lose(self, fault: BaseException | None) -> None:
        if not self._lost:
            self._lost = self._closed = True
            self._protocol.connection_lost(fault)

    def close(self) -> None:
        """The program closes the connection: what it did not read is let go."""
        if self._closed:
            return
        self._closed = True
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.close()
        answer, self._answer = self._answer, None
        request = self._request
        if answer is None and request is not None and not self._whole and not self._early:
            self._ask(request)  # it broke off while it sent
            answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()
        self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """The same: nothing waits to be written."""
        self.close()

    def is_closing(self) -> bool:
        """Whether it was closed, from either side."""
        return self._closed

    def get_protocol(self) -> Any:
        """Return the protocol."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Use another protocol."""
        self._protocol = protocol

    def is_reading(self) -> bool:
        """It reads: when bytes come is decided by what was recorded."""
        return not self._closed

    def pause_reading(self) -> None:
        """A recorded pause shows in the reader's moves."""

    def resume_reading(self) -> None:
        """As above."""

    def get_write_buffer_size(self) -> int:
        """Nothing is kept back."""
        return 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The usual ones."""
        return (16384, 65536)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept back."""

    def can_write_eof(self) -> bool:
        """As a connection can."""
        return True

    def write_eof(self) -> None:
        """Nothing is written after it."""

"""The seam of aiohttp's client: below its parser, where bytes go to a connection and come from it.

A request is read from what is written (head, then the body out of its framing); an answer is what each read of the
socket gave. Bytes alone would not bring a program the same pieces again, since aiohttp buffers between the socket and
the reader: `readany` gives whatever has come by now. So the reader's moves are handed over as well, between the
arrivals: `W`, it waits for more; `R`, it takes what is there; a number repeats a move (`R3W`).

- an effect belongs to the task that asked, not to the task in which aiohttp writes a body;
- a failed connection is an effect of its own (`CONNECT`); one that comes about is none;
- an answer that the program stopped waiting for (cancelled, timed out) is `cut_off`, one that it closed `closed_early`;
- an answer that came before its request was written (a server that is too busy to read) is the request's answer;
- in a replay no connection is made: `aiohttp_played` stands in its place;
- a websocket is not recorded: it is noted as bypassed.
"""

from __future__ import annotations

import sys

from tachograph.formats.wire_request import Sending
from tachograph.seams import context, listeners, port
from tachograph.seams.bypasses import WEBSOCKET
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

    from tachograph.formats.wire_request import Piece

LIBRARY = "aiohttp"
_WAITS, _TAKES = b"W", b"R"


class Moves:
    """The reader's moves since the last arrival, in short: `R3W` for three takes and a wait."""

    __slots__ = ("_count", "_last", "_written")

    def __init__(self) -> None:
        self._written = bytearray()
        self._last = b""
        self._count = 0

    def add(self, what: bytes) -> None:
        """The reader moved."""
        if what != self._last:
            self._close()
            self._last = what
        self._count += 1

    def _close(self) -> None:
        if self._count:
            self._written += self._last if self._count == 1 else b"%s%d" % (self._last, self._count)
        self._count = 0

    def take(self) -> bytes:
        """Return what is written, and begin again."""
        self._close()
        taken = bytes(self._written)
        self._written.clear()
        self._last = b""
        return taken


def read_moves(data: bytes) -> list[tuple[bytes, int]]:
    """Read moves as `Moves` writes them: each with how often it was made."""
    moves: list[tuple[bytes, int]] = []
    for place in range(len(data)):
        letter = data[place : place + 1]
        if letter.isdigit():
            what, count = moves[-1]
            moves[-1] = what, int(letter) if data[place - 1 : place] == what else count * 10 + int(letter)
        else:
            moves.append((letter, 1))
    return moves


class Watched:
    """What both sides of a connection know: the answer's message, and the reader that the program reads it with."""

    payload: Any = None
    beforehand = True  # hears of a take before it is made: what the taking sets going comes after it

    def message(self, code: int, payload: Any) -> None:
        """The parser has read the head of a message."""
        if code >= 200 or code == 101:
            self.payload = payload

    def moved(self, reader: Any, what: bytes) -> None:
        """The program's reader of this message waits or takes."""


class Tap(Watched):
    """A recorded connection: what is written and what comes on it."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.place = context.here()
        self._sending = Sending()
        self._exchange: port.Exchange | None = None
        self._early: list[bytes] = []
        self._moves = Moves()
        self._off = False

    def writes(self, pieces: Iterable[Any]) -> None:
        """These bytes are about to go out."""
        listener = port.current
        if listener is None or listener.answers or self._off:
            return
        for piece in self._sending.feed(b"".join([one if type(one) is bytes else bytes(one) for one in pieces])):
            self._wrote(listener, piece)

    def _wrote(self, listener: port.Records, piece: Piece) -> None:
        begun = piece.begun
        if begun is not None:
            if not self._early:
                self.payload = None
            url = url_of(self._origin, begun.target)
            if begun.header(b"upgrade") == b"websocket":
                self._off = True
                listener.note(WEBSOCKET, url)
                return
            with context.standing(self.place):
                self._exchange = listener.call(LIBRARY, begun.method, url, begun.headers, begun.body)
        exchange = self._exchange
        if exchange is None:
            return
        if piece.body:
            exchange.part(piece.body)
        if piece.whole and (begun is None or begun.body is None):
            exchange.sent()
        if self._early:
            for early in self._early:
                exchange.wire(early)
            self._early.clear()
            self.parsed()

    def came(self, data: bytes) -> None:
        """What one read of the socket gave is about to be given to the parser."""
        exchange = self._exchange
        if exchange is None:
            if not self._off:
                self._early.append(bytes(data))
            return
        moves = self._moves.take()
        if moves:
            exchange.move(moves)
        exchange.wire(bytes(data))

    def moved(self, reader: Any, what: bytes) -> None:
        """The program's reader of this message waits or takes."""
        if self._exchange is not None and reader is self.payload:
            self._moves.add(what)

    def parsed(self) -> None:
        """The parser has had what came: is the answer whole?"""
        if self._whole():
            self.end(port.EOF_)

    def _whole(self) -> bool:
        payload = self.payload
        return payload is not None and payload.is_eof() and payload.exception() is None

    def lost(self, protocol: Any, fault: BaseException | None) -> None:
        """The connection is gone: by the server's close, or by a fault."""
        payload = self.payload
        if self._exchange is None:
            return
        if self._whole():
            self.end(port.EOF_)  # it had no other end than the close
        elif fault is not None:
            self.end(port.ERROR, fault)
        else:
            seen = (payload.exception() if payload is not None else None) or protocol.exception()
            self.end(port.ERROR, None if seen is None else _plain(seen))

    def closes(self) -> None:
        """The program closes the connection, or no longer waits for the answer on it."""
        if self._whole():
            self.end(port.EOF_)  # the parser lets go of a connection in the midst of what ends the answer
        elif self._exchange is not None:
            fault = sys.exc_info()[1]
            waiting = isinstance(fault, TimeoutError) or (fault is not None and port.how_of(fault) == port.CUT_OFF)
            given_up = waiting and not isinstance(fault, GeneratorExit)
            self.end(port.CUT_OFF if given_up else port.CLOSED_EARLY)

    def end(self, how: str, fault: BaseException | None = None) -> None:
        """The answer ended so."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            moves = self._moves.take()
            if moves:
                exchange.move(moves)
            exchange.end(how, fault)


def url_of(origin: str, target: str) -> str:
    """Make the absolute address of a request: a proxy is sent one, a server is sent its path."""
    return target if "://" in target.partition("?")[0] else origin + target


def origin_of(request: Any) -> str:
    """Name the server of a connection: scheme, host and port."""
    return str(request.url.origin())


def _plain(fault: BaseException) -> BaseException:
    """One of aiohttp's own faults with its text only: its other parts hold the request's credentials."""
    try:
        return type(fault)(str(fault))
    except TypeError:
        return fault


def _connect_fault(client: Any, fault: BaseException) -> BaseException:
    """A failed connection's fault, to be kept: of the key of the connection (it holds passwords) nothing."""
    if isinstance(fault, client.ClientConnectorError):
        kind: Any = type(fault)
        kept: BaseException = kind.__new__(kind)
        kept.args = (fault.os_error,)
        return kept
    return fault


def _stays_inside(connector: Any, request: Any) -> bool:
    """Whether the connection goes to a server of this very run: its handler runs again in a replay, so it passes."""
    path = getattr(connector, "_path", None)
    if path is not None:
        return listeners.is_own(None, path)
    return not request.proxy and listeners.is_own(request.url.raw_host, request.url.port)


def _patch(module: ModuleType) -> None:
    protocols, streams = sys.modules["aiohttp.client_proto"], sys.modules["aiohttp.streams"]
    _patch_connectors(module)
    _patch_requests(sys.modules["aiohttp.client_reqrep"].ClientRequest)
    _patch_writer(sys.modules["aiohttp.http_writer"].StreamWriter)
    _patch_protocol(protocols.ResponseHandler)
    _patch_reader(streams.StreamReader)


def _patch_connectors(module: Any) -> None:
    from tachograph.seams import aiohttp_played  # here and not at the top: it imports asyncio

    def connecting(original: Any) -> Any:
        async def _create_connection(self: Any, request: Any, traces: Any, timeout: Any) -> Any:
            listener = port.current
            if listener is None or _stays_inside(self, request):
                return await original(self, request, traces, timeout)
            origin = origin_of(request)
            if listener.answers:
                return await aiohttp_played.connected(self, request, origin, listener, module)
            token = context.claimed.set(True)
            try:
                protocol = await original(self, request, traces, timeout)
            except BaseException as fault:
                context.claimed.reset(token)
                exchange = listener.call(LIBRARY, "CONNECT", f"{origin}/", [(port.FAILED_AT, port.DIAL)], b"")
                exchange.end(port.how_of(fault), _connect_fault(module, fault))
                raise
            context.claimed.reset(token)
            protocol._tachograph = Tap(origin)
            return protocol

        return _create_connection

    for connector in (module.TCPConnector, module.UnixConnector):
        connector._create_connection = connecting(connector._create_connection)


def _patch_requests(request: Any) -> None:
    send = request.send

    async def send_from_here(self: Any, connection: Any) -> Any:
        watched = _watched(connection.protocol)
        if watched is not None:
            watched.place = context.here()
        return await send(self, connection)

    request.send = send_from_here


def _watched(protocol: Any) -> Any:
    return getattr(protocol, "_tachograph", None)


def _patch_writer(writer: Any) -> None:
    write, writelines = writer._write, writer._writelines

    def open_tap(self: Any) -> Tap | None:
        tap = _watched(self._protocol)
        transport = self._protocol.transport
        return tap if isinstance(tap, Tap) and transport is not None and not transport.is_closing() else None

    def _write(self: Any, chunk: Any) -> None:
        tap = open_tap(self)
        if tap is not None:
            tap.writes((chunk,))
        write(self, chunk)

    def _writelines(self: Any, chunks: Any) -> None:
        tap = open_tap(self)
        if tap is not None:
            chunks = tuple(chunks)
            tap.writes(chunks)
        writelines(self, chunks)

    writer._write, writer._writelines = _write, _writelines


def _patch_protocol(protocol: Any) -> None:
    received, lost, feed = protocol.data_received, protocol.connection_lost, protocol.feed_data
    close, abort, timed_out = protocol.close, protocol.abort, protocol._on_read_timeout

    def data_received(self: Any, data: bytes) -> None:
        tap = _watched(self)
        if not isinstance(tap, Tap):
            received(self, data)
            return
        if data and self._parser is not None:  # without a parser it is put aside, and comes again
            tap.came(data)
        received(self, data)
        tap.parsed()

    def connection_lost(self: Any, exc: BaseException | None) -> None:
        lost(self, exc)
        tap = _watched(self)
        if isinstance(tap, Tap):
            tap.lost(self, exc)

    def feed_data(self: Any, data: Any, *args: Any, **kwargs: Any) -> None:
        watched = _watched(self)
        if watched is not None:
            watched.message(data[0].code, data[1])
        feed(self, data, *args, **kwargs)

    def closing(original: Any) -> Any:
        def closes(self: Any) -> None:
            tap = _watched(self)
            if isinstance(tap, Tap):
                tap.closes()
            original(self)

        return closes

    def _on_read_timeout(self: Any) -> None:
        timed_out(self)
        tap = _watched(self)
        if isinstance(tap, Tap):
            tap.end(port.ERROR, _plain(self.exception()))

    protocol.data_received, protocol.connection_lost, protocol.feed_data = data_received, connection_lost, feed_data
    protocol.close, protocol.abort = closing(close), closing(abort)
    protocol._on_read_timeout = _on_read_timeout


def _patch_reader(reader: Any) -> None:
    wait, read, read_chunk = reader._wait, reader._read_nowait, reader._read_nowait_chunk
    inside: set[int] = set()  # readers that take several pieces in one move

    async def _wait(self: Any, name: str) -> None:
        watched = _watched(self._protocol)
        if watched is not None:
            watched.moved(self, _WAITS)
        await wait(self, name)

    def _read_nowait(self: Any, n: int) -> bytes:
        watched = _watched(self._protocol)
        if watched is None:
            return bytes(read(self, n))
        if watched.beforehand:
            watched.moved(self, _TAKES)
        inside.add(id(self))
        try:
            data = read(self, n)
        finally:
            inside.discard(id(self))
        if not watched.beforehand:
            watched.moved(self, _TAKES)
        return bytes(data)

    def _read_nowait_chunk(self: Any, n: int) -> bytes:
        watched = None if id(self) in inside else _watched(self._protocol)
        if watched is not None and watched.beforehand:
            watched.moved(self, _TAKES)
        data = read_chunk(self, n)
        if watched is not None and not watched.beforehand:
            watched.moved(self, _TAKES)
        return bytes(data)

    reader._wait, reader._read_nowait, reader._read_nowait_chunk = _wait, _read_nowait, _read_nowait_chunk


def install() -> None:
    """Watch aiohttp's client when the program imports it."""
    when_imported("aiohttp.connector", _patch)

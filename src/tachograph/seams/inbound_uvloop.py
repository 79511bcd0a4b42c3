"""Connections that come in at uvloop's servers: libuv accepts, reads and sends below `socket.socket`.

So the protocol that the program's factory makes is given a connection that is heard (`HeardTransport`), and is itself
called through one that hears (`HeardProtocol`). Both hand on whatever else is asked of them, and what asks for their
class learns the program's. A server over TLS, or a protocol with a buffer of its own, is left as it is.
"""

from __future__ import annotations

from tachograph.seams import port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class _Where:
    """The listener at which a connection came in, as far as who hears of it asks."""

    def __init__(self, address: Any) -> None:
        self._address = address

    def getsockname(self) -> Any:
        """Where the program listens."""
        return self._address

    def gettimeout(self) -> float:
        """As of a socket that does not block."""
        return 0.0


class HeardTransport:
    """The program's transport; what it writes is told first."""

    __slots__ = ("_hears", "_inner", "_protocol")

    def __init__(self, inner: Any, protocol: Any, hears: Callable[[bytes], None]) -> None:
        self._inner, self._protocol, self._hears = inner, protocol, hears

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # what asks `isinstance` learns what it would have learned
        return type(self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)

    def write(self, data: Any) -> Any:
        """Write, or keep for writing."""
        if type(data) in (bytes, bytearray, memoryview) and len(data):
            self._hears(bytes(data))
        return self._inner.write(data)

    def writelines(self, lines: Any) -> Any:
        """The same, of several."""
        given = list(lines)
        self._hears(b"".join(given))
        return self._inner.writelines(given)

    def get_protocol(self) -> Any:
        """The program's protocol."""
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        """Another protocol goes on: nothing is heard of what it reads."""
        self._protocol = protocol
        self._inner.set_protocol(protocol)


class HeardProtocol:
    """The program's protocol; what it is given is told first."""

    def __init__(self, inner: Any, sockets: Callable[[], Any]) -> None:
        self._inner, self._sockets = inner, sockets
        self._tap: port.Tap | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connection_made(self, transport: Any) -> None:
        """A connection came in."""
        listener = port.current
        if listener is not None:
            self._guarded(lambda: self._accepted(listener, transport))
        if self._tap is not None:
            transport = HeardTransport(transport, self._inner, self._sends)
        self._inner.connection_made(transport)

    def _accepted(self, listener: port.Listener, transport: Any) -> None:
        local = transport.get_extra_info("sockname")
        known = [one.getsockname() for one in self._sockets()]
        address = next((one for one in known if one[1] == local[1]), local)
        self._tap, _ = listener.accepted(_Where(address), transport.get_extra_info("peername"))

    def _sends(self, data: bytes) -> None:
        tap = self._tap
        if tap is not None:
            self._guarded(lambda: tap.sent(data))

    def data_received(self, data: bytes) -> None:
        """Something came."""
        tap = self._tap
        if tap is not None:
            self._guarded(lambda: tap.came(data))
        self._inner.data_received(data)

    def connection_lost(self, fault: BaseException | None) -> None:
        """The connection is gone."""
        tap = self._tap
        if tap is not None:
            self._guarded(tap.closed)
        self._inner.connection_lost(fault)

    def _guarded(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as fault:  # noqa: BLE001 - the program's edge: its server must go on as it would without us
            self._tap = None
            listener = port.current
            if listener is not None and not listener.answers:
                listener.note("bypassed.inbound", f"{type(fault).__name__}: {fault}")


def _patch(module: ModuleType) -> None:
    loop = module.Loop
    create, start_tls = loop.create_server, loop.start_tls

    async def create_server(self: Any, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        listener = port.current
        if listener is None or options.get("ssl") is not None:
            return await create(self, protocol_factory, *args, **options)
        made: list[Any] = []

        def factory() -> Any:
            protocol = protocol_factory()
            if hasattr(protocol, "get_buffer"):
                return protocol
            return HeardProtocol(protocol, lambda: made[0].sockets if made else ())

        server = await create(self, factory, *args, **options)
        made.append(server)
        return server

    async def start_tls_there(self: Any, transport: Any, protocol: Any, *args: Any, **options: Any) -> Any:
        inner = transport._inner if type(transport) is HeardTransport else transport
        return await start_tls(self, inner, protocol, *args, **options)

    loop.create_server = create_server
    loop.start_tls = start_tls_there


def install() -> None:
    """Watch uvloop's servers, when the program imports it."""
    when_imported("uvloop", _patch)

"""What leaves past every seam, and past the audit hook where it stands in native code: websockets, and uvloop's ways.

The `websockets` library shows as a connection to the audit hook; here it is named, so that a refused replay says what
was missing. uvloop connects and resolves in libuv, without one audit event: its methods tell the hook what it would
have heard. A recorder notes each, a playback refuses it.
"""

from __future__ import annotations

from tachograph.seams import hooks, listeners, port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

WEBSOCKET = "bypassed.websocket"


def _patch_websockets(module: Any) -> None:
    protocol = module.ClientProtocol
    original = protocol.connect

    def connect(self: Any) -> Any:
        where = self.uri
        if port.current is not None and not listeners.is_own(where.host, where.port):
            scheme = "wss" if where.secure else "ws"
            port.current.note(WEBSOCKET, f"{scheme}://{where.host}:{where.port}{where.path}")
        return original(self)

    protocol.connect = connect


def _patch_uvloop(module: ModuleType) -> None:
    loop: Any = module.Loop
    create_connection, create_unix = loop.create_connection, loop.create_unix_connection
    create_datagram, getaddrinfo = loop.create_datagram_endpoint, loop.getaddrinfo

    async def connecting(self: Any, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is not None or port is not None:
            hooks.heard("socket.connect", None, (host, port))
        return await create_connection(self, protocol_factory, host, port, **options)

    async def connecting_unix(self: Any, protocol_factory: Any, path: Any = None, **options: Any) -> Any:
        if path is not None:
            hooks.heard("socket.connect", None, path)
        return await create_unix(self, protocol_factory, path, **options)

    async def opening(
        self: Any, protocol_factory: Any, local_addr: Any = None, remote_addr: Any = None, **options: Any
    ) -> Any:
        if remote_addr is not None:
            hooks.heard("socket.sendto", None, remote_addr)
        return await create_datagram(self, protocol_factory, local_addr, remote_addr, **options)

    async def resolving(self: Any, host: Any, port: Any, **options: Any) -> Any:
        hooks.heard("socket.getaddrinfo", host, port)
        return await getaddrinfo(self, host, port, **options)

    for name, patched in (
        ("create_connection", connecting), ("create_unix_connection", connecting_unix),
        ("create_datagram_endpoint", opening), ("getaddrinfo", resolving),
    ):  # fmt: skip
        patched.__name__ = name
        patched.__qualname__ = f"Loop.{name}"
        setattr(loop, name, patched)


def install() -> None:
    """Name them, each when the program imports it."""
    when_imported("websockets.client", _patch_websockets)
    when_imported("uvloop", _patch_uvloop)

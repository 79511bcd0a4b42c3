"""The seam of connections that come in: what a server reads from one it has accepted, and what it sends there.

It stands at `accept` of the run's own listeners, so that any server is seen: `http.server`, `asyncio`'s transports
(they accept and read by `socket.socket` too), servers of one's own. A listener is asked for a *tap* of each connection
and hears through it every read and every send. Guarantees:

- the program's socket stays the one that it would have had, of the same class; what is read or sent is not touched;
- a program that accepts nothing pays nothing: reads and sends are only watched from the first tap on;
- a tap that fails is dropped, and never fails the program's read or send.

Not seen: what TLS or `os.sendfile` move below `socket.socket`; for uvloop see `inbound_uvloop`.
"""

from __future__ import annotations

from _weakref import ref

from tachograph.seams import port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_PEEK = 2  # MSG_PEEK
_taps: dict[int, port.Tap] = {}
_refs: dict[int, Any] = {}
_patched = False


def _follow(sock: Any, tap: port.Tap) -> None:
    key = id(sock)
    _taps[key] = tap
    _refs[key] = ref(sock, lambda _: _drop(key))


def _drop(key: int) -> None:
    _taps.pop(key, None)
    _refs.pop(key, None)


def _tell(key: int, hear: Callable[[bytes], None], data: Any) -> None:
    try:
        hear(data if type(data) is bytes else bytes(data))
    except Exception as fault:  # noqa: BLE001 - the program's edge: its server must go on as it would without us
        _drop(key)
        listener = port.current
        if listener is not None and not listener.answers:
            listener.note("bypassed.inbound", f"{type(fault).__name__}: {fault}")


def _patch_reads(kind: Any) -> None:
    recv, recv_into = kind.recv, kind.recv_into
    send, sendall, sendmsg, sendfile, close = kind.send, kind.sendall, kind.sendmsg, kind.sendfile, kind.close

    def recv_here(self: Any, *args: Any) -> Any:
        data = recv(self, *args)
        tap = _taps.get(id(self))
        if tap is not None and data and not (len(args) > 1 and args[1] & _PEEK):
            _tell(id(self), tap.came, data)
        return data

    def recv_into_here(self: Any, buffer: Any, nbytes: int = 0, flags: int = 0) -> Any:
        count = recv_into(self, buffer, nbytes, flags)
        tap = _taps.get(id(self))
        if tap is not None and count and not flags & _PEEK:
            _tell(id(self), tap.came, memoryview(buffer).cast("B")[:count])
        return count

    def send_here(self: Any, data: Any, *args: Any) -> Any:
        count = send(self, data, *args)
        tap = _taps.get(id(self))
        if tap is not None and count:
            _tell(id(self), tap.sent, memoryview(data).cast("B")[:count])
        return count

    def sendall_here(self: Any, data: Any, *args: Any) -> Any:
        tap = _taps.get(id(self))
        if tap is not None and type(data) in (
            bytes,
            bytearray,
            memoryview,
        ):  # before: the other side may answer at once
            _tell(id(self), tap.sent, data)
        return sendall(self, data, *args)

    def sendmsg_here(self: Any, buffers: Any, *args: Any) -> Any:
        tap = _taps.get(id(self))
        if tap is None:
            return sendmsg(self, buffers, *args)
        parts = list(buffers)
        count = sendmsg(self, parts, *args)
        _tell(id(self), tap.sent, b"".join(bytes(one) for one in parts)[:count])
        return count

    def sendfile_here(self: Any, file: Any, offset: int = 0, count: int | None = None) -> Any:
        if id(self) in _taps:
            return self._sendfile_use_send(file, offset, count)
        return sendfile(self, file, offset, count)

    def close_here(self: Any) -> None:
        tap = _taps.get(id(self))
        close(self)
        if tap is not None:
            _tell(id(self), lambda _: tap.closed(), b"")

    for name, made in (
        ("recv", recv_here), ("recv_into", recv_into_here), ("send", send_here), ("sendall", sendall_here),
        ("sendmsg", sendmsg_here), ("sendfile", sendfile_here), ("close", close_here),
    ):  # fmt: skip
        made.__name__ = made.__qualname__ = name
        setattr(kind, name, made)


def _patch(module: ModuleType) -> None:
    kind = module.socket
    accept = kind.accept

    def accept_here(self: Any) -> Any:
        global _patched
        sock, address = accept(self)
        listener = port.current
        if listener is None:
            return sock, address
        try:
            tap, address = listener.accepted(self, address)
        except Exception as fault:  # noqa: BLE001 - as above
            listener.note("bypassed.inbound", f"{type(fault).__name__}: {fault}")
            return sock, address
        if tap is not None:
            if not _patched:
                _patched = True
                _patch_reads(kind)
            _follow(sock, tap)
        return sock, address

    accept_here.__name__ = accept_here.__qualname__ = "accept"
    kind.accept = accept_here


def install() -> None:
    """Watch `socket.socket.accept`, when the program imports `socket`."""
    when_imported("socket", _patch)

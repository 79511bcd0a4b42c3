"""What passes no seam: connections that no transport claims, programs started past every seam. And files.

An audit hook sees them whoever causes them (a client without a seam, `_socket` directly). A recorder notes
them, so that coverage counts what bypassed it; a playback refuses them (`PermissionError`) and reports the attempt. No
attempt, in either: creating a socket, `socketpair`, binding or listening on loopback, connecting to a listener of the
run itself, or to where one was a unix socket that is gone. A hook cannot be removed; it costs an event name's look-up
in a dict, also on the events that it ignores.

Not seen from here, and said so by `doctor`: native code that makes system calls itself.
"""

from __future__ import annotations

import sys

from tachograph.seams import files, port
from tachograph.seams.context import claimed, failing, starting
from tachograph.seams.listeners import is_own_address, was_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["claimed", "heard", "install"]

_LOOPBACK = ("127.", "::1", "localhost")
_installed = False


def _address(value: Any) -> str:
    if isinstance(value, tuple) and len(value) >= 2:
        return f"{value[0]}:{value[1]}"
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _connect(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    # `sendmsg` over what is connected already names no address.
    if claimed.get() or args[1] is None:
        return None
    if event == "socket.connect" and (is_own_address(args[1]) or was_own(args[1])):
        return None
    return event, _address(args[1])


def _bind(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    where = _address(args[1])
    # The empty host (":port") and 0.0.0.0 listen on loopback too, and a closed world has nothing else.
    inside = where.startswith((*_LOOPBACK, ":", "0.0.0.0:")) or not isinstance(args[1], tuple)
    return None if inside else (event, where)


def _resolve(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    host = args[0]
    name = host.decode("utf-8", "replace") if isinstance(host, bytes) else str(host)
    numeric = host is None or name == "" or name.startswith(_LOOPBACK) or name.replace(".", "").isdigit() or ":" in name
    return None if claimed.get() or numeric else (event, name)


def _start(event: str, args: tuple[Any, ...]) -> tuple[str, str] | None:
    if starting.get():
        return None
    what = args[0] if args else ""
    return event, what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)


_WATCHED: dict[str, Callable[[str, tuple[Any, ...]], Any]] = {
    "socket.connect": _connect, "socket.sendto": _connect, "socket.sendmsg": _connect, "socket.bind": _bind,
    "socket.getaddrinfo": _resolve, "socket.gethostbyname": _resolve, "subprocess.Popen": _start, "os.system": _start,
    "os.exec": _start, "os.posix_spawn": _start, "os.spawn": _start, "os.startfile": _start,
    **files.EVENTS,
}  # fmt: skip
_DIALS = (_connect, _resolve)


def _hook(event: str, args: tuple[Any, ...]) -> None:
    watch = _WATCHED.get(event)
    if watch is None:
        return
    if event in files.EVENTS:
        if port.current is not None:
            watch(event, args)
        return
    if watch in _DIALS and (fault := failing.get()) is not None:
        raise fault
    listener = port.current
    if listener is not None:
        crossing = watch(event, args)
        if crossing is not None:
            listener.note(*crossing)
        elif claimed.get() and watch is _connect:
            listener.passed(event, _address(args[1]))


def heard(event: str, *args: Any) -> None:
    """Hear of something that makes no audit event, as if it had made this one."""
    _hook(event, args)


def install() -> None:
    """Add the hook, once per process."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_hook)

"""The run's own listeners: at which addresses the program itself takes connections.

A call to one of them does not leave the run: it is no effect, it passes while recording and in a replay alike, and the
handler runs again, so that what the handler does is recorded, and answered, as effects of its own. What counts as own
is an address at which a socket of this run listens *now*: a server that was closed is nobody's any more, and whatever
took its port meanwhile is the world outside. Guarantees:

- `bind` with port 0 is a draw: its value is the port that was given. A replay binds the recorded one where it can, and
  says so where it cannot; `getsockname` tells what was bound in either case;
- servers on threads, asyncio and uvloop are seen alike; those of other processes of the run through the table that is
  shared with them (`share`). It holds the inode numbers of their sockets: which of these listen now, and where, the
  kernel tells (`/proc/net`). Where it does not, as elsewhere than on Linux, other processes' listeners are no own ones;
- nothing is asked of the network, and a call to elsewhere costs one look-up.
"""

from __future__ import annotations

import os
from sys import _getframe

from tachograph.seams import port
from tachograph.seams.draws import asked_from, number_of
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from types import CodeType, ModuleType
    from typing import Any, Protocol

    class Shared(Protocol):
        """What the processes of one run know of each other's listeners: the inode numbers of their sockets."""

        def add_listener(self, inode: int, name: int) -> bool:
            """A socket of this process, with that inode number, listens. Returns False where the table is full.

            `name` stands for the path of a unix socket; it is 0 for any other.
            """

        def keep_listeners(self, inodes: Container[int]) -> None:
            """Forget all but these: the others listen no more."""

        def listeners(self) -> Container[int]:
            """Return the inode numbers of all sockets that were added and not forgotten."""

        def names(self) -> Container[int]:
            """Return what stands for their paths."""


_ANY = ("", "0.0.0.0", "::")
_LOOPBACK = ("127.", "::1", "localhost")
_KIND = number_of("socket.bind")

_known: dict[int | str, list[tuple[str, int, int]]] = {}  # port or path -> host, descriptor, inode of each listener
_paths: dict[str, int] = {}  # unix path -> inode of the file that a listener of this process made
_shared: Shared | None = None


def share(table: Shared | None) -> None:
    """Tell other processes of the run of listeners from now on, and ask it for theirs."""
    global _shared
    _shared = table


def is_own(host: str | None, number: int | str | None) -> bool:
    """Say whether a socket of this run listens at that host and port (or at that unix path, with `host` None)."""
    if number is None:
        return False
    found = _known.get(number)
    if found is not None and any(_same(bound, host) and _listens(fd, inode) for bound, fd, inode in found):
        return True
    if isinstance(number, str) and number in _paths and _is_file(number, _paths[number]):
        return True
    if _shared is None or not (host is None or host in _ANY or host.startswith(_LOOPBACK)):
        return False
    known = _shared.listeners()
    return bool(known) and any(
        inode in known and where == number and _same(bound, host) for bound, where, inode in _listening(number)
    )


_LISTENS, _ACCEPTS = "0A", 0x10000  # the state of a TCP socket that listens, the flag of a unix one
_NET = "/proc/self/net"


def _listening(number: int | str | None = None) -> Iterator[tuple[str, int | str, int]]:
    """Yield host, port (or path, with an empty host) and inode number of every socket that listens on this machine.

    With a port or a path, only its kind of sockets are looked through.
    """
    for table in ("tcp", "tcp6") if not isinstance(number, str) else ():
        for words in _lines(table, 10):
            if words[3] == _LISTENS:
                host, _, port_ = words[1].partition(":")
                yield _host_of(host), int(port_, 16), int(words[9])
    for words in _lines("unix", 8) if not isinstance(number, int) else ():
        if int(words[3], 16) & _ACCEPTS:
            path = words[7]
            yield "", "\0" + path[1:] if path.startswith("@") else path, int(words[6])


def _lines(table: str, least: int) -> Iterator[list[str]]:
    """Yield the lines of a table of the kernel in words; the last one takes the rest of its line where it is a path."""
    try:
        with open(f"{_NET}/{table}", encoding="utf-8", errors="surrogateescape") as file:
            next(file, None)
            for line in file:
                words = line.rstrip("\n").split(None, 7) if table == "unix" else line.split()
                if len(words) >= least:
                    yield words
    except OSError:
        return


def _host_of(shown: str) -> str:
    """Return a host as programs write it, of what the kernel shows: words of four bytes, each the last one first."""
    words = [bytes.fromhex(shown[at : at + 8])[::-1] for at in range(0, len(shown), 8)]
    last = ".".join(map(str, words[-1]))
    if len(words) == 1 or b"".join(words[:3]) == bytes(10) + b"\xff\xff":
        return last
    known = {bytes(16): "::", bytes(15) + b"\x01": "::1"}
    return known.get(b"".join(words), shown)


def is_own_address(address: Any) -> bool:
    """The same for an address as `connect` takes it."""
    if isinstance(address, tuple) and len(address) >= 2:
        host, number = address[0], address[1]
        return isinstance(host, str) and isinstance(number, int) and is_own(host, number)
    return isinstance(address, (str, bytes)) and is_own(None, os.fsdecode(address))


def was_own(address: Any) -> bool:
    """Say whether it is the path of a unix socket at which the run has listened, and where there is none any more.

    Whoever connects learns that, and reaches nobody: so a `multiprocessing` manager's proxies do that outlive it.
    """
    if _shared is None or not isinstance(address, (str, bytes)) or _key(os.fsdecode(address)) not in _shared.names():
        return False
    try:
        os.stat(address)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False


def _key(path: str) -> int:
    """Return what stands for a path in the shared table, where all processes must count alike: FNV-1a, 64 bit."""
    key = 0xCBF29CE484222325
    for byte in os.fsencode(path):
        key = ((key ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return key or 1


def _same(bound: str, host: str | None) -> bool:
    if host is None or bound == host:
        return True
    if bound in _ANY:
        return host in _ANY or host.startswith(_LOOPBACK)
    return host == "localhost" and bound.startswith(_LOOPBACK)


def _is_file(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except (OSError, ValueError):
        return False


def _listens(fd: int, inode: int) -> bool:
    try:
        return os.fstat(fd).st_ino == inode
    except OSError:
        return False


def add(sock: Any) -> None:
    """Count a socket that listens among the run's own."""
    name, fd = sock.getsockname(), sock.fileno()
    host, where = (name[0], name[1]) if isinstance(name, tuple) else ("", os.fsdecode(name))
    try:
        inode = os.fstat(fd).st_ino
        if isinstance(where, str) and not where.startswith("\0"):
            # The file that the socket made: a child may go on listening where we have closed it.
            _paths[where] = os.stat(where).st_ino
    except (OSError, ValueError):
        return
    known = [one for one in _known.get(where, ()) if _listens(one[1], one[2]) and one[2] != inode]
    _known[where] = [*known, (host, fd, inode)]
    name_key = _key(where) if isinstance(where, str) else 0
    if _shared is not None and not _shared.add_listener(inode, name_key):
        _shared.keep_listeners({one for _, _, one in _listening()})
        _shared.add_listener(inode, name_key)
    if port.current is not None:
        port.current.listens(sock)


def _asks_for_a_port(sock: Any, address: Any) -> bool:
    return isinstance(address, tuple) and len(address) >= 2 and address[1] == 0 and sock.family in _families


_families: tuple[int, ...] = ()


def _patch_sockets(module: ModuleType) -> None:
    global _families
    _families = module.AF_INET, module.AF_INET6
    kind = module.socket
    bind, listen = kind.bind, kind.listen

    def bind_port(self: Any, address: Any) -> None:
        listener = port.current
        if listener is None or not _asks_for_a_port(self, address):
            bind(self, address)
            return
        code, at = asked_from(_getframe(1))
        if not listener.answers:
            bind(self, address)
            listener.drew(_KIND, code, at, self.getsockname()[1])
            return
        recorded = listener.redraw(_KIND, code, at)
        if recorded is not port.MISSING:
            again = (address[0], recorded, *address[2:])
            if _try(lambda: bind(self, again)):
                return
        bind(self, address)
        if recorded is not port.MISSING:
            _bound_otherwise(listener, code, at, recorded, self.getsockname()[1])

    def listen_here(self: Any, *backlog: Any) -> None:
        listen(self, *backlog)
        if port.current is not None:
            add(self)

    bind_port.__name__ = bind_port.__qualname__ = "bind"
    listen_here.__name__ = listen_here.__qualname__ = "listen"
    kind.bind, kind.listen = bind_port, listen_here


def _try(call: Any) -> bool:
    try:
        call()
    except (OSError, OverflowError, TypeError):
        return False
    return True


def _bound_otherwise(listener: Any, code: CodeType, at: int, recorded: int, now: int) -> None:
    listener.drifted(_KIND, code, at, f"port {now} was bound, the recorded {recorded} is taken here")


def _patch_uvloop(module: ModuleType) -> None:
    """Watch the servers of uvloop: they bind through `socket`, and listen below it."""
    loop = module.Loop
    create = loop.create_server

    async def create_server(self: Any, *args: Any, **options: Any) -> Any:
        server = await create(self, *args, **options)
        if port.current is not None:
            for sock in server.sockets:
                add(sock)
        return server

    loop.create_server = create_server


def install() -> None:
    """Watch `socket.socket` and uvloop's servers, each when the program imports it."""
    when_imported("socket", _patch_sockets)
    when_imported("uvloop", _patch_uvloop)

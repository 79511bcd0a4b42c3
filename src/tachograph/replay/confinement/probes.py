"""Probes: attempts to leave, made inside the world before the program starts, against doors that are open outside.

A door is a listener, a socket or a file of this machine that does answer. What the probe inside could not do, and what
never arrived outside, is held; nothing is claimed that was not tried.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tachograph.replay.confinement import system_calls as sc

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONTENT = b"as it was\n"


class Targets(NamedTuple):
    """Where the doors are; 0 or empty where there is none of that kind."""

    tcp: int = 0
    udp: int = 0
    path: str = ""
    abstract: bytes = b""
    file: str = ""
    pid: int = 0


class Doors:
    """Doors of this machine, open until `close`. Where one cannot be made, nothing of its kind will be claimed."""

    def __init__(self) -> None:
        self._folder = ""
        self._sockets: dict[str, socket.socket] = {}
        self.targets = Targets(pid=os.getpid())
        for make in (self._make_internet, self._make_local):
            try:
                make()
            except OSError:
                continue

    def _make_internet(self) -> None:
        tcp = self._made("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.targets = self.targets._replace(tcp=tcp.getsockname()[1])
        udp = self._made("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        self.targets = self.targets._replace(udp=udp.getsockname()[1])

    def _make_local(self) -> None:
        abstract = self._made("abstract", socket.AF_UNIX, socket.SOCK_STREAM, "").getsockname()
        self._folder = tempfile.mkdtemp(prefix="tachograph-door-")
        os.chmod(self._folder, 0o755)
        path = os.path.join(self._folder, "socket")
        with _short(path) as short:
            self._made("unix", socket.AF_UNIX, socket.SOCK_STREAM, short)
        file = os.path.join(self._folder, "file")
        with open(file, "wb") as made:
            made.write(_CONTENT)
        self.targets = self.targets._replace(path=path, abstract=abstract, file=file)

    def _made(self, name: str, family: int, kind: int, address: Any) -> socket.socket:
        made = self._sockets[name] = socket.socket(family, kind)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(8)
        made.setblocking(False)
        return made

    def passed(self) -> list[str]:
        """What came through a door so far."""
        came = []
        for name, one in self._sockets.items():
            try:
                if one.type == socket.SOCK_STREAM:
                    one.accept()[0].close()
                else:
                    one.recv(16)
                came.append(name)
            except OSError:
                continue
        if self.targets.file:
            with open(self.targets.file, "rb") as file:
                if file.read() != _CONTENT:
                    came.append("file")
        return came

    def close(self) -> None:
        """Close the doors."""
        for one in self._sockets.values():
            one.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def _short(path: str) -> Iterator[str]:
    """A path of the same place that fits into a unix address (108 bytes), however deep the temp folder lies."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def try_write(path: str) -> bool:
    """Try to open a file that is to stay as it is; true where that was refused."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
    except OSError:
        return True
    return False


def try_doors(targets: Targets, *, write: bool) -> dict[str, bool]:
    """Try each door from inside; true where it did not open. What became of a datagram or a write is seen outside.

    `write`: the file is a door too.
    """
    held = {}
    if targets.tcp:
        held["tcp"] = _refused(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", targets.tcp))
    if targets.udp:
        _refused(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", targets.udp))
        held["udp"] = True
    if targets.path:
        with _short(targets.path) as short:
            held["unix"] = _refused(socket.AF_UNIX, socket.SOCK_STREAM, short)
        held["abstract"] = _refused(socket.AF_UNIX, socket.SOCK_STREAM, targets.abstract)
        if write:
            try:
                with open(targets.file, "ab") as file:
                    file.write(b"written from inside\n")
            except OSError:
                pass
            held["file"] = True
    try:
        os.kill(targets.pid, 0)
        held["processes"] = False
    except OSError:
        held["processes"] = True
    return held


def take_away(targets: Targets) -> None:
    """Take the doors out of the world's files: the program is not to come across them."""
    if targets.file:
        shutil.rmtree(os.path.dirname(targets.file), ignore_errors=True)


def try_calls() -> dict[str, bool]:
    """Try what only the filter holds; true where it was refused."""
    held = {}
    try:
        os.close(sc.io_uring())
        held["io_uring"] = False
    except OSError:
        held["io_uring"] = True
    held["vsock"] = _refused(40, socket.SOCK_STREAM, None)
    return held


def _refused(family: int, kind: int, address: Any) -> bool:
    try:
        with socket.socket(family, kind) as one:
            one.settimeout(0.5)
            if address is not None and kind == socket.SOCK_DGRAM:
                one.sendto(b"probe", address)
            elif address is not None:
                one.connect(address)
    except OSError:
        return True
    return False

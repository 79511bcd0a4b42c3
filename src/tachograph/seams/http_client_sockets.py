"""The socket that stands in for a connection's own: what a watched and a played one have in common.

Both look like the socket of an `http.client` connection and give files like its own (`socket.SocketIO` under the
buffer that the program asks for), so that whoever reads, by line, by size or all of it, causes the reads that it would
have caused. Such a socket lives until it and every file made of it are closed.
"""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIBRARY = "http.client"


def as_bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else bytes(memoryview(data).cast("B"))


class Tapped:
    """What both have in common: the files made of them, and the life that these give them."""

    _refs = 0
    _shut = False

    def makefile(self, *args: Any, **kwargs: Any) -> Any:
        """Return a file, as `socket.socket.makefile` does."""
        make: Any = socket.socket.makefile
        return make(self, *args, **kwargs)

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

    def sendall(self, data: Any, *args: Any) -> Any:
        """Send all of it."""
        raise NotImplementedError

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """Read what is there, up to so many bytes."""
        raise NotImplementedError

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """The same, into a buffer."""
        raise NotImplementedError

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

    def read(self, length: int = 1024, buffer: Any = None) -> Any:
        """Read from a TLS connection, as `ssl.SSLSocket.read` does."""
        return self.recv(length) if buffer is None else self.recv_into(buffer, length)

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

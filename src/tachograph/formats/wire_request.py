"""Requests as they go over the wire: an HTTP/1.x request line, its headers, and the body out of its framing.

Reads one request from the pieces that a client writes, however they are cut. The body's end is known from the head
(RFC 9112, section 6): a length, chunks, or none. Nothing is held back: each piece gives the part of the body in it.

Standard library only: it runs in recorded programs, once per write.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Headers = list[tuple[bytes, bytes]]


class RequestReader:
    """One request, read as far as it was written. `whole` says that it ended; `rest` is what stands behind its end."""

    __slots__ = ("_chunked", "_left", "_pending", "_trailer", "headers", "method", "rest", "target", "whole")

    def __init__(self) -> None:
        self.method = ""
        self.target = ""
        self.headers: Headers = []
        self.whole = False
        self.rest = b""
        self._pending = b""
        self._left = 0
        self._chunked = self._trailer = False

    @property
    def begun(self) -> bool:
        """Whether the head is whole."""
        return bool(self.method)

    def header(self, name: bytes) -> bytes:
        """The last value of that header (its name in lower case), in lower case; empty where there is none."""
        found = [value for key, value in self.headers if key.lower() == name]
        return found[-1].lower() if found else b""

    def feed(self, data: bytes) -> bytes:
        """Return what of the body stands in the next bytes."""
        if not self.method:
            head, blank, data = (self._pending + data).partition(b"\r\n\r\n")
            if not blank:
                self._pending = head
                return b""
            self._pending = b""
            self._read_head(head)
        if self.whole:
            self.rest += data
            return b""
        return self._chunks(data) if self._chunked else self._plain(data)

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        words = first.decode("latin-1").split(" ")
        self.method, self.target = words[0], words[1] if len(words) > 1 else "/"
        for line in lines:
            name, _, value = line.partition(b":")
            self.headers.append((name, value.strip(b" \t")))
        length = self.header(b"content-length")
        if self.header(b"transfer-encoding").rsplit(b",", 1)[-1].strip() == b"chunked":
            self._chunked = True
        elif length.isdigit() and int(length):
            self._left = int(length)
        else:
            self.whole = True

    def _plain(self, data: bytes) -> bytes:
        taken = data[: self._left]
        self._left -= len(taken)
        if not self._left:
            self.whole, self.rest = True, data[len(taken) :]
        return taken

    def _chunks(self, data: bytes) -> bytes:
        data, out = self._pending + data, []
        self._pending = b""
        while data:
            if self._left:  # what is left of a chunk, and the line end behind it
                piece = data[: self._left]
                out.append(piece[: max(0, self._left - 2)])
                self._left -= len(piece)
                data = data[len(piece) :]
                continue
            line, newline, after = data.partition(b"\r\n")
            if not newline:
                self._pending = data
                break
            data = after
            if not self._trailer:
                size = int(line.split(b";", 1)[0], 16)
                self._left, self._trailer = size + 2 if size else 0, not size
            elif not line:
                self.whole, self.rest = True, data
                break
        return b"".join(out)

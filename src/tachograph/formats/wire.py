"""Answers as they came over the wire: an HTTP/1.x head taken out of the bytes, and a body out of its framing.

Clients that are watched at the socket (http.client, aiohttp) hand over the bytes of each read: status line, headers,
chunk sizes and all. Such bytes are kept as they came, but for credentials in the head, whose placeholders have their
length, so that no border moves. Here also stands what reads them: the head, and the body without its framing.

- nothing is buffered or held back: what a read returned is written at once, a head cut in two included;
- interim answers (RFC 9110, section 15.2) are passed over: the head is that of the final answer;
- bytes that are no HTTP/1.x answer pass as they are, and then there is no head.

Standard library only: it runs in recorded programs, once per read until the head is whole, and then not at all.
"""

from __future__ import annotations

from tachograph.formats.credentials import redact_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    Headers = list[tuple[bytes, bytes]]

_LONGEST_HEAD = 1 << 20  # a head that is longer is none: what follows passes unread


class Head:
    """The head of a final answer, as parsed: credentials are still in `headers`."""

    __slots__ = ("headers", "reason", "status", "version")

    def __init__(self, status: int, version: bytes, reason: bytes, headers: Headers) -> None:
        self.status = status
        self.version = version
        self.reason = reason
        self.headers = headers


def read_head(data: bytes) -> Head | None:
    """Read a head without its last empty line; None where it is no HTTP/1.x answer (RFC 9112, section 4)."""
    lines = data.split(b"\n")
    words = lines[0].rstrip(b"\r").split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return None
    headers: Headers = []
    for line in lines[1:]:
        line = line.rstrip(b"\r")
        if line[:1] in (b" ", b"\t") and headers:  # folded (RFC 9112, section 5.2)
            headers[-1] = (headers[-1][0], headers[-1][1] + b" " + line.strip(b" \t"))
            continue
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name, value.strip(b" \t")))
    return Head(int(words[1]), words[0], words[2] if len(words) > 2 else b"", headers)


class HeadTaker:
    """Follows the bytes of one answer: gives them back as they may be written, and the head when it is whole."""

    __slots__ = ("_seen", "done")

    def __init__(self) -> None:
        self._seen = b""
        self.done = False

    def take(self, data: bytes) -> tuple[bytes, Head | None]:
        """Return these bytes with the credentials of the head replaced, and the final head if it ends in them."""
        before = len(self._seen)
        seen = self._seen + data
        written = bytearray(seen)
        at = 0
        while True:
            end, after = _blank_line(seen, at)
            if end < 0:
                _redact(written, at, len(seen))
                self._seen, self.done = seen, len(seen) > _LONGEST_HEAD or not _may_be_a_head(seen[at:])
                return bytes(written[before:]), None
            _redact(written, at, end)
            head = read_head(seen[at:end])
            if head is None or head.status >= 200 or head.status == 101:
                self._seen, self.done = b"", True
                return bytes(written[before:]), head
            at = after


def _may_be_a_head(data: bytes) -> bool:
    return b"HTTP/".startswith(data[:5]) or data.startswith(b"HTTP/")


def _blank_line(data: bytes, at: int) -> tuple[int, int]:
    """Where the head that begins at `at` ends, and where what follows it begins; (-1, -1) where it is not whole."""
    found = [(place, place + len(mark)) for mark in (b"\r\n\r\n", b"\n\n") if (place := data.find(mark, at)) >= 0]
    return min(found) if found else (-1, -1)


def _redact(written: bytearray, start: int, end: int) -> None:
    """Replace the credentials of a head (or of the beginning of one) where they stand: no byte moves."""
    at = start
    for line in bytes(written[start:end]).split(b"\n"):
        name, colon, rest = line.partition(b":")
        if colon and at > start:
            value = rest.strip(b" \t\r")
            kept, removed = redact_headers([(name, value)])
            if removed and value:
                place = at + len(name) + 1 + rest.index(value)
                written[place : place + len(value)] = kept[0][1][: len(value)].ljust(len(value), b"*")
        at += len(line) + 1


class Deframer:
    """Takes the body of one answer out of its framing, piece by piece (RFC 9112, sections 6 and 7).

    `complete` says that the answer has ended by its own framing; of one that ends with its connection it never does.
    `final` says that its final head is whole.
    """

    __slots__ = ("_bodiless", "_chunked", "_head", "_left", "_rest", "_state", "complete", "final", "status")

    def __init__(self, *, bodiless: bool = False) -> None:
        """`bodiless`: no body follows whatever the head says, since the request was a HEAD."""
        self._state, self._head, self._rest = "head", b"", b""
        self._left, self._chunked, self._bodiless = -1, False, bodiless
        self.complete = self.final = False
        self.status = 0  # of the final head

    @property
    def until_closed(self) -> bool:
        """Whether the answer's body ends where its connection does."""
        return self.final and not self._chunked and self._left < 0

    def feed(self, data: bytes) -> bytes:
        """Return what of the body stands in the next bytes of the wire."""
        if self._state == "head":
            data = self._after_heads(data)
        if self._state == "head" or not data:
            return b""
        return self._chunks(data) if self._chunked else self._plain(data)

    def _after_heads(self, data: bytes) -> bytes:
        self._head += data
        at = 0
        while True:
            end, after = _blank_line(self._head, at)
            if end < 0:
                if not _may_be_a_head(self._head[at:]):
                    self._state = "body"
                    return self._head[at:]
                self._head = self._head[at:]
                return b""
            head = read_head(self._head[at:end])
            if head is None:  # no answer of HTTP/1.x: all of it is shown
                self._state = "body"
                return self._head[at:]
            if head.status >= 200 or head.status == 101:
                break
            at = after
        self._state, self.final, self.status = "body", True, head.status
        self._frame(head)
        return self._head[after:]

    def _frame(self, head: Head) -> None:
        for name, value in head.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" and value.lower().rsplit(b",", 1)[-1].strip() == b"chunked":
                self._chunked = True
            elif lower == b"content-length" and value.isdigit():
                self._left = int(value)
        if self._bodiless or head.status in (204, 304):
            self._chunked, self._left = False, 0
        self.complete = self._left == 0 and not self._chunked

    def _plain(self, data: bytes) -> bytes:
        if self._left < 0:
            return data
        taken = data[: self._left]
        self._left -= len(taken)
        self.complete = not self._left
        return taken

    def _chunks(self, data: bytes) -> bytes:
        rest, out = self._rest + data, []
        self._left = max(self._left, 0)
        while rest and self._state in ("body", "trailer"):
            if self._left:  # the rest of a chunk, and the line end behind it
                piece = rest[: self._left]
                out.append(piece[: max(0, self._left - 2)] if self._left >= 2 else b"")
                self._left -= len(piece)
                rest = rest[len(piece) :]
                continue
            line, newline, after = rest.partition(b"\n")
            if not newline:
                break
            rest = after
            if self._state == "trailer":
                if not line.rstrip(b"\r"):
                    self._state, self.complete = "ended", True
                continue
            try:
                size = int(line.split(b";", 1)[0].strip(), 16)
            except ValueError:
                self._state = "broken"  # no chunk size: what follows is not understood, and not shown as a body
                break
            if size == 0:
                self._state = "trailer"
            else:
                self._left = size + 2
        self._rest = rest if self._state in ("body", "trailer") else b""
        return b"".join(out)

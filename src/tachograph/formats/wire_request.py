"""The bytes that a program sends over a connection, read as HTTP/1.x requests while it sends them.

A client that is watched at its socket hands over a head, then a body in as many pieces as it likes, and the next
request on the same connection. A `Sending` follows them and says what each piece brought:

- a request begins when its head is whole; its body comes without framing, as far as it was sent;
- a request whose head and body came in one piece begins with its whole body;
- what is no HTTP/1.x request (a protocol switched to, a second version) is said to be foreign, and so is all after it.

Nothing is kept but the beginning of a head that is not whole yet. Standard library only.
"""

from __future__ import annotations

from tachograph.formats.credentials import placeholder_like, redact_headers, redact_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    Headers = list[tuple[bytes, bytes]]

_LONGEST_HEAD = 1 << 20


class Begun:
    """A request whose head is whole. `body` is None where it is still to come."""

    __slots__ = ("body", "expects", "headers", "method", "target")

    def __init__(self, method: str, target: str, headers: Headers) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body: bytes | None = None
        self.expects = bool(self.header(b"expect"))

    def header(self, name: bytes) -> bytes:
        """Return the last value of that header (its name in lower case), in lower case; empty where there is none."""
        return next((value.lower() for key, value in reversed(self.headers) if key.lower() == name), b"")

    def url(self, endpoint: str) -> str:
        """The request's address: its target at `endpoint` (`scheme://host:port`), or by itself (through a proxy)."""
        if self.target.startswith(("http://", "https://")):
            return self.target
        return endpoint + (self.target if self.target.startswith("/") else "/" + self.target)


class Piece:
    """What one piece of the stream brought: a request that begins, some of its body, whether it is whole now."""

    __slots__ = ("begun", "body", "left", "whole")

    def __init__(self, begun: Begun | None, body: bytes, whole: bool, left: int = 0) -> None:
        self.begun = begun
        self.body = body
        self.whole = whole
        self.left = left  # how many of the bytes that were fed stand behind this piece


class Sending:
    """Follows what one connection sends. `foreign` says that it is no HTTP/1.x, from there on."""

    __slots__ = ("_chunked", "_left", "_rest", "_state", "foreign")

    def __init__(self) -> None:
        self._state, self._rest, self._left = "head", b"", 0
        self._chunked = self.foreign = False

    @property
    def between(self) -> bool:
        """Whether nothing of a request is under way."""
        return self._state == "head" and not self._rest

    def feed(self, data: bytes) -> list[Piece]:
        """Return what these bytes brought, in order."""
        found: list[Piece] = []
        while data and not self.foreign:
            begun: Begun | None = None
            if self._state == "head":
                begun, data = self._head(data)
                if begun is None:
                    break
            body, whole, data = self._body(data)
            if begun is not None and whole:
                begun.body = body
                body = b""
            found.append(Piece(begun, body, whole, len(data)))
        return found

    def _head(self, data: bytes) -> tuple[Begun | None, bytes]:
        seen = self._rest + data
        if not self._rest:
            seen = seen.lstrip(b"\r\n")  # to be ignored before a request line (RFC 9112, section 2.2)
        end = seen.find(b"\r\n\r\n")
        if end < 0:
            self._rest = seen
            self.foreign = len(seen) > _LONGEST_HEAD or (bool(seen) and not _may_begin(seen))
            return None, b""
        begun = read_request_head(seen[:end])
        if begun is None:
            self.foreign = True
            return None, b""
        self._rest, self._state = b"", "body"
        self._chunked, self._left = False, 0
        for name, value in begun.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" and value.lower().rsplit(b",", 1)[-1].strip() == b"chunked":
                self._chunked = True
            elif lower == b"content-length" and value.isdigit():
                self._left = int(value)
        if self._chunked:
            self._left = 0
        return begun, seen[end + 4 :]

    def _body(self, data: bytes) -> tuple[bytes, bool, bytes]:
        """Take what of the body stands first in `data`: it, whether the request is whole now, and what follows it."""
        if self._chunked:
            return self._chunks(data)
        taken = data[: self._left]
        self._left -= len(taken)
        whole = not self._left
        if whole:
            self._state = "head"
        return taken, whole, data[len(taken) :]

    def _chunks(self, data: bytes) -> tuple[bytes, bool, bytes]:
        rest, out = self._rest + data, []
        self._rest = b""
        while rest:
            if self._left:  # the rest of a chunk, and the line end behind it
                piece = rest[: self._left]
                out.append(piece[: max(0, self._left - 2)])
                self._left -= len(piece)
                rest = rest[len(piece) :]
                continue
            line, newline, after = rest.partition(b"\n")
            if not newline:
                self._rest = rest
                break
            rest = after
            if self._state == "trailer":
                if not line.rstrip(b"\r"):
                    self._state = "head"
                    return b"".join(out), True, rest
                continue
            try:
                size = int(line.split(b";", 1)[0].strip(), 16)
            except ValueError:
                self.foreign = True
                break
            if size:
                self._left = size + 2
            else:
                self._state = "trailer"
        return b"".join(out), False, b""


def _may_begin(data: bytes) -> bool:
    """Whether a request line may begin so: a method is letters and few signs, and no control character."""
    word, space, _ = data[:64].partition(b" ")
    return bool(word) and all(33 <= byte < 127 for byte in word) and (bool(space) or len(data) < 64)


def read_request_head(data: bytes) -> Begun | None:
    """Read a request's head without its last empty line; None where it is none of HTTP/1.x (RFC 9112, section 3)."""
    lines = data.split(b"\r\n")
    words = lines[0].split(b" ")
    if len(words) < 3 or not words[-1].startswith(b"HTTP/1."):
        return None
    headers: Headers = []
    for line in lines[1:]:
        if line[:1] in (b" ", b"\t") and headers:  # folded: kept as one value
            headers[-1] = (headers[-1][0], headers[-1][1] + b" " + line.strip(b" \t"))
            continue
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name, value.strip(b" \t")))
    return Begun(words[0].decode("latin-1"), b" ".join(words[1:-1]).decode("latin-1"), headers)


def redact_request_head(head: bytes) -> tuple[bytes, Headers]:
    """Return a request's head with each credential replaced where it stands, and the (name, value) pairs taken out.

    No byte moves. A header that goes on in another line goes on as a placeholder too (RFC 9112, section 5.2).
    """
    first, *lines = head.split(b"\r\n")
    method, space, rest = first.partition(b" ")
    target, gap, version = rest.rpartition(b" ")
    shown, secrets = redact_url(target.decode("latin-1"))
    removed: Headers = [(name.encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in secrets]
    kept = [method + space + shown.encode("latin-1") + gap + version]
    hot = False
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            kept.append(placeholder_like(line) if hot else line)
            continue
        name, colon, value = line.partition(b":")
        plain = value.strip(b" \t")
        stands, taken = redact_headers([(name, plain)]) if plain else ([], [])
        hot = bool(taken)
        removed += taken
        kept.append(name + colon + value.replace(plain, stands[0][1], 1) if hot else line)
    return b"\r\n".join(kept), removed

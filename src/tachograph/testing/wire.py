"""One HTTP/1.1 request as it came over a socket: read whole, kept as sent, never repaired.

- Header names, their order, case and repetition stay as they were on the wire (decoded as Latin-1, one byte one sign).
- A body is read by its content-length or its chunks. The borders of request chunks are kept in `chunks`.
- `Expect: 100-continue` is answered before the body is read, as RFC 9110 section 10.1.1 asks.
- A request that breaks off raises `PeerGone`; one that is no HTTP/1.x raises `NotHttp`. Neither is ever half returned.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import urlsplit

# Far above what any client sends; a limit only so that a stray binary stream cannot fill memory.
LONGEST_LINE = 1 << 20
MOST_HEADERS = 1000

Headers = tuple[tuple[str, str], ...]


class PeerGone(Exception):
    """The peer closed or reset the connection before a request was complete."""


class NotHttp(Exception):
    """The bytes are no HTTP/1.x request; the message quotes the line that is not."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, complete.

    `arrived` is in seconds of `time.monotonic()`, which on Linux all processes share; taken when the last body byte
    was read. `connection` and `number` count from 0, per server and in order of arrival.
    """

    method: str
    target: str
    version: str = "HTTP/1.1"
    headers: Headers = ()
    body: bytes = b""
    chunks: tuple[bytes, ...] = field(default=(), repr=False)
    arrived: float = 0.0
    connection: int = 0
    number: int = 0

    @property
    def path(self) -> str:
        """The target without its query."""
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        """What follows the question mark, undecoded; empty when nothing does."""
        return urlsplit(self.target).query

    def header(self, name: str, default: str = "") -> str:
        """The first value under `name`, in any case."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), default)

    def json(self) -> object:
        """The body as JSON. Raises ValueError where it is none."""
        return json.loads(self.body)

    @property
    def keeps_alive(self) -> bool:
        """Whether the client will send another request here (RFC 9112 section 9.3)."""
        wish = self.header("connection").lower()
        return "close" not in wish and (self.version != "HTTP/1.0" or "keep-alive" in wish)


def read_request(source: BinaryIO, *, go_on: Callable[[], None], connection: int = 0) -> Request | None:
    """The next request of a connection, or None where the peer closed between two requests.

    `go_on` is called when the client waits for `100 Continue`. Raises `PeerGone` and `NotHttp`.
    """
    line = _line(source, between_requests=True)
    while line == "":  # RFC 9112 section 2.2: a blank line before the request line is to be ignored
        line = _line(source, between_requests=True)
    if line is None:
        return None
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise NotHttp(f"not a request line: {line[:200]!r}")
    headers = _headers(source)
    head = Request(method=parts[0], target=parts[1], version=parts[2], headers=headers)
    if head.header("expect").lower() == "100-continue":
        go_on()
    body, chunks = _body(source, head)
    return Request(
        method=head.method,
        target=head.target,
        version=head.version,
        headers=headers,
        body=body,
        chunks=chunks,
        arrived=time.monotonic(),
        connection=connection,
    )


def _body(source: BinaryIO, head: Request) -> tuple[bytes, tuple[bytes, ...]]:
    if head.header("transfer-encoding").lower().endswith("chunked"):
        chunks = _chunks(source)
        return b"".join(chunks), chunks
    length = head.header("content-length", "0")
    if not length.isdecimal():
        raise NotHttp(f"content-length is no number: {length!r}")
    return _exactly(source, int(length)), ()


def _chunks(source: BinaryIO) -> tuple[bytes, ...]:
    found = []
    while True:
        line = (_line(source) or "").split(";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise NotHttp(f"not the size of a chunk: {line!r}") from None
        if size == 0:
            break
        found.append(_exactly(source, size))
        if _line(source):
            raise NotHttp("a chunk is longer than its size says")
    while _line(source):  # trailers: read over, since no client under test sends any
        pass
    return tuple(found)


def _headers(source: BinaryIO) -> Headers:
    found: list[tuple[str, str]] = []
    while line := _line(source):
        name, colon, value = line.partition(":")
        if not colon or len(found) >= MOST_HEADERS:
            raise NotHttp(f"not a header line: {line[:200]!r}")
        found.append((name, value.strip(" \t")))
    return tuple(found)


def _line(source: BinaryIO, *, between_requests: bool = False) -> str | None:
    """One line without its end; None only between requests, where the peer may close."""
    try:
        raw = source.readline(LONGEST_LINE)
    except OSError as error:
        raise PeerGone(str(error)) from error
    if not raw and between_requests:
        return None
    if not raw.endswith(b"\n"):
        if len(raw) >= LONGEST_LINE:
            raise NotHttp(f"a line of more than {LONGEST_LINE} bytes")
        raise PeerGone(f"closed inside a line, after {raw[:80]!r}")
    return raw.rstrip(b"\r\n").decode("latin-1")


def _exactly(source: BinaryIO, size: int) -> bytes:
    try:
        found = source.read(size)
    except OSError as error:
        raise PeerGone(str(error)) from error
    if len(found) < size:
        raise PeerGone(f"closed after {len(found)} of {size} body bytes")
    return found

"""What a scripted server can do with a request, as frozen values, and short ways to write the usual ones.

- `Reply`: a status line, headers and a body cut exactly as given, ended well or broken exactly where told.
- `Raw`: any bytes instead of an answer. `Silence`: no byte, ever. `Hangup`: the connection ends without an answer.

Invariants: headers go out in the given order and case; none is added but the framing header that the body needs (and
`connection: close` where the body ends with the connection), and none of these where the script gives it itself.
A number among the chunks is a pause in seconds. An empty chunk sends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tachograph.errors import UsageError
from tachograph.testing.codings import compress
from tachograph.testing.wire import Headers

Chunk = bytes | float
# How a body says where it ends.
Framing = Literal["content_length", "chunked", "until_close"]
# complete: as HTTP asks. reset: a TCP RST. cut: a FIN, with the body unfinished. hang: nothing more, until the client
# or the server's own end closes.
Ending = Literal["complete", "reset", "cut", "hang"]
# segments: each chunk is handed to the kernel by itself, without Nagle's delay. reads: the next one waits, besides,
# until the peer has read all before it, so that no two can reach it as one (Linux; a pause of 20 ms elsewhere).
Borders = Literal["segments", "reads"]
GivenHeaders = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer.

    - `chunks`: the body, content coding already applied. A tuple, or any iterable that is consumed while sending
      (then not under `content_length`, whose sum must be known first).
    - `cut_after`: after this many body bytes, inside a chunk or not, `ending` comes at once. A chunk's announced size
      stays that of the whole chunk.
    - `interim`: 1xx answers sent before the head, each a status and its headers.
    - `delay`: seconds before the first byte.
    """

    status: int = 200
    reason: str = ""
    headers: Headers = ()
    chunks: Iterable[Chunk] = ()
    framing: Framing = "content_length"
    ending: Ending = "complete"
    cut_after: int | None = None
    borders: Borders = "segments"
    interim: tuple[tuple[int, Headers], ...] = ()
    delay: float = 0.0

    def __post_init__(self) -> None:
        if self.framing == "content_length" and not isinstance(self.chunks, tuple):
            raise UsageError("a body under content_length must be a tuple of chunks: its length goes out first")
        if self.cut_after is not None and self.ending == "complete":
            raise UsageError("cut_after needs an ending that is not complete: reset, cut or hang")


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Bytes (and pauses) as they are, in place of an answer: a malformed status line, a foreign protocol."""

    chunks: tuple[Chunk, ...]
    ending: Ending = "cut"


@dataclass(frozen=True, kw_only=True)
class Silence:
    """The request is read and never answered; the connection stays open until the client or the server ends it."""


@dataclass(frozen=True, kw_only=True)
class Hangup:
    """The request is read, then the connection ends without a byte: by FIN (`cut`) or RST (`reset`)."""

    ending: Literal["cut", "reset"] = "cut"


Behaviour = Reply | Raw | Silence | Hangup


def plain(body: bytes | str = b"", *, status: int = 200, headers: GivenHeaders = ()) -> Reply:
    """A body in one piece, with its content-length. Text becomes UTF-8."""
    data = body.encode() if isinstance(body, str) else body
    return Reply(status=status, headers=pairs(headers), chunks=(data,))


def json_reply(value: object, *, status: int = 200, headers: GivenHeaders = (), coding: str = "identity") -> Reply:
    """`value` as compact JSON (UTF-8, keys in their order), under a content coding where one is named."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return encoded(data, coding=coding, status=status, headers=(("content-type", "application/json"), *pairs(headers)))


def encoded(body: bytes, *, coding: str, status: int = 200, headers: GivenHeaders = ()) -> Reply:
    """`body` under a content coding (`gzip`, `deflate`, `br`, `zstd`), named in `content-encoding`."""
    named = () if coding == "identity" else (("content-encoding", coding),)
    return Reply(status=status, headers=(*pairs(headers), *named), chunks=(compress(body, coding),))


def stream(
    chunks: Iterable[Chunk],
    *,
    content_type: str = "text/event-stream",
    headers: GivenHeaders = (),
    framing: Framing = "chunked",
    ending: Ending = "complete",
    cut_after: int | None = None,
    borders: Borders = "segments",
    delay: float = 0.0,
) -> Reply:
    """A body sent chunk by chunk, pauses where numbers stand, ended as told."""
    return Reply(
        headers=(("content-type", content_type), *pairs(headers)),
        chunks=tuple(chunks) if framing == "content_length" else chunks,
        framing=framing,
        ending=ending,
        cut_after=cut_after,
        borders=borders,
        delay=delay,
    )


def too_many_requests(*, retry_after: str = "0") -> Reply:
    """A 429 in OpenAI's words. `retry_after` is seconds or a date, as the header takes it."""
    error = {"message": "Rate limit reached", "type": "requests", "param": None, "code": "rate_limit_exceeded"}
    return json_reply({"error": error}, status=429, headers={"retry-after": retry_after})


def redirect(location: str, *, status: int = 307) -> Reply:
    """A redirection to `location`, without a body."""
    return plain(status=status, headers={"location": location})


def head_then_hang(*, content_type: str = "text/event-stream") -> Reply:
    """A head, then nothing: the client waits for a first chunk until it gives up."""
    return stream((), content_type=content_type, ending="hang")


def malformed_status_line() -> Raw:
    """A first line that no HTTP client takes for an answer."""
    return Raw(chunks=(b"HTP/1.1 two hundred fine\r\ncontent-length: 0\r\n\r\n",))


def pairs(headers: GivenHeaders) -> Headers:
    """Headers as they will be sent, from a mapping or from pairs."""
    return tuple(headers.items()) if isinstance(headers, Mapping) else tuple(headers)

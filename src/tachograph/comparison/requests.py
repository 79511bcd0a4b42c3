"""Requests: whether a call is the recorded one, and if not, which recording is nearest and where it differs first.

A call is compared by kind, method, URL, headers and body. Three verdicts:

- `exact`: all of it the same, but for volatile headers and credentials;
- `meaning`: the same question in other bytes; each liberty is named in `notes` (see `bodies`);
- `different`: with the first differing leaf, in the order `/kind`, `/method`, `/url/...`, `/headers/NAME`, `/body/...`.

Credentials never decide: their values in headers, query and user part are left out on both sides, so a recording that
holds placeholders is compared with a live call as if both were redacted (R07). Every other parameter does (R23).

A recording that is asked for often is `prepare`d once and keeps what was read of it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from tachograph.comparison.bodies import Body, compare_read, fields_of, flat
from tachograph.comparison.headers import first_significant_difference, significant, value_of
from tachograph.comparison.leaves import Leaf, common_prefix, common_suffix, first_difference
from tachograph.formats.credentials import comparable_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    Level = Literal["exact", "meaning", "different"]

REWRITTEN_QUERY = "same query, written differently"
_MOST_DECODED = 64 << 20  # bytes; a compressed request body that grows beyond it is compared as sent


class Request(NamedTuple):
    """A call as it was sent or as it was recorded. Where a kind has no headers or body, they are empty."""

    kind: str
    method: str
    url: str
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes = b""


class RequestVerdict(NamedTuple):
    """How far two calls agree, what was overlooked to say so, and the first place where they do not."""

    level: Level
    notes: tuple[str, ...] = ()
    first: Leaf | None = None


class Nearest(NamedTuple):
    """The candidate most like the call, and where it differs first; None where it is the same call."""

    position: int
    first: Leaf | None


class Prepared:
    """A request and what a comparison has read of it."""

    __slots__ = ("_body", "headers", "request", "url")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.url = comparable_url(request.url)
        self.headers = significant(request.headers)
        self._body: Body | None = None

    @property
    def body(self) -> Body:
        """The body, decompressed where its header says gzip or deflate and that succeeds."""
        if self._body is None:
            media = value_of(self.request.headers, b"content-type")
            coding = (value_of(self.request.headers, b"content-encoding") or b"").strip().lower()
            data = _inflated(self.request.body, coding) if coding in (b"gzip", b"deflate") else self.request.body
            self._body = Body(media.decode("latin-1") if media is not None else None, data)
        return self._body


def prepare(request: Request | Prepared) -> Prepared:
    """Return the request ready to be compared many times."""
    return request if isinstance(request, Prepared) else Prepared(request)


def compare_requests(recorded: Request | Prepared, replayed: Request | Prepared) -> RequestVerdict:
    """Compare a recorded call with one that a replay makes."""
    one, other = prepare(recorded), prepare(replayed)
    notes: tuple[str, ...] = ()
    if one.request.kind != other.request.kind:
        return _different("/kind", one.request.kind, other.request.kind)
    if one.request.method != other.request.method:
        return _different("/method", one.request.method, other.request.method)
    if one.url != other.url:
        first = _url_difference(one.url, other.url)
        if first is not None:
            return RequestVerdict("different", (), first)
        notes = (REWRITTEN_QUERY,)
    first = first_significant_difference(one.headers, other.headers)
    if first is not None:
        return RequestVerdict("different", (), first)
    if one.request.body == other.request.body:
        return RequestVerdict("meaning" if notes else "exact", notes)
    verdict = compare_read(one.body, other.body, at="/body")
    if verdict.level == "bytes":
        return RequestVerdict("meaning", (*notes, "same body, compressed differently"))
    return RequestVerdict(verdict.level, (*notes, *verdict.notes), verdict.first)


def nearest(replayed: Request | Prepared, candidates: Sequence[Request | Prepared]) -> Nearest | None:
    """Return the candidate with the same endpoint and the longest agreement, the earliest of equals; None of none.

    Agreement is counted in bytes from both ends of the body: a changed system prompt at the start and one more message
    at the end both leave most of the right recording standing.
    """
    call = prepare(replayed)
    best: tuple[tuple[bool, bool, bool, bool, int], int] | None = None
    ready = [prepare(candidate) for candidate in candidates]
    for index, candidate in enumerate(ready):
        rank = (*_sameness(call, candidate), _agreement(call.request.body, candidate.request.body))
        if best is None or rank > best[0]:
            best = rank, index
    if best is None:
        return None
    return Nearest(best[1], compare_requests(ready[best[1]], call).first)


def _sameness(call: Prepared, candidate: Prepared) -> tuple[bool, bool, bool, bool]:
    one, other = candidate.request, call.request
    here, there = candidate.url.partition("?")[0], call.url.partition("?")[0]
    path = here.partition("://")[2].partition("/")[2] == there.partition("://")[2].partition("/")[2]
    return one.kind == other.kind, here == there, path, one.method == other.method


def _agreement(one: bytes, other: bytes) -> int:
    """Count the bytes that agree at both ends, less those that only one has in between."""
    start = common_prefix(one, other)
    agreed = start + common_suffix(one, other, beyond=start)
    return agreed - abs(len(one) - len(other)) // 2


def _different(path: str, recorded: str, replayed: str) -> RequestVerdict:
    return RequestVerdict("different", (), Leaf(path, recorded, replayed))


def _url_difference(recorded: str, replayed: str) -> Leaf | None:
    """Name the part of two URLs that differs; None where only the writing of the query does."""
    ones, others = _url_parts(recorded), _url_parts(replayed)
    for name, one, other in zip(("scheme", "host", "path"), ones, others, strict=False):
        if one != other:
            return Leaf(f"/url/{name}", one, other)
    return first_difference(flat(fields_of(ones[3])), flat(fields_of(others[3])), at="/url/query")


def _url_parts(url: str) -> tuple[str, str, str, str]:
    place, _, query = url.partition("?")
    scheme, slashes, after = place.partition("://")
    if not slashes:
        return "", "", place, query
    host, slash, path = after.partition("/")
    return scheme.lower(), host.lower(), slash + path, query


def _inflated(data: bytes, coding: bytes) -> bytes:
    """Return the decompressed bytes, or the given ones where they are not what the header says."""
    try:
        stream = zlib.decompressobj(31 if coding == b"gzip" else 15)
        plain = stream.decompress(data, _MOST_DECODED)
    except zlib.error:
        return data
    return plain if stream.eof and not stream.unused_data else data

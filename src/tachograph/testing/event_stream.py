"""Server-sent events as bytes, and where those bytes are cut on the wire.

Text goes out as UTF-8, not as `\\u` escapes, so that a cut can fall inside a character. However cut, the joined bytes
are the same: cutting changes borders and nothing else.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from tachograph.errors import UsageError

Cuts = Callable[[Iterable[bytes]], Iterator[bytes]]


def event(value: object, *, name: str = "", end: bytes = b"\n") -> bytes:
    """One event: an optional `event:` line, one `data:` line of compact JSON, a blank line."""
    named = b"event: " + name.encode() + end if name else b""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return named + b"data: " + data + end + end


def by_event(events: Iterable[bytes]) -> Iterator[bytes]:
    """Each event its own chunk: what a server that flushes after each event sends."""
    yield from events


def by_sizes(sizes: Sequence[int]) -> Cuts:
    """Chunks of these sizes in bytes, over and over, whatever lies at the cuts. Raises `UsageError` for one below 1."""
    if not sizes or min(sizes) < 1:
        raise UsageError("the sizes of chunks are one or more bytes each")

    def cut(events: Iterable[bytes]) -> Iterator[bytes]:
        held = b""
        wanted = itertools.cycle(sizes)
        size = next(wanted)
        for data in events:
            held += data
            while len(held) >= size:
                yield held[:size]
                held, size = held[size:], next(wanted)
        if held:
            yield held

    return cut


def inside_characters(events: Iterable[bytes]) -> Iterator[bytes]:
    """Each event in chunks that end after the first byte of every character of two bytes or more."""
    for data in events:
        start = 0
        for place, byte in enumerate(data):
            if byte >= 0xC0:
                yield data[start : place + 1]
                start = place + 1
        if start < len(data):
            yield data[start:]

"""Hypothesis strategies for what travels between a client and a server: headers, JSON bodies, streams cut anywhere,
multipart bodies.

    from tachograph.testing import strategies

    @given(strategies.chunked_streams())
    def test_the_bytes_come_back(stream): ...

What is drawn is always legal on the wire. Needs `hypothesis`, which is no dependency of Tachograph's own.
"""

from __future__ import annotations

import itertools
import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tachograph.testing.event_stream import event

# RFC 9110 section 5.6.2, without the signs that no known header name has.
_NAME_SIGNS = string.ascii_letters + string.digits + "-_"
# A value's visible signs and blanks; what is outside ASCII travels as Latin-1.
_VALUE_SIGNS = st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f")
# Names that the transport itself writes or reads: a test that sets one of them changes the framing, not a header.
_FRAMING = frozenset(
    {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade", "keep-alive"}
)
# Signs that breakers of streams meet: line separators that are no line ends, characters of two, three and four bytes.
_TRICKY = '\u0085\u2028\u2029\u00e9\u07ff\u20ac\uffff\U0001f600"\\/ \n\r\t'


@dataclass(frozen=True)
class ChunkedStream:
    """A body and one way to cut it: `b"".join(chunks) == body`, no chunk empty."""

    body: bytes
    chunks: tuple[bytes, ...]


@dataclass(frozen=True)
class Multipart:
    """The same parts written twice, as a client does on two runs: under two boundaries that appear in no part."""

    parts: tuple[tuple[str, bytes], ...]
    bodies: tuple[bytes, bytes]
    content_types: tuple[str, str]


def texts(*, max_parts: int = 5) -> st.SearchStrategy[str]:
    """Text that UTF-8 can carry, with the tricky signs far more often than chance would have them."""
    # Parts joined and not one `text`, which would make one alphabet of both; and few parts, since each costs a draw.
    parts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(_TRICKY)
    return st.lists(parts, max_size=max_parts).map("".join)


def header_names() -> st.SearchStrategy[str]:
    """Legal names that are none of the transport's own."""
    names = st.text(_NAME_SIGNS, min_size=1, max_size=20)
    return names.filter(lambda name: name.lower() not in _FRAMING)


def headers(*, max_size: int = 8) -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    """Headers in order, names repeated now and then, values without blanks at their ends (which HTTP removes)."""
    values = st.text(_VALUE_SIGNS, max_size=40).map(lambda value: value.strip(" \t\xa0\x85"))
    return st.lists(st.tuples(header_names(), values), max_size=max_size).map(tuple)


def json_values(*, max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Any JSON value: integers far beyond 2**53, floats that are numbers, nested lists and objects."""
    numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
    leaves = st.none() | st.booleans() | numbers | texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(max_parts=2), inner, max_size=4),
        max_leaves=max_leaves,
    )


@st.composite
def json_bodies(draw: st.DrawFn) -> bytes:
    """A JSON object as some client might write it: keys in any order, spaced or not, escaped or not."""
    value = draw(st.dictionaries(texts(max_parts=2), json_values(), max_size=5))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")]))
    indent = draw(st.sampled_from([None, 2]))
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators, indent=indent).encode()


@st.composite
def cut_anywhere(draw: st.DrawFn, body: bytes, *, max_cuts: int = 12) -> ChunkedStream:
    """One way to cut `body`: inside characters and inside JSON as readily as anywhere else."""
    places = draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=max_cuts))
    borders = [0, *sorted(place for place in places if place < len(body)), len(body)]
    return ChunkedStream(body, tuple(body[start:end] for start, end in itertools.pairwise(borders) if end > start))


def chunked_streams() -> st.SearchStrategy[ChunkedStream]:
    """Any bytes, cut anywhere."""
    return st.binary(max_size=400).flatmap(cut_anywhere)


@st.composite
def event_streams(draw: st.DrawFn) -> ChunkedStream:
    """A stream of server-sent events as a model sends them, `[DONE]` last or missing, cut anywhere."""
    said: Sequence[str] = draw(st.lists(texts(max_parts=2), max_size=8))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    named = draw(st.sampled_from(["", "message"]))
    events = [event({"choices": [{"index": 0, "delta": {"content": text}}]}, name=named, end=end) for text in said]
    done = draw(st.sampled_from([[b"data: [DONE]" + end + end], []]))
    return draw(cut_anywhere(b"".join([*events, *done])))


@st.composite
def multipart_bodies(draw: st.DrawFn) -> Multipart:
    """Form parts under two random boundaries: the same request, other bytes."""
    names = st.text(string.ascii_lowercase, min_size=1, max_size=8)
    parts = tuple(draw(st.lists(st.tuples(names, st.binary(max_size=60)), min_size=1, max_size=4)))
    signs = st.text(string.ascii_letters + string.digits, min_size=16, max_size=32)
    absent = signs.filter(lambda sign: all(sign.encode() not in body for _, body in parts))
    first, second = draw(st.tuples(absent, absent).filter(lambda both: both[0] != both[1]))
    kinds = (f"multipart/form-data; boundary={first}", f"multipart/form-data; boundary={second}")
    return Multipart(parts, (_form(parts, first), _form(parts, second)), kinds)


def _form(parts: Sequence[tuple[str, bytes]], boundary: str) -> bytes:
    written = [
        f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n'.encode() + body + b"\r\n"
        for name, body in parts
    ]
    return b"".join(written) + f"--{boundary}--\r\n".encode()

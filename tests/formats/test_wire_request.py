"""A request is read from what is written, wherever the pieces end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.formats.wire_request import RequestReader

HEAD = b"POST /v1?x=1 HTTP/1.1\r\nHost: here\r\nX-Two:  spaced \r\n"
REQUESTS = {
    "of a length": (HEAD + b"Content-Length: 7\r\n\r\none two", b"one two"),
    "in chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;x=1\r\none\r\n4\r\n two\r\n0\r\n\r\n", b"one two"),
    "with a trailer": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\nX-End: 1\r\n\r\n", b"one"),
    "without a body": (HEAD + b"\r\n", b""),
}


@pytest.mark.parametrize("kind", REQUESTS)
@given(borders=st.lists(st.integers(0, 160)))
def test_a_request_does_not_depend_on_where_its_pieces_end(kind: str, borders: list[int]) -> None:
    written, body = REQUESTS[kind]
    places = [0, *sorted(place for place in borders if place < len(written)), len(written)]
    reader = RequestReader()
    came = b"".join(reader.feed(written[start:end]) for start, end in pairwise(places))
    assert (reader.method, reader.target, came) == ("POST", "/v1?x=1", body)
    assert reader.headers[:2] == [(b"Host", b"here"), (b"X-Two", b"spaced")]
    assert (reader.whole, reader.rest) == (True, b"")


def test_a_request_is_not_whole_before_its_last_byte_and_what_follows_it_is_kept() -> None:
    for written, _ in REQUESTS.values():
        reader = RequestReader()
        reader.feed(written[:-1])
        assert not reader.whole
        reader.feed(written[-1:] + b"GET ")
        assert (reader.whole, reader.rest) == (True, b"GET ")

"""Cutting a stream changes its borders and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import UsageError
from tachograph.testing.event_stream import by_event, by_sizes, event, inside_characters
from tachograph.testing.strategies import texts

EVENTS = st.lists(texts().map(event), max_size=5)


def test_an_event_is_one_line_of_data_and_a_blank_one() -> None:
    assert event({"a": "é\u2028\n"}) == 'data: {"a":"é\u2028\\n"}\n\n'.encode()
    assert event(1, name="ping", end=b"\r\n") == b"event: ping\r\ndata: 1\r\n\r\n"


@given(events=EVENTS, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_every_cut_keeps_the_bytes(events: list[bytes], sizes: list[int]) -> None:
    for cuts in (by_event, by_sizes(sizes), inside_characters):
        chunks = list(cuts(events))
        assert b"".join(chunks) == b"".join(events)
        assert all(chunks)


@given(events=EVENTS)
def test_sizes_are_kept_until_the_rest(events: list[bytes]) -> None:
    chunks = list(by_sizes([3, 1])(events))
    assert [len(chunk) for chunk in chunks[:-1]] == [3 if n % 2 == 0 else 1 for n in range(len(chunks) - 1)]


def test_every_long_character_is_cut() -> None:
    chunks = list(inside_characters([event("aé€😀b")]))
    assert [chunk[-1:] for chunk in chunks[:-1]] == [b"\xc3", b"\xe2", b"\xf0"]


@pytest.mark.parametrize("sizes", [[], [0], [3, -1]])
def test_a_size_below_one_byte_is_refused(sizes: list[int]) -> None:
    with pytest.raises(UsageError):
        by_sizes(sizes)

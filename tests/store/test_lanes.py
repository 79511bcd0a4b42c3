"""A log taken apart is the same log again, whatever the cuts; frames go where they compress well."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.formats import frame
from tachograph.store.lanes import (
    LARGE,
    ROW,
    Shape,
    pack_program,
    pack_rows,
    pack_words,
    put_together,
    take_apart,
    unpack_program,
    unpack_rows,
    unpack_words,
)
from tests.store.kept import conversation, logs


@given(logs())
def test_any_log_with_any_cuts_comes_back_exactly(some: list[tuple[bytes, list[int]]]) -> None:
    for log, cuts in some:
        lanes = take_apart(log, cuts)
        assert put_together(lanes.shape, lanes.rows, lanes.once, b"".join(lanes.large)) == log


def test_the_log_of_frames_is_regular_and_its_heads_say_all_lengths() -> None:
    log, cuts = conversation(3, long=500)[-1]
    lanes = take_apart(log, cuts)
    assert lanes.shape.regular
    assert len(lanes.shape.lengths) * 2 == lanes.shape.pieces == len(cuts)
    assert len(lanes.rows) == lanes.shape.pieces // 2 - 1  # one head has draws behind it
    assert [piece[:8] for piece in lanes.large] == [b'{"model"']
    assert b"data: " in lanes.once


def test_large_pieces_of_a_stream_are_no_request() -> None:
    events = b"data: " + b"x" * LARGE + b"\n\ndata: y\n\n"
    body = b"{" + b"x" * LARGE + b"}"
    log, cuts = frame.write_log(
        [
            frame.Frame(kind, 0, 1, 1, 1, 0, 5, b"", payload)
            for kind, payload in ((frame.BODY, body), (frame.CHUNK, events * 3))
        ]
    )
    lanes = take_apart(log, cuts)
    assert lanes.large == [body]
    assert list(lanes.shape.streamed) == [3]
    assert put_together(lanes.shape, lanes.rows, lanes.once, body) == log


@given(st.lists(st.binary(min_size=ROW, max_size=ROW), max_size=20))
def test_heads_come_back_exactly(rows: list[bytes]) -> None:
    assert unpack_rows(pack_rows(rows)) == rows


def test_heads_that_differ_in_their_time_alone_become_zeros() -> None:
    rows = [frame.LENGTH.pack(40) + frame.HEADER.pack(20, 0, 1, 1, 1, 0, 10**18 + 20 * n, 0) for n in range(50)]
    assert sum(byte != 0 for byte in pack_rows(rows)) < ROW + 50


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=30))
def test_numbers_come_back_exactly(numbers: list[int]) -> None:
    assert unpack_words(pack_words(numbers)).tolist() == numbers
    count, packed = pack_program(numbers)
    assert unpack_program(count, packed) == numbers


def test_lanes_that_do_not_fit_their_shape_are_damage() -> None:
    log, cuts = conversation(1)[0]
    lanes = take_apart(log, cuts)
    large = b"".join(lanes.large)
    for shape, rows, once in (
        (lanes.shape, lanes.rows[:-1], lanes.once),
        (lanes.shape, lanes.rows, lanes.once[:-1]),
        (Shape(lanes.shape.pieces, 0, [*lanes.shape.lengths] * 2, []), lanes.rows, lanes.once),
    ):
        with pytest.raises(DamagedStore, match="piece"):
            put_together(shape, rows, once, large)
    with pytest.raises(DamagedStore, match="cut short"):
        unpack_program(2, b"\xff\xff\x01\x00\x00\x00")

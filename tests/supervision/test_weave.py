"""Streams shown in one place keep their order, and never lose a byte to it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tachograph.supervision.weave import interleave

pieces = st.lists(st.binary(max_size=40) | st.just(b"a\nb\nc\n"), min_size=1, max_size=3)


@given(pieces, st.lists(st.integers(0, 2), max_size=12), st.integers(-1, 2))
def test_every_stream_is_passed_on_whole_and_in_order(pieces: list[bytes], runs: list[int], unannounced: int) -> None:
    runs = [number for number in runs if number < len(pieces)]
    parts = interleave(pieces, runs, unannounced=min(unannounced, len(pieces) - 1))
    for number, piece in enumerate(pieces):
        assert b"".join(part for n, part in parts if n == number) == piece


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=8).map(lambda text: text.replace(b"\n", b"") + b"\n"))))
def test_one_line_to_a_write_gives_the_order_of_the_writes(writes: list[tuple[int, bytes]]) -> None:
    streams = [b"".join(line for number, line in writes if number == n) for n in (0, 1)]
    assert interleave(streams, [number for number, _ in writes]) == writes


def test_a_run_of_several_lines_is_passed_on_with_the_last_of_its_stream() -> None:
    # The kernel tells of a run once, however many writes it had.
    assert interleave([b"a\nb\nc\n", b"x\n"], [0, 1, 0]) == [(0, b"a\n"), (1, b"x\n"), (0, b"b\nc\n")]


def test_an_echo_goes_before_the_answer() -> None:
    assert interleave([b"typed\r\n", b"answer\r\n"], [1], unannounced=0)[0] == (0, b"typed\r\n")


def test_what_is_written_to_the_terminal_itself_goes_in_its_place() -> None:
    assert interleave([b"Password: ", b"asked\r\n"], [1, 0], unannounced=0)[0] == (1, b"asked\r\n")

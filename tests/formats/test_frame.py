"""Frames: what goes in comes out, and bytes that are not what was written end in a FormatError and nothing else."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import FormatError
from tachograph.formats import frame as fr

U32 = st.integers(0, 2**32 - 1)
U16 = st.integers(0, 2**16 - 1)
SCALARS = (
    st.floats()
    | st.integers(-(2**200), 2**200)
    | st.binary(max_size=40)
    | st.text(st.characters(), max_size=20)
    | st.none()
)
DRAWN = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)
DRAWS = st.lists(st.tuples(U32, U32, DRAWN), max_size=5)


@st.composite
def frames(draw: st.DrawFn) -> fr.Frame:
    """Any frame: headers of every size, some draws, some payload."""
    section = b"".join(fr.pack_draw(*one) for one in draw(DRAWS))
    return fr.Frame(
        draw(st.integers(0, 255)),
        draw(st.integers(0, 255)),
        draw(U16),
        draw(U32),
        draw(U32),
        draw(U32),
        draw(st.integers(0, 2**64 - 1)),
        section,
        draw(st.binary(max_size=60)),
    )


def told(frame: fr.Frame) -> tuple[Any, ...]:
    """Everything that a frame says."""
    return tuple(getattr(frame, name) for name in fr.Frame.__slots__)


def same(one: Any, other: Any) -> bool:
    """Equal values of the same type, NaN and the sign of zero included."""
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


# --- frames and logs --------------------------------------------------------------------------------------------------


@given(frames())
def test_a_frame_comes_back_as_it_was(frame: fr.Frame) -> None:
    assert told(fr.read_frame(frame.written())) == told(frame)


@given(frames())
def test_a_frame_cut_before_its_payload_is_a_format_error(frame: fr.Frame) -> None:
    written = frame.written()
    for end in range(len(written) - len(frame.payload)):
        with pytest.raises(FormatError):
            fr.read_frame(written[:end])


@given(st.lists(frames(), max_size=5))
def test_a_log_comes_back_as_it_was(written: list[fr.Frame]) -> None:
    log, _ = fr.write_log(written)
    assert [told(frame) for frame in fr.read_log(log)] == [told(frame) for frame in written]


@given(st.lists(frames(), min_size=1, max_size=5))
def test_the_cuts_are_where_frames_and_their_payloads_begin(written: list[fr.Frame]) -> None:
    log, cuts = fr.write_log(written)
    assert len(cuts) == 2 * len(written)
    assert cuts == sorted(cuts)
    ends = [*cuts[2::2], len(log)]
    for frame, start, payload, end in zip(written, cuts[::2], cuts[1::2], ends, strict=True):
        assert log[start + 4 : end] == frame.written()
        assert log[payload:end] == frame.payload


@given(st.lists(frames(), min_size=1, max_size=3))
def test_a_log_cut_at_any_byte_gives_its_whole_frames_or_says_where_it_ends(written: list[fr.Frame]) -> None:
    log, cuts = fr.write_log(written)
    borders = {*cuts[::2], len(log)}
    for end in range(len(log)):
        if end in borders:
            whole = fr.read_log(log[:end])
            assert [told(frame) for frame in whole] == [told(frame) for frame in written[: len(whole)]]
        else:
            with pytest.raises(FormatError) as caught:
                fr.read_log(log[:end])
            assert caught.value.at in borders, "the fault is placed where the broken frame begins"


@given(st.lists(frames(), min_size=1, max_size=3), st.data())
def test_a_flipped_bit_of_a_log_is_never_read_as_what_was_written(written: list[fr.Frame], data: st.DataObject) -> None:
    log, _ = fr.write_log(written)
    at, bit = data.draw(st.integers(0, len(log) - 1)), data.draw(st.integers(0, 7))
    broken = log[:at] + bytes([log[at] ^ 1 << bit]) + log[at + 1 :]
    try:
        read = fr.read_log(broken)
    except FormatError:
        return
    assert [told(frame) for frame in read] != [told(frame) for frame in written]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_format_error(data: bytes) -> None:
    for read in (fr.read_frame, fr.read_log, fr.unpack_draws, fr.unpack_fields, fr.unpack_headers):
        try:
            read(data)
        except FormatError:
            continue


def test_the_layout_of_version_1_is_fixed() -> None:
    frame = fr.Frame(fr.CALL, 1, 2, 3, 4, 5, 6, fr.pack_draw(7, 8, 0.5), b"payload")
    assert frame.written().hex() == (
        "100102000000030000000400000005000000060000000000000015000000070000000800000001080000"
        "00000000000000e03f7061796c6f6164"
    )  # fmt: skip


def test_every_kind_has_one_number_and_one_name() -> None:
    numbers = [value for name, value in vars(fr).items() if name[0].isupper() and type(value) is int]
    numbers.remove(fr.VERSION)
    assert sorted(numbers) == sorted(fr.NAMES)
    assert len(set(fr.NAMES.values())) == len(fr.NAMES)
    assert fr.STARTS.isdisjoint(fr.ARRIVALS)


# --- fields and headers -----------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=30), max_size=8), st.binary(max_size=10), st.binary(max_size=10))
def test_fields_come_back_wherever_they_stand(parts: list[bytes], before: bytes, after: bytes) -> None:
    packed = fr.fields(*parts)
    assert fr.unpack_fields(before + packed + after, len(before)) == (parts, len(before) + len(packed))


@given(st.lists(st.binary(max_size=10), max_size=5))
def test_fields_cut_at_any_byte_are_a_format_error(parts: list[bytes]) -> None:
    packed = fr.fields(*parts)
    for end in range(len(packed)):
        with pytest.raises(FormatError):
            fr.unpack_fields(packed[:end])


@given(st.lists(st.tuples(st.binary(max_size=10), st.binary(max_size=10)), max_size=6))
def test_headers_keep_order_case_and_repeats(raw: list[tuple[bytes, bytes]]) -> None:
    assert fr.unpack_headers(fr.pack_headers(raw)) == raw


def test_a_header_without_a_value_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="without a value"):
        fr.unpack_headers(fr.fields(b"accept", b"*/*", b"lonely"))


# --- draws ------------------------------------------------------------------------------------------------------------


@given(DRAWS)
def test_draws_come_back_exactly(drawn: list[tuple[int, int, Any]]) -> None:
    section = b"".join(fr.pack_draw(*one) for one in drawn)
    read = fr.unpack_draws(section)
    assert len(read) == len(drawn)
    for (site, path, value), (site_read, path_read, value_read) in zip(drawn, read, strict=True):
        assert (site, path) == (site_read, path_read)
        assert same(value, value_read)


@given(st.lists(st.tuples(U32, U32, DRAWN), min_size=1, max_size=3))
def test_draws_cut_at_any_byte_are_whole_draws_or_a_format_error(drawn: list[tuple[int, int, Any]]) -> None:
    packed = [fr.pack_draw(*one) for one in drawn]
    borders = {sum(map(len, packed[:count])) for count in range(len(packed))}
    section = b"".join(packed)
    for end in range(len(section)):
        if end in borders:
            assert len(fr.unpack_draws(section[:end])) < len(drawn)
        else:
            with pytest.raises(FormatError):
                fr.unpack_draws(section[:end])


@given(st.lists(st.tuples(U32, U32, DRAWN), min_size=1, max_size=3), st.data())
def test_a_flipped_bit_of_draws_never_ends_in_another_error(
    drawn: list[tuple[int, int, Any]], data: st.DataObject
) -> None:
    section = b"".join(fr.pack_draw(*one) for one in drawn)
    at, bit = data.draw(st.integers(0, len(section) - 1)), data.draw(st.integers(0, 7))
    try:
        fr.unpack_draws(section[:at] + bytes([section[at] ^ 1 << bit]) + section[at + 1 :])
    except FormatError:
        return


@pytest.mark.parametrize("tag", [0, 1, 4, 7, 255])
def test_a_draw_that_is_not_what_its_kind_says_is_a_format_error(tag: int) -> None:
    section = bytearray(fr.pack_draw(1, 1, b"\xff\xfe"))
    section[8] = tag  # no such kind; a float of two bytes; text that is no UTF-8
    with pytest.raises(FormatError):
        fr.unpack_draws(bytes(section))


def test_draws_nested_without_end_are_a_format_error() -> None:
    section = b""
    for _ in range(5000):  # each a tuple of the one before
        section = fr.pack_draw(0, 0, ())[:-4] + fr.LENGTH.pack(len(section)) + section
    with pytest.raises(FormatError, match="nested"):
        fr.unpack_draws(section)


@pytest.mark.parametrize("value", [True, 1j, [1], {"a": 1}, bytearray(b"x")])
def test_what_no_draw_can_be_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="a draw is"):
        fr.pack_draw(1, 1, value)

"""Frames of a run under its numbers: read when they are asked for, and the same each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tachograph.formats import frame as fr
from tachograph.intake.gather import gather
from tachograph.intake.numbered import Numbered, Origin
from tests.intake.test_gather import SECOND, Process

VALUES = st.one_of(st.floats(allow_nan=False), st.integers(), st.binary(max_size=9), st.text(max_size=9), st.none())
DRAWS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.one_of(VALUES, st.tuples(VALUES, VALUES))))


@given(DRAWS)
def test_draws_get_the_runs_numbers_and_keep_their_values(draws: list[tuple[int, int, object]]) -> None:
    origin = Origin([])
    origin.sites, origin.paths = {1: 4, 2: 500}, {3: 70_000}
    packed = b"".join(fr.pack_draw(*draw) for draw in draws)
    expected = [(origin.sites.get(site, 0), origin.paths.get(path, 0), value) for site, path, value in draws]
    assert fr.unpack_draws(origin.draws(packed)) == expected
    assert fr.draw_places(packed) == [(site, path) for site, path, _ in draws]


def test_a_frame_asked_for_twice_is_the_same_twice() -> None:
    process = Process("0")
    process.call(1, at=7 * SECOND, draws=[1.5, b"x"])
    process.chunk(1, at=8 * SECOND, draws=["y"])
    frames = gather([process.reading()]).frames
    for number in range(len(frames)):
        assert frames[number].written() == frames[number].written()
        head = list(frames.heads())[number]
        assert (head.kind, head.at_ns) == (frames[number].kind, frames[number].at_ns)
        assert (frames.kind(number), frames.at_ns(number)) == (head.kind, head.at_ns)
    assert frames[-1].written() == frames[len(frames) - 1].written()


def test_of_a_frame_whose_effect_is_lost_only_the_draws_are_left() -> None:
    process = Process("0")
    process.call(1, at=7 * SECOND)
    process.chunk(1, at=8 * SECOND, draws=[3])
    frames = gather([process.reading(without=[3])]).frames
    (left,) = [frame for frame in frames if frame.kind == fr.DRAWS]
    assert (left.payload, [value for _, _, value in fr.unpack_draws(left.draws)]) == (b"", [3])


def test_frames_of_no_spool_file_stand_among_the_others() -> None:
    own = fr.Frame(fr.NOTE, 0, 0, 0, 0, 0, 9, b"", b"said")
    frames = Numbered([own])
    origin = frames.origin(Origin([fr.Frame(fr.CHUNK, 0, 0, 7, 1, 0, 5, b"", b"data").written()]))
    frames.add(fr.Frame(fr.CHUNK, 0, 2, 3, 1, 0, 11, b"", b""), origin, 0)
    assert frames[0] is own
    assert (frames[1].effect, frames[1].decision, frames[1].at_ns, frames[1].payload) == (3, 2, 11, b"data")
    assert [one.kind for one in frames[:]] == [fr.NOTE, fr.CHUNK]

"""Recordings are found by what they answer: byte for byte, by meaning, by what stands inside."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison.requests import Prepared, Request
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.effect import HTTP, Effect
from tachograph.replay.recordings import _PREPARED, Recordings, _same
from tests.replay.made import Run

URL = "http://h/v1"
JSON = [(b"content-type", b"application/json")]


def everything_is_free(_: Effect) -> bool:
    return True


def asked(body: bytes) -> Prepared:
    return Prepared(Request(HTTP, "POST", URL, JSON, body))


def test_the_same_bytes_are_found_and_a_checksum_alone_decides_nothing() -> None:
    # Two texts of one length and one CRC-32.
    one, other = b"plumless", b"buckeroo"
    recordings = Recordings(Run().call(1, one).call(2, other).log, everything_is_free)
    for number, body in enumerate((one, other), 1):
        for parts in ([body], [body[:3], b"", body[3:]]):
            effect = recordings.same(asked(b""), parts, "0", wire=False)
            assert effect is not None
            assert effect.index == number
        assert recordings.same(asked(b""), [body, b"x"], "0", wire=False) is None
        assert recordings.same(asked(b""), [body], "0", wire=True) is None


@given(st.binary(max_size=40), st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)), st.integers(0, 39))
def test_bodies_in_parts_are_the_same_wherever_they_are_cut(
    body: bytes, ours: list[int], theirs: list[int], change: int
) -> None:
    def cut(data: bytes, places: list[int]) -> list[bytes | memoryview]:
        borders = [0, *sorted(min(place, len(data)) for place in places), len(data)]
        return [memoryview(data)[start:end] for start, end in itertools.pairwise(borders)]

    assert _same(cut(body, ours), cut(body, theirs))
    assert not _same(cut(body, ours), cut(body + b"x", theirs))
    assert not _same(cut(body + b"x", ours), cut(body, theirs))
    if change < len(body):
        other = body[:change] + bytes((body[change] ^ 1,)) + body[change + 1 :]
        assert not _same(cut(body, ours), cut(other, theirs))


def test_other_bytes_of_the_same_meaning_are_found_and_noted() -> None:
    recordings = Recordings(Run().call(1, b'{"a": 1}').call(2, b'{"a": 2}').log, everything_is_free)
    effect, notes = recordings.alike(asked(b'{ "a":2 }'), "0", wire=False)
    assert effect is not None
    assert (effect.index, len(notes)) == (2, 1)
    assert recordings.alike(asked(b'{"a": 3}'), "0", wire=False) == (None, [])
    assert recordings.alike(asked(b'{"a": 1}'), "0", wire=True) == (None, [])


def test_the_nearest_is_named_with_the_first_difference() -> None:
    recordings = Recordings(Run().call(1, b'{"a": 1}').call(2, b'{"b": 2}').log, everything_is_free)
    found = recordings.nearest(asked(b'{"b": 3}'))
    assert found is not None
    assert (found[0].index, found[1] and found[1].path) == (2, "/body/b")


def test_bodies_that_were_read_for_a_comparison_are_not_all_kept() -> None:
    run = Run()
    for number in range(1, 6):
        run.call(number, json.dumps({"n": number, "pad": "x" * (_PREPARED // 3)}).encode())
    recordings = Recordings(run.log, everything_is_free)
    assert recordings.alike(asked(b'{"n": 9}'), "0", wire=False) == (None, [])
    assert sum(len(one.request.body) for one in recordings._prepared.values()) <= _PREPARED


def test_all_that_stands_inside_an_effect_is_found_in_order() -> None:
    run = Run()
    for number, parent in ((1, 0), (2, 1), (3, 0), (4, 2), (5, 1), (6, 3)):
        spec = fr.fields(b"tool", b"look", values.encode({}), b"%d" % number)
        run.add(fr.ENTER, spec, effect=number, parent=parent, path=1)
    log = run.log
    recordings = Recordings(log, everything_is_free)
    assert [effect.index for effect in recordings.inside(log.effects[0])] == [2, 4, 5]
    found = recordings.declared("tool", "look", b"4", "0")
    assert found is not None
    assert found.index == 4
    assert recordings.declared("tool", "look", b"9", "0") is None


def test_what_is_read_of_bodies_is_told_part_by_part() -> None:
    counts: list[int] = []
    log = Run().call(1, b"x" * 700).call(2, b"y" * 900).log
    recordings = Recordings(log, everything_is_free, touched=counts.append)
    assert counts == [700, 900]
    assert recordings.same(asked(b""), [b"y" * 900], "0", wire=False) is log.effects[1]
    assert counts == [700, 900, 900]

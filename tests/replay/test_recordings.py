"""Recordings are found by what they answer: byte for byte, by meaning, by what stands inside."""

from __future__ import annotations

import json

from tachograph.comparison.requests import Prepared, Request
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.effect import HTTP, Effect
from tachograph.replay.recordings import _PREPARED, Recordings
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
        effect, notes = recordings.request(asked(body), "0", wire=False)
        assert effect is not None
        assert (effect.index, notes) == (number, [])


def test_other_bytes_of_the_same_meaning_are_found_and_noted() -> None:
    recordings = Recordings(Run().call(1, b'{"a": 1}').call(2, b'{"a": 2}').log, everything_is_free)
    effect, notes = recordings.request(asked(b'{ "a":2 }'), "0", wire=False)
    assert effect is not None
    assert (effect.index, len(notes)) == (2, 1)
    assert recordings.request(asked(b'{"a": 3}'), "0", wire=False) == (None, [])
    assert recordings.request(asked(b'{"a": 1}'), "0", wire=True) == (None, [])


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
    assert recordings.request(asked(b'{"n": 9}'), "0", wire=False) == (None, [])
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

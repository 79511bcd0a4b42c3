"""A log is read for its skeleton, and its content is let go."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.intake.sketch import Sketch
from tests.intake.test_skeleton import ANSWER, CHAT, REQUEST
from tests.replay.made import Run

LARGE = 300_000


def frames(count: int, *, url: str) -> Iterator[fr.Frame]:
    """The frames of so many calls with large bodies, made as they are asked for."""
    for number in range(1, count + 1):
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * LARGE}]}).encode()
        yield from (frame for frame in Run().call(number, body, url=url, answer=ANSWER).frames if frame.effect)


@pytest.mark.parametrize("url", [CHAT, "http://elsewhere.test/upload"])
def test_no_more_than_a_few_bodies_are_held_however_many_there_are(url: str) -> None:
    tracemalloc.start()
    try:
        sketch = Sketch.of(frames(40, url=url))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(sketch.log.effects) == 40
    assert most < 10 * LARGE


def test_of_each_effect_stays_what_a_skeleton_says() -> None:
    run = Run().call(1, REQUEST, url=CHAT, answer=ANSWER).call(2, b"body", url="http://h/elsewhere")
    sketch = Sketch.of(run.frames)
    one, two = sketch.log.effects
    assert (one.ended, one.status, two.ended, two.status) == ("eof", 200, "eof", 200)
    assert (one.body, one.arrivals, two.body, two.arrivals) == (b"", [], b"", [])
    assert list(sketch.glimpses) == [1]
    assert (sketch.glimpses[1].user, sketch.glimpses[1].stop_reason) == ("what is it", "end_turn")


def test_a_call_that_never_ended_is_looked_at_all_the_same() -> None:
    run = Run().call(1, REQUEST, url=CHAT, answer=ANSWER)
    sketch = Sketch.of(run.frames[:-1])
    assert sketch.log.effects[0].ended == "open_at_end"
    assert sketch.glimpses[1].said["model"] == "m-1"


def test_a_frame_that_belongs_to_nothing_is_refused() -> None:
    run = Run().add(fr.CHUNK, b"x", effect=9)
    with pytest.raises(FormatError, match="never started"):
        Sketch.of(run.frames)
    with pytest.raises(FormatError, match="does not hold what its kind says"):
        Sketch.of([fr.Frame(fr.CALL, 0, 0, 1, 0, 0, 1, b"", fr.fields(b"httpx", b"GET"))])

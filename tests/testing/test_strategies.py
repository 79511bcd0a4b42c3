"""What the strategies draw is legal, and reaches the corners that it is meant to reach."""

from __future__ import annotations

import json
import re

import hypothesis
import pytest
from hypothesis import given

from tachograph.testing import strategies


@given(drawn=strategies.headers())
def test_headers_are_legal_and_none_is_the_transports_own(drawn: tuple[tuple[str, str], ...]) -> None:
    for name, value in drawn:
        assert name.lower() not in ("host", "content-length")
        assert value == value.strip()
        assert not set(value) & set("\r\n\x00")


@given(body=strategies.json_bodies())
def test_json_bodies_are_json_objects(body: bytes) -> None:
    assert isinstance(json.loads(body), dict)


@given(drawn=strategies.chunked_streams())
def test_chunks_joined_are_the_body(drawn: strategies.ChunkedStream) -> None:
    assert b"".join(drawn.chunks) == drawn.body
    assert all(drawn.chunks)


@given(drawn=strategies.event_streams())
def test_event_streams_are_whole_events(drawn: strategies.ChunkedStream) -> None:
    assert b"".join(drawn.chunks) == drawn.body
    assert drawn.body == b"" or drawn.body.replace(b"\r", b"").endswith(b"\n\n")


@given(drawn=strategies.multipart_bodies())
def test_two_runs_of_one_form_differ_in_the_boundary_only(drawn: strategies.Multipart) -> None:
    first, second = (kind.partition("boundary=")[2].encode() for kind in drawn.content_types)
    assert drawn.bodies[0] != drawn.bodies[1]
    assert drawn.bodies[0].replace(first, second) == drawn.bodies[1]


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        (strategies.chunked_streams(), lambda drawn: len(drawn.chunks) > 3),
        (strategies.event_streams(), lambda drawn: any(chunk[:1] > b"\x7f" for chunk in drawn.chunks)),
        (strategies.json_bodies(), lambda body: re.search(rb"\d{17}", body)),
        (strategies.texts(), lambda text: "\u2028" in text),
        (strategies.headers(), lambda drawn: len(drawn) > 3),
    ],
)
def test_the_corners_are_reached(strategy: object, wanted: object) -> None:
    # Found is enough: to shrink what was found would take most of the time.
    settings = hypothesis.settings(max_examples=2000, database=None, phases=[hypothesis.Phase.generate])
    hypothesis.find(strategy, wanted, settings=settings)  # type: ignore[arg-type]

"""What all endpoints read with care: lists of objects, tools, sampling; a wrong field is named."""

from __future__ import annotations

import pytest

from tachograph.testing.endpoints.shape import objects, sampling_of, tool_of
from tachograph.testing.model_request import Sampling, Tool, Unanswerable


def test_a_missing_list_is_empty_and_another_thing_is_refused() -> None:
    assert objects({}, "a") == objects({"a": None}, "a") == []
    with pytest.raises(Unanswerable, match="a is no list of objects"):
        objects({"a": [1]}, "a")


def test_a_tool_without_a_schema_takes_nothing() -> None:
    assert tool_of({"name": "now"}, "parameters") == Tool(name="now")
    with pytest.raises(Unanswerable, match="no name"):
        tool_of({}, "parameters")


def test_sampling_is_read_under_the_protocols_names() -> None:
    assert sampling_of({"stop": "a", "limit": 3, "temperature": None}, max_tokens="limit") == Sampling(
        stop=("a",), max_tokens=3
    )
    with pytest.raises(Unanswerable, match="wrong type"):
        sampling_of({"seed": "x"})

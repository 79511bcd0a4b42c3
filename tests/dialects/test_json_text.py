"""JSON text: each value's exact text is found where it stands."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison.leaves import Number
from tachograph.dialects.json_text import JsonText, read_text
from tests.comparison.test_leaves import json_values


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(at, value), *[place for key, one in inner for place in _places(one, (*at, key))]]


@given(json_values, st.sampled_from([None, 2]))
def test_the_text_of_every_value_is_found(value: Any, indent: int | None) -> None:
    document = JsonText(b" " + json.dumps(value, indent=indent).encode() + b"\n")
    for steps, inner in _places(value):
        text = document.at(*steps)
        assert text is not None
        assert json.loads(text) == inner
    assert document.at("no such key", 3) is None


def test_numbers_and_spacing_stay_as_written() -> None:
    document = JsonText(b'{"a" : [ 1.10 , 18446744073709551617 ] , "b":{"c":1e2}, "d": 0.5}')
    assert (document.at("a", 0), document.at("a", 1), document.at("b", "c")) == ("1.10", "18446744073709551617", "1e2")
    assert document.at("a") == "[ 1.10 , 18446744073709551617 ]"
    assert document.value == {"a": [Number("1.10"), 18446744073709551617], "b": {"c": Number("1e2")}, "d": 0.5}


def test_what_is_no_plain_json_is_a_reason() -> None:
    assert read_text(b'{"a":1,"a":2}') == "key 'a' twice in one object"
    assert isinstance(read_text(b"{}"), JsonText)

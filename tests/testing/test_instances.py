"""A tool's arguments fit its schema and come from the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from tachograph.testing.instances import instance_of

TEXTS = ["Memory entry 3: the window is 14 days.", "I bought it 20 weeks ago, in Zürich, for 7.5 euros"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3),
        ({"properties": {"refund_window_days": {"type": "integer"}}}, {"refund_window_days": 14}),
        ({"properties": {"inWeeks": {"type": "integer"}}}, {"inWeeks": 20}),
        ({"properties": {"price_euros": {"type": "number"}}}, {"price_euros": 7.5}),
        ({"type": "integer", "minimum": 10, "maximum": 12}, 10),
        ({"type": ["integer", "null"], "maximum": 2}, 2),
        ({"type": "string"}, TEXTS[-1]),
        ({"enum": ["Bern", "Zürich"]}, "Zürich"),
        ({"enum": ["a1", "b2"]}, "a1"),
        ({"const": 5}, 5),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, False),
        ({"type": "null"}, None),
        ({"type": "array", "items": {"const": 1}, "minItems": 2}, [1, 1]),
        ({"type": "array", "items": {"const": 1}}, []),
        ({"properties": {"a": {}, "b": {"const": 1}}, "required": ["b"]}, {"b": 1}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"const": "found"}}}, "found"),
    ],
)
def test_a_value_for_each_form_of_schema(schema: dict[str, Any], value: object) -> None:
    assert instance_of(schema, TEXTS) == value


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}}
    assert "next" in instance_of(schema, [])


def test_without_a_text_there_is_still_a_value() -> None:
    assert instance_of({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}, []) == {"a": 0, "b": ""}

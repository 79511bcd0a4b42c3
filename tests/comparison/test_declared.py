"""Declared effects: the recorded call is the one with the same kind, name and inputs, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison.declared import Declared, compare_declared
from tachograph.comparison.leaves import ABSENT, Leaf
from tachograph.formats.values import encode
from tests.comparison.test_leaves import json_values


def _tool(name: str, **inputs: Any) -> Declared:
    return Declared("tool", name, encode(inputs))


def test_r11_a_renamed_step_is_another_step(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R11_renamed_step.json").read_bytes())
    one, other = [
        [Declared(step["kind"], step["name"], encode(step["args"])) for step in case[side]]
        for side in ("recorded", "replay")
    ]
    assert compare_declared(one[0], other[0]).level == "exact"
    assert compare_declared(one[1], other[1]) == ("different", (), Leaf("/name", "charge_card", "queue_charge"))


def test_another_kind_or_input_is_named() -> None:
    assert compare_declared(_tool("a"), Declared("retrieval", "a", encode({}))).first == Leaf(
        "/kind", "tool", "retrieval"
    )
    assert compare_declared(_tool("a", x=(1, 2)), _tool("a", x=(1, 3))).first == Leaf("/inputs/x/$tuple/1", 2, 3)
    assert compare_declared(_tool("a", x=1), _tool("a", x=1.0)).first == Leaf("/inputs/x", 1, 1.0)
    assert compare_declared(_tool("a", x=1), _tool("a", x=True)).first == Leaf("/inputs/x", 1, True)
    assert compare_declared(_tool("a", x=1), _tool("a")).first == Leaf("/inputs/x", 1, ABSENT)


def test_inputs_whose_views_agree_still_differ_if_their_bytes_do() -> None:
    verdict = compare_declared(_tool("a", x=1, y=2), _tool("a", y=2, x=1))
    assert verdict.level == "different"
    assert verdict.first is not None


@given(json_values, json_values)
def test_comparing_is_symmetric(one: Any, other: Any) -> None:
    there, back = (
        compare_declared(_tool("t", x=one), _tool("t", x=other)),
        compare_declared(_tool("t", x=other), _tool("t", x=one)),
    )
    assert there.level == back.level
    assert (there.level == "exact") == (encode(one) == encode(other))
    assert (there.first is None) == (there.level == "exact")


@given(st.binary(max_size=20))
def test_inputs_that_no_reader_understands_are_never_exact_with_others(data: bytes) -> None:
    verdict = compare_declared(Declared("tool", "a", b"\x01n"), Declared("tool", "a", data))
    assert (verdict.level == "exact") == (data == b"\x01n")
    assert (verdict.first is None) == (verdict.level == "exact")

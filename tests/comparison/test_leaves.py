"""Leaves: JSON is read without loss or refused, and the first difference is found and named."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tachograph.comparison.leaves import (
    ABSENT,
    MOST_LEVELS,
    Leaf,
    NotPlainJson,
    Number,
    as_json,
    byte_difference,
    common_prefix,
    common_suffix,
    differences,
    first_difference,
    pointer,
    read_json,
    shown,
    tree_of,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def _read(value: Any) -> Any:
    return read_json(json.dumps(value).encode())


# --- reading ----------------------------------------------------------------------------------------------------------


@given(json_values)
def test_reading_and_showing_gives_the_value_back(value: Any) -> None:
    assert shown(_read(value)) == value
    assert _read(value) == tree_of(value)


@pytest.mark.parametrize("text", ["1.10", "1e2", "-0", "1.0", "18446744073709551617", "9" * 5000, "1E+2", "0.1e-400"])
def test_every_number_keeps_its_text(text: str) -> None:
    assert read_json(f'{{"n": {text}}}'.encode()) == {"n": (text,)}
    value = shown((text,))
    assert value == Number(text) if isinstance(value, Number) else repr(value) == text


def test_numbers_that_are_equal_by_value_are_not_the_same() -> None:
    texts = ["1", "1.0", "1e0", "true", '"1"', "1.00", "[1]"]
    trees = [read_json(f"[{text}]".encode()) for text in texts]
    for index, one in enumerate(trees):
        for other in trees[index + 1 :]:
            assert first_difference(one, other) is not None
            assert first_difference(other, one) is not None
    assert len({repr(tree_of(value)) for value in (1, 1.0, True, "1")}) == 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": 1, "a": 1}', "key 'a' twice"), (b'[{"b": {"c": 1, "d": 2, "c": 3}}]', "key 'c' twice"),
        (b"[NaN]", "NaN"), (b"-Infinity", "-Infinity"), (b'["\\ud800"]', "lone surrogate"),
        (b'{"\\uDFFF": 1}', "lone surrogate"), (b'["\xff"]', "UTF-8"), (b"[1,]", "line 1"), (b"", "line 1"),
        (b"\xef\xbb\xbf[]", "line 1"), (b'["\x01"]', "control"), (b"{} {}", "Extra"),
    ],
)  # fmt: skip
def test_what_a_reader_would_change_in_silence_is_no_plain_json(text: bytes, reason: str) -> None:
    with pytest.raises(NotPlainJson) as raised:
        read_json(text)
    assert reason in raised.value.reason


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert read_json(b'["\\ud83d\\udef6", "\\\\ud800"]') == ["🛶", "\\ud800"]


@pytest.mark.parametrize("one", ["[", '{"k":'])
def test_64_levels_are_read_and_65_are_not(one: str) -> None:
    close = "]" if one == "[" else "}"
    inner = "" if one == "[" else "0"
    read_json((one * MOST_LEVELS + inner + close * MOST_LEVELS).encode())
    for levels in (MOST_LEVELS + 1, 100_000):
        with pytest.raises(NotPlainJson, match="64 levels"):
            read_json((one * levels + inner + close * levels).encode())


def test_what_is_no_json_value_has_no_tree() -> None:
    assert tree_of([ABSENT, Number("1.10"), b"x", (1,)]) == [ABSENT, ("1.10",), b"x", [("1",)]]
    with pytest.raises(NotPlainJson):
        tree_of({"a": Decimal(1)})


# --- differences ------------------------------------------------------------------------------------------------------


@given(json_values)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert list(differences(_read(value), _read(value))) == []


@given(json_values, json_values)
def test_two_values_differ_in_both_directions_or_in_none(one: Any, other: Any) -> None:
    there = list(differences(_read(one), _read(other)))
    back = list(differences(_read(other), _read(one)))
    swapped = {(leaf.path, repr(leaf.replayed), repr(leaf.recorded)) for leaf in back}
    assert {(leaf.path, repr(leaf.recorded), repr(leaf.replayed)) for leaf in there} == swapped
    assert (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)) == (not there)


def _places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict) and value:
        return [place for key, inner in value.items() for place in _places(inner, (*at, key))]
    if isinstance(value, list) and value:
        return [place for index, inner in enumerate(value) for place in _places(inner, (*at, index))]
    return [at]


def _changed(value: Any, place: tuple[str | int, ...], new: Any) -> Any:
    if not place:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[place[0]] = _changed(value[place[0]], place[1:], new)  # type: ignore[index,call-overload]
    return copy


@given(json_values, st.data())
def test_one_changed_leaf_is_found_and_named_with_both_values(value: Any, data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(_places(value)))
    new = data.draw(st.text(min_size=1) | st.integers())
    other = _changed(value, place, new)
    assume(repr(other) != repr(value))
    found = list(differences(_read(value), _read(other)))
    assert len(found) == 1
    assert found[0].path == pointer(*place)
    assert found[0].replayed == new


def test_differences_come_in_document_order_and_new_keys_last() -> None:
    recorded = read_json(b'{"z": 1, "a": [1, 2, 3], "~/": {"x": "old"}, "gone": null}')
    replayed = read_json(b'{"new": 7, "a": [1, 5], "z": 2, "~/": {"x": "new"}}')
    assert list(differences(recorded, replayed)) == [
        Leaf("/z", 1, 2),
        Leaf("/a/1", 2, 5),
        Leaf("/a/2", 3, ABSENT),
        Leaf("/~0~1/x", "old", "new"),
        Leaf("/gone", None, ABSENT),
        Leaf("/new", ABSENT, 7),
    ]
    assert first_difference(recorded, replayed) == Leaf("/z", 1, 2)


def test_a_leaf_of_text_carries_both_texts_and_one_of_another_kind_both_values() -> None:
    assert first_difference(_read({"m": ["x" * 10_000]}), _read({"m": ["y"]})) == Leaf("/m/0", "x" * 10_000, "y")
    assert first_difference(_read({"m": {"a": 1.5}}), _read({"m": [2]})) == Leaf("/m", {"a": 1.5}, [2])
    assert first_difference(_read({"m": None}), _read({})) == Leaf("/m", None, ABSENT)


def test_values_go_to_a_report_without_loss() -> None:
    leaf = first_difference(read_json(b'{"a": {"b": [1.10, 2]}}'), read_json(b'{"a": 18446744073709551617}'))
    assert leaf is not None
    assert as_json(leaf.recorded) == {"b": [{"number": "1.10"}, 2]}
    assert as_json(leaf.replayed) == {"number": "18446744073709551617"}
    assert as_json(ABSENT) == {"absent": True}
    assert as_json(b"\x01") == {"bytes": "01"}
    assert json.loads(json.dumps(as_json(byte_difference(b"abc", b"abd")._asdict())))["recorded"]["of"] == 3  # type: ignore[union-attr]


# --- bytes ------------------------------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=300), st.data())
def test_one_flipped_bit_anywhere_is_found_at_its_byte(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    other = bytearray(body)
    other[at] ^= 1 << data.draw(st.integers(0, 7))
    leaf = byte_difference(body, bytes(other))
    assert leaf is not None
    assert leaf.recorded.offset == leaf.replayed.offset == at
    assert leaf.recorded.excerpt != leaf.replayed.excerpt


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_shared_ends_are_counted_as_byte_by_byte(head: bytes, middle: bytes, tail: bytes) -> None:
    one, other = head + middle + tail, head + tail
    plain = 0
    while plain < min(len(one), len(other)) and one[plain] == other[plain]:
        plain += 1
    assert common_prefix(one, other) == plain
    back = 0
    while back < min(len(one), len(other)) - plain and one[-1 - back] == other[-1 - back]:
        back += 1
    assert common_suffix(one, other, beyond=plain) == back


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_a_shared_tail_is_counted_whatever_stands_before_it(one: bytes, other: bytes, tail: bytes) -> None:
    assert common_suffix(one + b"1" + tail, other + b"2" + tail) == len(tail)
    assert common_suffix(tail, one + tail) == len(tail)
    assert common_suffix(b"", tail) == 0


def test_bytes_that_do_not_differ_have_no_difference() -> None:
    assert byte_difference(b"same", b"same") is None

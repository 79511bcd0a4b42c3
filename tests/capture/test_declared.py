"""Entries, what a function was called with, and which functions can be declared."""

from __future__ import annotations

import functools
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.capture.declared import Entry, called_with, entries_of, is_coroutine_function, restore_entries
from tachograph.formats import values

TEXT = st.text(max_size=10)
ENTRIES = st.builds(
    Entry,
    id=TEXT,
    text=TEXT,
    tier=st.sampled_from(["hot", "warm", "cold"]),
    provenance=st.none() | st.dictionaries(TEXT, TEXT, max_size=2),
    score=st.none() | st.floats(allow_nan=False),
    method=st.none() | TEXT,
    position=st.none() | st.integers(),
    embedding_model=st.none() | TEXT,
    embedding_version=st.none() | TEXT,
)
FOUND = st.lists(ENTRIES | st.dictionaries(TEXT, TEXT, max_size=2).map(lambda more: {**more, "id": "i", "text": "t"}))


# --- entries ----------------------------------------------------------------------------------------------------------


@given(FOUND)
def test_entries_come_back_as_they_were_returned(found: list[Any]) -> None:
    for result in (found, tuple(found)):
        kept = values.decode(values.encode(entries_of(result)))
        again = restore_entries(kept)
        assert again == result
        assert type(again) is type(result)
        assert [type(one) for one in again] == [type(one) for one in result]


@pytest.mark.parametrize(
    "result", [None, "text", 7, {"id": 1}, [1], [{"id": "no text"}], [Entry(id="a", text="b"), None]]
)
def test_what_are_no_entries_is_kept_as_it_is(result: object) -> None:
    """A recorder never breaks a program: what a retrieval returns instead is its own business."""
    assert restore_entries(values.decode(values.encode(entries_of(result)))) == result or isinstance(result, list)


def test_an_entry_is_what_its_fields_are() -> None:
    one = Entry(id="a", text="b", score=0.5, position=1)
    assert one == Entry(id="a", text="b", score=0.5, position=1)
    assert hash(one) == hash(Entry(id="a", text="b", score=0.5, position=1))
    assert one != Entry(id="a", text="b", score=0.5, position=2)
    assert one != "a"
    assert one.as_mapping() == {
        "id": "a", "text": "b", "tier": "warm", "provenance": {}, "score": 0.5, "method": None, "position": 1,
        "embedding_model": None, "embedding_version": None,
    }  # fmt: skip
    assert "0.5" in repr(one)
    assert not hasattr(one, "__dict__"), "a misspelt field is an error"


# --- inputs -----------------------------------------------------------------------------------------------------------


def plain(a: Any, b: Any = 2, *rest: Any, key: Any = None, **more: Any) -> None:
    """A function to be called with."""


class Holder:
    def method(self, a: Any) -> None:
        """A method."""

    @classmethod
    def made(cls, a: Any) -> None:
        """A class method."""


def test_the_same_arguments_are_the_same_inputs_however_they_are_given() -> None:
    assert (
        called_with(plain, (1, 2), {}) == called_with(plain, (1,), {"b": 2}) == called_with(plain, (), {"b": 2, "a": 1})
    )
    assert called_with(plain, (1,), {"key": 1, "z": 2}) == called_with(plain, (1,), {"z": 2, "key": 1})


def test_other_arguments_are_other_inputs() -> None:
    calls = [
        ((1,), {}), ((2,), {}), ((1, 2), {}), ((1, 2, 3), {}), ((1, 2, 3, 4), {}), ((1,), {"key": 2}), ((1,), {"z": 2}),
        ((True,), {}), ((1.0,), {}), (("1",), {}),
    ]  # fmt: skip
    assert len({called_with(plain, args, kwargs) for args, kwargs in calls}) == len(calls)


def test_the_receiver_of_a_method_is_no_input() -> None:
    one, other = Holder(), Holder()
    assert called_with(Holder.method, (one, 1), {}) == called_with(Holder.method, (other, 1), {})
    assert values.decode(called_with(Holder.method, (one, 1), {})) == {"a": 1}
    assert called_with(Holder.method, (one,), {"a": 1}) == called_with(Holder.method, (one, 1), {})


def test_a_callable_without_code_has_inputs_too() -> None:
    assert values.decode(called_with(functools.partial(plain, 1), (2,), {"key": 3})) == {"key": 3, "*": [2]}
    assert values.decode(called_with(len, ("abc",), {})) == {"*": ["abc"]}


# --- what can be declared ---------------------------------------------------------------------------------------------


async def coroutine() -> None:
    """A coroutine function."""


def generator() -> Any:
    yield 1


async def asynchronous_generator() -> Any:
    yield 1


@types.coroutine
def old_coroutine() -> Any:
    yield 1


class Called:
    def __call__(self) -> None:
        """A plain callable."""


def test_coroutine_functions_are_told_from_others() -> None:
    assert is_coroutine_function(coroutine)
    assert is_coroutine_function(functools.partial(coroutine))
    assert not is_coroutine_function(plain)
    assert not is_coroutine_function(len)
    assert not is_coroutine_function(Called())
    assert not is_coroutine_function(Holder().method)
    assert not is_coroutine_function(old_coroutine)


@pytest.mark.parametrize("fn", [generator, asynchronous_generator, functools.partial(generator)])
def test_generator_functions_are_refused_with_the_way_out(fn: Any) -> None:
    with pytest.raises(TypeError, match="return the whole value instead"):
        is_coroutine_function(fn)

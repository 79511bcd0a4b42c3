"""Ids say what they name and when they were minted, and sort by it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.model.identity import PREFIXES, is_id, mint, minted_at_ms, with_prefix

PREFIX = st.sampled_from(PREFIXES)
AT = st.integers(0, (1 << 48) - 1)
CHANCE = st.binary(min_size=10, max_size=10)
SHAPE = re.compile(r"(dec|run|rep|tri|fnd|grt|rt|stm)_[0-7][0-9A-HJKMNP-TV-Z]{25}")


@given(PREFIX, AT, CHANCE)
def test_an_id_is_its_prefix_and_a_ulid(prefix: str, at_ms: int, chance: bytes) -> None:
    made = mint(prefix, at_ms=at_ms, chance=chance)
    assert SHAPE.fullmatch(made)
    assert is_id(made)
    assert is_id(made, prefix)
    assert minted_at_ms(made) == at_ms


@given(AT, AT, CHANCE, CHANCE)
def test_ids_sort_by_the_time_at_which_they_were_minted(one: int, other: int, here: bytes, there: bytes) -> None:
    earlier, later = mint("run", at_ms=one, chance=here), mint("run", at_ms=other, chance=there)
    assert (earlier < later) == ((one, here) < (other, there))


@given(PREFIX, PREFIX, AT, CHANCE)
def test_another_prefix_keeps_the_ulid(prefix: str, other: str, at_ms: int, chance: bytes) -> None:
    made = mint(prefix, at_ms=at_ms, chance=chance)
    assert with_prefix(made, other) == mint(other, at_ms=at_ms, chance=chance)
    assert is_id(made, other) == (prefix == other)


def test_the_ulid_is_the_published_one() -> None:
    """The example of the ULID specification's time: 1469918176385 ms is 01ARYZ6S41."""
    assert mint("dec", at_ms=1469918176385, chance=b"\xff" * 10) == "dec_01ARYZ6S41ZZZZZZZZZZZZZZZZ"


@pytest.mark.parametrize(
    ("prefix", "at_ms", "chance", "said"),
    [
        ("cap", 1, bytes(10), "unknown id prefix"),
        ("dec", -1, bytes(10), "48 bits"),
        ("dec", 1 << 48, bytes(10), "48 bits"),
        ("dec", 1, bytes(9), "10 random bytes"),
        ("dec", 1, bytes(11), "10 random bytes"),
    ],
)
def test_what_makes_no_id_is_refused(prefix: str, at_ms: int, chance: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mint(prefix, at_ms=at_ms, chance=chance)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dec",
        "dec_",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "cap_01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "dec_01ARZ3NDEKTSV4RRFFQ69G5FA",
        "dec_01ARZ3NDEKTSV4RRFFQ69G5FAVV",
        "dec_81ARZ3NDEKTSV4RRFFQ69G5FAV",
        "dec_01arz3ndektsv4rrffq69g5fav",
        "dec_01ARZ3NDEKTSV4RRFFQ69G5FAI",
        "dec_01ARZ3NDEKTSV4RRFFQ69G5FA\n",
        "dec-01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ],
)
def test_what_is_no_id_is_known(text: str) -> None:
    assert not is_id(text)
    with pytest.raises(ValueError, match="not an id"):
        minted_at_ms(text)
    with pytest.raises(ValueError, match="cannot make"):
        with_prefix(text, "run")


def test_an_unknown_prefix_is_no_new_one() -> None:
    with pytest.raises(ValueError, match="cannot make"):
        with_prefix("dec_01ARZ3NDEKTSV4RRFFQ69G5FAV", "cap")

"""The envelope of a forced answer opens the same however it is cut, and gives pieces as soon as they are certain."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.testing.answers import CallArguments, CallOpened, Piece, Text
from tachograph.testing.envelope import Envelope
from tachograph.testing.strategies import json_values, texts


def opened(parts: list[str]) -> tuple[Envelope, list[Piece]]:
    envelope = Envelope()
    return envelope, [piece for part in parts for piece in envelope.more(part)]


def cut(text: str, places: list[int]) -> list[str]:
    borders = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(borders)]


PLACES = st.lists(st.integers(0, 1000), max_size=20)


@given(
    arguments=st.dictionaries(texts(max_parts=2), json_values(max_leaves=5), max_size=3),
    indent=st.sampled_from([None, 2]),
    escaped=st.booleans(),
    places=PLACES,
)
def test_a_call_opens_the_same_however_it_is_cut(
    arguments: dict[str, object], indent: int | None, escaped: bool, places: list[int]
) -> None:
    written = json.dumps({"tool": "refund", "args": arguments}, indent=indent, ensure_ascii=escaped)
    envelope, pieces = opened(cut(written, places))
    assert envelope.called
    assert pieces[0] == CallOpened("refund")
    assert json.loads("".join(piece.text for piece in pieces[1:] if isinstance(piece, CallArguments))) == arguments


@given(answer=texts(), escaped=st.booleans(), places=PLACES)
def test_an_answer_opens_the_same_however_it_is_cut(answer: str, escaped: bool, places: list[int]) -> None:
    written = json.dumps({"answer": answer}, ensure_ascii=escaped)
    envelope, pieces = opened(cut(written, places))
    assert not envelope.called
    assert "".join(piece.text for piece in pieces if isinstance(piece, Text)) == answer


def test_pieces_come_while_the_rest_is_still_missing() -> None:
    assert opened(['{"tool": "re'])[1] == []
    assert opened(['{"tool": "refund", "args": {"days": 1'])[1] == [CallOpened("refund"), CallArguments('{"days": 1')]
    assert opened(['{"answer": "It is \\u00e'])[1] == [Text("It is ")]


@pytest.mark.parametrize("text", ["", "{", '{"answer": "', "no JSON at all"])
def test_a_text_that_stops_early_gives_what_was_certain(text: str) -> None:
    assert opened([text])[1] == []

"""An answer whole and an answer in pieces say the same, and its usage adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.testing.answers import Answer, CallArguments, CallOpened, Finished, Text, Usage, call, pieces_of, whole
from tachograph.testing.model_request import Message, ModelRequest, ToolCall
from tachograph.testing.strategies import json_bodies, texts

ASKED = ModelRequest(model="m", messages=(Message(role="user", text="How are you?"),))


@given(said=texts(), arguments=st.lists(json_bodies(), max_size=2))
def test_pieces_joined_are_the_answer(said: str, arguments: list[bytes]) -> None:
    calls = tuple(ToolCall(name=f"t{n}", arguments=body.decode()) for n, body in enumerate(arguments))
    text, made, end = whole(pieces_of(ASKED, Answer(text=said, tool_calls=calls)))
    assert (text, made) == (said, calls)
    assert end.reason == ("tool_calls" if calls else "stop")


def test_pieces_pass_through_as_they_come() -> None:
    own = [
        Text("a"),
        CallOpened("b"),
        CallArguments("{}"),
        Finished(reason="length", usage=Usage(prompt=1, completion=2)),
    ]
    assert list(pieces_of(ASKED, iter(own))) == own


def test_words_and_signs_are_counted_where_a_brain_counts_nothing() -> None:
    _, _, end = whole(pieces_of(ASKED, Answer(text="Fine, thanks.")))
    assert (end.usage.prompt, end.usage.completion, end.usage.total) == (4, 4, 8)
    _, _, end = whole(pieces_of(ASKED, call("a", {"b": 1})))
    assert end.usage.completion > 0


def test_an_answer_without_an_end_is_a_fault_of_the_brain() -> None:
    with pytest.raises(ValueError, match="no end"):
        whole([Text("a")])

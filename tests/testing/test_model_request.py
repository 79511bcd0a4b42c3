"""A question is the same value whatever protocol it came in."""

from __future__ import annotations

import pytest

from tachograph.testing.model_request import Message, ModelRequest, Tool, ToolCall, Unanswerable, choose, text_of


def test_the_text_is_everything_in_order() -> None:
    request = ModelRequest(
        model="m",
        messages=(
            Message(role="system", text="be brief"),
            Message(role="user", text="hi"),
            Message(role="assistant", tool_calls=(ToolCall(name="a", arguments='{"b":1}'),)),
            Message(role="tool", text="done"),
        ),
    )
    assert request.text == 'be brief\nhi\n{"b":1}\ndone'
    assert (request.system, request.last.text) == ("be brief", "done")
    assert request.repeated(2).nth == 2


def test_parts_that_are_no_text_are_seen_and_not_read() -> None:
    assert text_of([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}, "b"]) == "a\n[image_url]\nb"
    assert text_of(None) == ""


@pytest.mark.parametrize("content", [3, [3], {"text": "a"}])
def test_content_of_another_kind_is_refused(content: object) -> None:
    with pytest.raises(Unanswerable):
        text_of(content)


def test_a_tool_that_is_named_must_be_offered() -> None:
    tools = (Tool(name="a"), Tool(name="b"))
    assert choose(tools, "b") == (tools[1],)
    with pytest.raises(Unanswerable, match="'c'"):
        choose(tools, "c")


def test_a_request_without_messages_has_no_last_one() -> None:
    with pytest.raises(Unanswerable, match="no message"):
        _ = ModelRequest(model="m", messages=()).last

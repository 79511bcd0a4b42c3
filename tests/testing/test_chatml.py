"""Prompts of the small model: what it is shown, and when its answer is forced into the envelope of a tool call."""

from __future__ import annotations

import dataclasses

import pytest

from tachograph.testing.chatml import prompt_of
from tachograph.testing.model_request import Message, ModelRequest, Tool, ToolCall, Unanswerable

TOOL = Tool(
    name="refund",
    description="Refund it.",
    parameters={
        "type": "object",
        "title": "Refund",
        "properties": {
            "days": {"type": "integer", "description": "how many", "title": "Days"},
            "title": {"type": "string"},
        },
        "required": ["days"],
    },
)
ASKED = ModelRequest(
    model="m",
    messages=(Message(role="system", text="Be brief."), Message(role="user", text="How long?")),
    tools=(TOOL,),
)


def test_a_conversation_is_chatml() -> None:
    prompt = prompt_of(dataclasses.replace(ASKED, tools=()))
    assert prompt.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHow long?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (prompt.schema, prompt.enveloped) == (None, False)


def test_tools_are_described_and_forced() -> None:
    prompt = prompt_of(dataclasses.replace(ASKED, tool_choice="required"))
    assert "- refund: Refund it. args=" in prompt.text
    assert prompt.enveloped
    assert prompt.schema is not None
    (forced,) = prompt.schema["anyOf"]
    assert forced["properties"]["tool"] == {"const": "refund"}
    assert forced["properties"]["args"]["additionalProperties"] is False


def test_annotations_go_and_properties_called_like_one_stay() -> None:
    prompt = prompt_of(dataclasses.replace(ASKED, tool_choice="required"))
    assert prompt.schema is not None
    arguments = prompt.schema["anyOf"][0]["properties"]["args"]
    assert "title" not in arguments
    assert arguments["properties"] == {
        "days": {"type": "integer", "description": "how many"},
        "title": {"type": "string"},
    }


def test_a_free_choice_may_also_answer() -> None:
    prompt = prompt_of(ASKED)
    assert prompt.schema is not None
    assert [list(schema["properties"]) for schema in prompt.schema["anyOf"]] == [["tool", "args"], ["answer"]]


def test_after_a_tool_result_plain_text_is_asked_for() -> None:
    calls = (ToolCall(name="refund", arguments='{"days": 14}'),)
    history = (
        *ASKED.messages,
        Message(role="assistant", text="I look.", tool_calls=calls),
        Message(role="tool", text="ok"),
    )
    prompt = prompt_of(dataclasses.replace(ASKED, messages=history))
    assert (prompt.schema, prompt.enveloped) == (None, False)
    assert prompt.text.endswith(
        '<|im_start|>assistant\nI look.\n{"tool": "refund", "args": {"days": 14}}<|im_end|>\n'
        "<|im_start|>user\nTool result: ok<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt_of(dataclasses.replace(ASKED, messages=history, tools=(TOOL, TOOL))).enveloped


def test_an_answer_schema_is_forced_without_an_envelope() -> None:
    prompt = prompt_of(dataclasses.replace(ASKED, tool_choice="none", answer_schema={"type": "object", "title": "A"}))
    assert (prompt.schema, prompt.enveloped) == ({"type": "object"}, False)
    assert "Tools:" not in prompt.text


def test_a_call_cannot_be_required_of_nothing() -> None:
    with pytest.raises(Unanswerable, match="no tool is offered"):
        prompt_of(dataclasses.replace(ASKED, tools=(), tool_choice="required"))

"""Anthropic messages, read and written as its protocol has them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tachograph.testing.answers import Answer
from tachograph.testing.endpoints.messages import read
from tachograph.testing.model_request import ToolCall, Unanswerable
from tachograph.testing.model_server import ModelServer
from tests.testing.endpoints.conversations import ANSWER, ASKED, SCHEMA, ended, events

BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Weather in Zürich?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Zürich"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sun"}]},
    ],
    "tools": [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "weather"},
    "temperature": 0.5,
    "top_p": 0.9,
    "stop_sequences": ["END"],
}


def test_a_conversation_is_read() -> None:
    assert read(BODY) == ASKED
    assert read({**BODY, "tool_choice": {"type": "any"}}) == ASKED


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", None),
        ("tool_choice", {"type": "perhaps"}),
        ("tool_choice", {"type": "tool", "name": "tide"}),
        ("messages", [{"role": "system", "content": "x"}]),
    ],
)
def test_what_cannot_be_served_is_refused(field: str, value: object) -> None:
    with pytest.raises(Unanswerable):
        read({**BODY, field: value})


def test_a_whole_answer() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        answer = httpx.post(f"{server.url}/v1/messages", json=BODY).json()
    text, first, second = answer["content"]
    assert text == {"type": "text", "text": ANSWER.text}
    assert [first["input"], second["input"]] == [{"city": "Bern"}, {"city": "Zürich"}]
    assert first["id"] != second["id"]
    assert answer["stop_reason"] == "tool_use"
    assert answer["usage"] == {"input_tokens": 11, "output_tokens": 7}


def test_a_streamed_answer_is_in_the_providers_order_and_keeps_parallel_calls_apart() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        stream = events(httpx.post(f"{server.url}/v1/messages", json={**BODY, "stream": True}).content)
    assert all(name == data["type"] for name, data in stream)
    kinds = [name for name, _ in stream]
    without_deltas = [kind for kind in kinds if kind != "content_block_delta"]
    block = ["content_block_start", "content_block_stop"]
    first_block = ["content_block_start", "ping", "content_block_stop"]
    assert without_deltas == ["message_start", *first_block, *block, *block, "message_delta", "message_stop"]
    arguments = {1: "", 2: ""}
    for _, data in stream:
        if data.get("delta", {}).get("type") == "input_json_delta":
            arguments[data["index"]] += data["delta"]["partial_json"]
    assert list(arguments.values()) == [call.arguments for call in ANSWER.tool_calls]
    starts = [data for name, data in stream if name == "content_block_start"]
    assert [start["index"] for start in starts] == [0, 1, 2]
    assert [start["content_block"].get("name") for start in starts] == [None, "weather", "weather"]
    assert stream[-2][1]["delta"]["stop_reason"] == "tool_use"
    assert stream[-2][1]["usage"] == {"input_tokens": 11, "output_tokens": 7}
    assert stream[0][1]["message"]["usage"]["input_tokens"] > 0


def test_arguments_that_a_length_cut_are_empty() -> None:
    made = ToolCall(name="weather", arguments='{"city": "Zü')
    with ModelServer(lambda _: Answer(tool_calls=(made,), reason="length")) as server:
        answer = httpx.post(f"{server.url}/v1/messages", json=BODY).json()
    assert (answer["stop_reason"], answer["content"][0]["input"]) == ("max_tokens", {})


def test_a_length_that_ran_out_is_said() -> None:
    with ModelServer(lambda _: ended("length")) as server:
        assert httpx.post(f"{server.url}/v1/messages", json=BODY).json()["stop_reason"] == "max_tokens"

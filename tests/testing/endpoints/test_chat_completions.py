"""Chat completions, read and written as openai's SDK has them."""

from __future__ import annotations

import httpx
import openai
import pytest

from tachograph.testing.answers import Answer, Brain
from tachograph.testing.endpoints.chat_completions import read
from tachograph.testing.model_request import Unanswerable
from tachograph.testing.model_server import ModelServer
from tests.testing.endpoints.conversations import ANSWER, ASKED, SCHEMA, TOOL, ended, events

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
FUNCTION = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
BODY = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather in Zürich?"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sun"},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "temperature": 0.5,
    "top_p": 0.9,
    "max_completion_tokens": 50,
    "stop": "END",
}


def server(answer: Answer) -> ModelServer:
    brain: Brain = lambda _: answer  # noqa: E731
    return ModelServer(brain)


def test_a_conversation_is_read() -> None:
    assert read(BODY) == ASKED


def test_an_answer_schema_is_read() -> None:
    format = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    assert read({**BODY, "response_format": format}).answer_schema == SCHEMA
    assert read({**BODY, "response_format": {"type": "json_object"}}).answer_schema == {"type": "object"}
    assert read({**BODY, "response_format": {"type": "text"}}).answer_schema is None


def test_a_tool_that_is_not_offered_cannot_be_chosen() -> None:
    with pytest.raises(Unanswerable, match="'tide'"):
        read({**BODY, "tool_choice": {"type": "function", "function": {"name": "tide"}}})
    with pytest.raises(Unanswerable, match="tool_choice"):
        read({**BODY, "tool_choice": "perhaps"})


def test_a_whole_answer_is_what_the_sdk_reads() -> None:
    with server(ANSWER) as running:
        client = openai.OpenAI(base_url=running.openai_url, api_key="none")
        answer = client.chat.completions.create(**BODY)
    message = answer.choices[0].message
    assert message.content == ANSWER.text
    calls = [call.function for call in message.tool_calls]
    assert [(call.name, call.arguments) for call in calls] == [(c.name, c.arguments) for c in ANSWER.tool_calls]
    assert len({call.id for call in message.tool_calls}) == 2
    assert answer.choices[0].finish_reason == "tool_calls"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (11, 7, 18)


def test_a_streamed_answer_adds_up_to_the_whole_one() -> None:
    with server(ANSWER) as running:
        client = openai.OpenAI(base_url=running.openai_url, api_key="none")
        with client.chat.completions.stream(**BODY, stream_options={"include_usage": True}) as stream:
            streamed = stream.get_final_completion()
    message = streamed.choices[0].message
    assert message.content == ANSWER.text
    assert [call.function.arguments for call in message.tool_calls] == [call.arguments for call in ANSWER.tool_calls]
    assert streamed.choices[0].finish_reason == "tool_calls"
    assert streamed.usage is not None
    assert streamed.usage.total_tokens == 18


def test_the_events_are_in_the_providers_order() -> None:
    with server(ANSWER) as running:
        url = f"{running.openai_url}/chat/completions"
        without = events(httpx.post(url, json={**BODY, "stream": True}).content)
        asked = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
        with_usage = events(httpx.post(url, json=asked).content)
    assert {name for name, _ in without} == {""}
    chunks = [data for _, data in without[:-1]]
    assert without[-1] == ("", "[DONE]")
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert not any("usage" in chunk for chunk in chunks)
    assert with_usage[-2][1]["choices"] == []
    assert with_usage[-2][1]["usage"]["total_tokens"] == 18
    indexes = [call["index"] for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert indexes == sorted(indexes)
    assert set(indexes) == {0, 1}


def test_a_length_that_ran_out_is_said() -> None:
    with server(ended("length")) as running:
        client = openai.OpenAI(base_url=running.openai_url, api_key="none")
        assert client.chat.completions.create(**BODY).choices[0].finish_reason == "length"


def test_the_tool_is_read_as_it_was_offered() -> None:
    assert read(BODY).tools == (TOOL,)

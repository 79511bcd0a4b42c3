"""Responses, read and written as openai's SDK has them."""

from __future__ import annotations

import openai
import pytest

from tachograph.testing.endpoints.responses import read
from tachograph.testing.model_request import Unanswerable
from tachograph.testing.model_server import ModelServer
from tests.testing.endpoints.conversations import ANSWER, ASKED, SCHEMA, ended

FUNCTION = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
BODY = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Weather in Zürich?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Zürich"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
    ],
    "tools": [{"type": "function", "strict": True, **FUNCTION}],
    "tool_choice": {"type": "function", "name": "weather"},
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 50,
}
MORE = {"stop": "END"}


def test_a_conversation_is_read() -> None:
    assert read({**BODY, **MORE}) == ASKED


def test_a_plain_input_is_one_question() -> None:
    (message,) = read({"model": "m", "input": "hi"}).messages
    assert (message.role, message.text) == ("user", "hi")


def test_an_answer_schema_is_read() -> None:
    format = {"type": "json_schema", "name": "a", "schema": SCHEMA}
    assert read({**BODY, "text": {"format": format}}).answer_schema == SCHEMA


@pytest.mark.parametrize(
    ("field", "value"),
    [("previous_response_id", "resp_1"), ("tool_choice", "perhaps"), ("input", [{"role": "king", "content": "x"}])],
)
def test_what_cannot_be_served_is_refused(field: str, value: object) -> None:
    with pytest.raises(Unanswerable):
        read({**BODY, field: value})


def test_a_whole_answer_is_what_the_sdk_reads() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        answer = openai.OpenAI(base_url=server.openai_url, api_key="none").responses.create(**BODY)
    assert answer.output_text == ANSWER.text
    assert [item.type for item in answer.output] == ["message", "function_call", "function_call"]
    assert [item.arguments for item in answer.output[1:]] == [call.arguments for call in ANSWER.tool_calls]
    assert answer.status == "completed"
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.total_tokens) == (11, 7, 18)


def test_a_streamed_answer_adds_up_to_the_whole_one_in_the_providers_order() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        whole = client.responses.create(**BODY)
        streamed = list(client.responses.create(**BODY, stream=True))
    kinds = [event.type.removeprefix("response.") for event in streamed]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    once = list(dict.fromkeys(kinds[4:]))
    assert once == [
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "completed",
    ]
    assert [event.sequence_number for event in streamed] == list(range(len(streamed)))
    assert "".join(event.delta for event in streamed if event.type == "response.output_text.delta") == ANSWER.text
    final = streamed[-1].response
    assert final.output_text == whole.output_text
    assert [item.type for item in final.output] == [item.type for item in whole.output]
    assert final.usage == whole.usage


def test_the_sdks_own_reader_of_streams_agrees() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        with client.responses.stream(model="m", input="hi") as stream:
            assert stream.get_final_response().output_text == ANSWER.text


def test_a_length_that_ran_out_is_said() -> None:
    with ModelServer(lambda _: ended("length")) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        answer = client.responses.create(**BODY)
        last = list(client.responses.create(**BODY, stream=True))[-1]
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert last.type == "response.incomplete"

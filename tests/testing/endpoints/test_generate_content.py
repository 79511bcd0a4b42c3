"""Gemini's generateContent, read and written as its protocol has it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tachograph.testing.answers import Answer
from tachograph.testing.endpoints.generate_content import read
from tachograph.testing.model_request import ToolCall, Unanswerable
from tachograph.testing.model_server import ModelServer
from tests.testing.endpoints.conversations import ANSWER, ASKED, SCHEMA, ended, events

CAPITALS = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
BODY: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Weather in Zürich?"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Zürich"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "call_1", "name": "weather", "response": "sun"}}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "weather", "description": "The weather.", "parameters": CAPITALS}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}},
    "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 50, "stopSequences": ["END"]},
}
WHOLE = "/v1beta/models/gemini:generateContent"
STREAM = "/v1beta/models/gemini:streamGenerateContent?alt=sse"


def test_a_conversation_is_read() -> None:
    messages = ASKED.messages
    found = read({**BODY, "model": "m"})
    assert found.messages[:3] == messages[:3]
    assert (found.messages[3].text, found.messages[3].answers) == ('"sun"', "call_1")
    assert (found.tools, found.tool_choice, found.sampling) == (ASKED.tools, ASKED.tool_choice, ASKED.sampling)


def test_an_answer_schema_is_read_in_either_form() -> None:
    assert read({**BODY, "generationConfig": {"responseSchema": CAPITALS}}).answer_schema == SCHEMA
    assert read({**BODY, "generationConfig": {"responseJsonSchema": SCHEMA}}).answer_schema == SCHEMA


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("toolConfig", {"functionCallingConfig": {"mode": "PERHAPS"}}),
        ("toolConfig", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["tide"]}}),
        ("contents", [{"role": "king", "parts": [{"text": "x"}]}]),
    ],
)
def test_what_cannot_be_served_is_refused(field: str, value: object) -> None:
    with pytest.raises(Unanswerable):
        read({**BODY, field: value})


def test_a_whole_answer() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        answer = httpx.post(server.url + WHOLE, json=BODY).json()
    (candidate,) = answer["candidates"]
    text, first, second = candidate["content"]["parts"]
    assert text == {"text": ANSWER.text}
    assert first["functionCall"] == {"name": "weather", "args": {"city": "Bern"}}
    assert second["functionCall"] == {"name": "weather", "args": {"city": "Zürich"}}
    assert (candidate["finishReason"], answer["modelVersion"]) == ("STOP", "gemini")
    assert answer["usageMetadata"] == {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}


def test_a_streamed_answer_adds_up_and_its_lines_end_in_crlf() -> None:
    with ModelServer(lambda _: ANSWER) as server:
        raw = httpx.post(server.url + STREAM, json=BODY).content
    assert raw.count(b"\n") == raw.count(b"\r\n")
    stream = [data for _, data in events(raw)]
    parts = [part for data in stream for part in data["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in parts) == ANSWER.text
    calls = [part["functionCall"]["args"]["city"] for part in parts if "functionCall" in part]
    assert calls == ["Bern", "Zürich"]
    assert ["finishReason" in data["candidates"][0] for data in stream] == [False] * (len(stream) - 1) + [True]
    assert stream[-1]["usageMetadata"]["totalTokenCount"] == 18


def test_arguments_that_a_length_cut_are_empty() -> None:
    made = ToolCall(name="weather", arguments='{"city": "Zü')
    with ModelServer(lambda _: Answer(tool_calls=(made,), reason="length")) as server:
        answer = httpx.post(server.url + WHOLE, json=BODY).json()
    assert answer["candidates"][0]["content"]["parts"] == [{"functionCall": {"name": "weather", "args": {}}}]


def test_a_length_that_ran_out_is_said() -> None:
    with ModelServer(lambda _: ended("length")) as server:
        answer = httpx.post(server.url + WHOLE, json=BODY).json()
    assert answer["candidates"][0]["finishReason"] == "MAX_TOKENS"

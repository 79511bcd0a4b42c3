"""Responses: the terminal event is believed, and without one the deltas are put together and nothing is invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.dialects import openai_responses as responses
from tachograph.dialects.reading import AnswerReading, Message, ProviderError, ToolCall
from tests.dialects.recordings import exchanges
from tests.dialects.test_openai_chat import JSON, SSE, _at, junk


def _read(body: bytes, status: int = 200, headers: Any = SSE) -> AnswerReading:
    return responses.read_answer(status, headers, [body])


def _stream(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


def _whole(*items: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"model": "g-1", "status": status, "output": list(items), **more}


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


CALL = {"type": "function_call", "call_id": "c1", "id": "f1", "name": "tide", "arguments": '{"id": 107505301260286111}'}
CREATED = {"type": "response.created", "response": {"model": "g-1", "status": "in_progress", "output": []}}

REQUEST = b"""{"model": "g", "instructions": "Be brief.", "temperature": 0.20, "reasoning": {"effort": "low"},
 "store": false, "tools": [{"type": "function", "name": "tide"}], "input": [
  {"role": "developer", "content": "Use tools."},
  {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "u"}]},
  {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
  {"type": "function_call", "call_id": "c1", "name": "tide", "arguments": "{}"},
  {"type": "function_call_output", "call_id": "c1", "output": "low"},
  {"type": "item_reference", "id": "i9"}]}"""


def test_a_request_is_read_with_the_pointer_of_each_text() -> None:
    reading = responses.read_request(REQUEST)
    assert (reading.model, reading.system_text, reading.developer_text) == ("g", "Be brief.", "Use tools.")
    assert reading.sampling == {"temperature": "0.20", "reasoning": '{"effort": "low"}'}
    assert reading.messages == (
        Message("system", "/instructions", "Be brief."),
        Message("developer", "/input/0/content", "Use tools."),
        Message("user", "/input/1/content/0/text", "hi", "input_text"),
        Message("user", "/input/1/content/1", None, "input_image"),
        Message(None, "/input/2/summary/0/text", "hm", "summary_text"),
        Message(None, "/input/3/arguments", "{}", "function_call", "c1", "tide"),
        Message(None, "/input/4/output", "low", "function_call_output", "c1"),
        Message(None, "/input/5", None, "item_reference"),
    )
    assert responses.read_request(b'{"input": "hi"}').messages == (Message("user", "/input", "hi"),)


def test_a_whole_answer_is_read() -> None:
    reasoning = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    }
    search = {"type": "web_search_call", "id": "w1", "status": "completed"}
    usage = {"input_tokens": 3, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 2}}
    reading = _read(json.dumps(_whole(reasoning, search, _message("hi"), CALL, usage=usage)).encode(), headers=JSON)
    assert (reading.final_text, reading.reasoning_text) == ("hi", "one\n\ntwo")
    assert reading.tool_calls == (ToolCall("c1", "tide", '{"id": 107505301260286111}'),)
    assert reading.provider_calls == (ToolCall("w1", "web_search_call", None),)
    assert (reading.stop_reason, reading.provider_stop, reading.reasoning_tokens) == ("tool_call", "completed", 2)


@pytest.mark.parametrize(
    ("more", "stop", "word"),
    [
        ({"status": "completed"}, "end_turn", "completed"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "max_tokens",
            "max_output_tokens",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "error", "content_filter"),
        ({"status": "incomplete"}, "incomplete", "incomplete"),
        ({"status": "cancelled"}, "incomplete", "cancelled"),
        ({"status": "failed", "error": {"code": "server_error", "message": "no"}}, "error", "failed"),
        ({"status": "queued"}, None, "queued"),
        ({"status": "in_progress"}, None, "in_progress"),
    ],
)
def test_a_status_is_mapped_and_kept(more: dict[str, Any], stop: str | None, word: str) -> None:
    reading = _read(json.dumps(_whole(_message("hi"), **more)).encode(), headers=JSON)
    assert (reading.stop_reason, reading.provider_stop) == (stop, word)
    if stop is None:
        assert reading.reasons["stop_reason"] == f"the response is {word!r}"


def test_a_stream_is_read_from_its_terminal_event() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hi"}
    done = {"type": "response.completed", "response": _whole(_message("hi"), CALL)}
    reading = _read(_stream(CREATED, delta, done))
    assert (reading.final_text, reading.stop_reason, reading.interrupted, reading.events) == (
        "hi",
        "tool_call",
        False,
        3,
    )
    failed = {"type": "response.failed", "response": _whole(status="failed", error={"code": "x", "message": "no"})}
    assert _read(_stream(CREATED, failed)).error == ProviderError(None, "no", "x")
    error = {"type": "error", "code": "rate", "message": "slow"}
    broken = _read(_stream(CREATED, delta, error))
    assert (broken.stop_reason, broken.final_text) == ("error", "hi")
    assert broken.error == ProviderError("error", "slow", "rate")


def test_r19_an_interrupted_stream_keeps_its_text_and_is_no_good_answer(shared: Path) -> None:
    reading = _read((shared / "cases" / "R19_interrupted_responses.sse").read_bytes())
    assert reading.final_text == "The harbour opens at"
    assert (reading.stop_reason, reading.interrupted, reading.last_event_unterminated) == ("incomplete", True, True)
    assert (reading.provider_stop, reading.usage, reading.events) == ("in_progress", None, 2)


def test_deltas_are_put_together_by_the_place_of_their_item() -> None:
    def arguments(index: int, text: str) -> dict[str, Any]:
        return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": text}

    def added(index: int, call: str, name: str) -> dict[str, Any]:
        item = {"type": "function_call", "call_id": call, "name": name, "arguments": "", "status": "in_progress"}
        return {"type": "response.output_item.added", "output_index": index, "item": item}

    summary = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm"}
    reading = _read(
        _stream(
            CREATED, summary, added(1, "a", "tide"), added(2, "b", "wind"), arguments(2, '{"p"'), arguments(1, "{}"),
            arguments(2, ": 1}"),
        )
    )  # fmt: skip
    assert reading.tool_calls == (ToolCall("a", "tide", "{}"), ToolCall("b", "wind", '{"p": 1}'))
    assert reading.reasoning_text == "hm"
    assert (reading.stop_reason, reading.model_name) == ("incomplete", "g-1")


def test_an_item_that_is_done_is_not_doubled_by_its_deltas() -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hi"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": {**_message("hi"), "status": "completed"}}
    reading = _read(_stream(CREATED, delta, done))
    assert (reading.final_text, reading.stop_reason) == ("hi", "incomplete")


def test_a_refusal_is_told_apart_from_the_text() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    reading = _read(json.dumps(_whole(item)).encode(), headers=JSON)
    assert (reading.refusal_text, reading.final_text) == ("No.", None)


def test_what_cannot_be_read_says_why() -> None:
    assert _read(b"[]", headers=JSON).reasons["final_text"] == "the answer is no JSON object"
    assert _read(b"", headers=JSON).reasons["final_text"] == "the answer has no body"
    assert _read(b"<html>", 502, [(b"content-type", b"text/html")]).error == ProviderError(None, None, "502")
    bare = _read(b"{}", headers=JSON)
    assert (bare.stop_reason, bare.provider_stop) == (None, None)
    assert bare.reasons == {
        "final_text": "the answer holds no text",
        "usage": "not stated",
        "stop_reason": "not stated",
    }
    failed = _read(json.dumps(_whole(status="failed", error=None)).encode(), headers=JSON)
    assert (failed.stop_reason, failed.error) == ("error", None)
    streamed = _read(b"data: {broken\n\n" + _stream(CREATED), 500)
    assert (streamed.stop_reason, streamed.error) == ("error", ProviderError(None, None, "500"))
    assert streamed.reasons["events"].startswith("event 0: ")


def test_deltas_of_every_kind_are_told_apart() -> None:
    def delta(kind: str, index: Any, text: str, **place: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **place}

    search = {"type": "response.output_item.added", "output_index": 3, "item": {"type": "web_search_call", "id": "w"}}
    reading = _read(
        _stream(
            CREATED, delta("reasoning_summary_text", 0, "one", summary_index=0), search,
            delta("reasoning_summary_text", 0, "two", summary_index=1), delta("refusal", 1, "No."),
            delta("output_text", 2, "Yes."), delta("output_text", "x", "lost"), delta("audio", 2, "lost"),
            delta("output_text", 2, "lost", content_index="y"),
            delta("custom_tool_call_input", 4, "free text"),
        )
    )  # fmt: skip
    assert (reading.reasoning_text, reading.refusal_text, reading.final_text) == ("one\n\ntwo", "No.", "Yes.")
    assert reading.tool_calls == (ToolCall(None, "custom_tool_call", "free text"),)
    assert reading.provider_calls == (ToolCall("w", "web_search_call", None),)
    reasoned = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}, {"type": "other"}]}
    shown = {"type": "image_generation_call", "id": "i", "content": [{"type": "output_text", "text": "not said"}]}
    whole = _read(json.dumps(_whole(reasoned, shown, _message("hi"))).encode(), headers=JSON)
    assert (whole.reasoning_text, whole.final_text) == ("hm", "hi")


@given(
    junk,
    st.sampled_from(
        ["response.completed", "response.output_item.added", "response.output_text.delta", "error", "response.x"]
    ),
)
def test_no_json_makes_the_reader_fail(value: Any, kind: str) -> None:
    body = json.dumps(value).encode()
    responses.read_request(body)
    _read(body, headers=JSON)
    event = json.dumps({"type": kind, "response": value, "item": value, "delta": value})
    _read(b"data: " + event.encode() + b"\n\ndata: " + body + b"\n\n")


def test_real_recordings_are_read(shared: Path) -> None:
    found = exchanges(shared, "openai.com/v1/responses")
    assert len(found) > 10
    for one in found:
        answer = responses.read_answer(one.status, one.answer_headers, [one.answer])
        assert not answer.interrupted, one.file
        if one.method == "POST":
            request, sent = responses.read_request(one.body), json.loads(one.body)
            assert request.model == sent["model"], one.file
            assert all(_at(sent, each.pointer) == each.text for each in request.messages if each.text is not None)
        if one.status != 200:
            assert answer.stop_reason == "error", one.file
        elif answer.provider_stop == "completed":
            assert answer.stop_reason in ("end_turn", "tool_call"), one.file
            assert answer.output_tokens, one.file
            assert answer.final_text or answer.tool_calls, one.file
        else:
            assert (answer.provider_stop, answer.stop_reason) in (("queued", None), ("in_progress", None)), one.file

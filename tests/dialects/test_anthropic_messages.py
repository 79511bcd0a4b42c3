"""Messages: blocks by their index, texts where they stand, and an end only where it was stated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.dialects import anthropic_messages as anthropic
from tachograph.dialects.reading import AnswerReading, Message, ProviderError, ToolCall
from tests.dialects.recordings import exchanges
from tests.dialects.test_openai_chat import JSON, SSE, _at, junk


def _read(body: bytes, status: int = 200, headers: Any = SSE) -> AnswerReading:
    return anthropic.read_answer(status, headers, [body])


def _stream(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


START = {"type": "message_start", "message": {"model": "c-1", "usage": {"input_tokens": 9, "output_tokens": 1}}}
TEXT = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
STOP = {"type": "message_stop"}


def _text(text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def _end(reason: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}


REQUEST = b"""{"model": "c", "max_tokens": 64, "temperature": 1.0, "top_k": 5, "thinking": {"type": "enabled"},
 "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
 "tools": [{"name": "tide"}], "stream": false,
 "messages": [
  {"role": "user", "content": "hi"},
  {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
    {"type": "text", "text": "so"},
    {"type": "tool_use", "id": "t1", "name": "tide", "input": {"id": 18446744073709551617, "x": 1.10}}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "low"},
    {"type": "image", "source": {}}]}, {"type": "tool_result", "tool_use_id": "t2", "content": "high"}]},
  {"role": "assistant", "content": [{"type": "compaction", "content": "Summary"}]}]}"""


def test_a_request_is_read_with_the_pointer_of_each_text() -> None:
    reading = anthropic.read_request(REQUEST)
    assert reading.system_text == "Be brief.\n\nBe kind."
    assert reading.reasons["system_text"] == "2 texts, joined by blank lines"
    assert reading.sampling == {
        "max_tokens": "64",
        "temperature": "1.0",
        "top_k": "5",
        "thinking": '{"type": "enabled"}',
    }
    assert (reading.tools_json, reading.stream) == ('[{"name": "tide"}]', False)
    arguments = '{"id": 18446744073709551617, "x": 1.10}'
    assert reading.messages == (
        Message("system", "/system/0/text", "Be brief."),
        Message("system", "/system/1/text", "Be kind."),
        Message("user", "/messages/0/content", "hi"),
        Message("assistant", "/messages/1/content/0/thinking", "hm", "thinking"),
        Message("assistant", "/messages/1/content/1/text", "so"),
        Message("assistant", "/messages/1/content/2/input", arguments, "tool_use", "t1", "tide"),
        Message("user", "/messages/2/content/0/content/0/text", "low", "tool_result", "t1"),
        Message("user", "/messages/2/content/0/content/1", None, "image", "t1"),
        Message("user", "/messages/2/content/1/content", "high", "tool_result", "t2"),
        Message("assistant", "/messages/3/content/0/content", "Summary", "compaction"),
    )


def test_a_system_text_may_be_one_string() -> None:
    reading = anthropic.read_request(b'{"system": "Be brief.", "messages": []}')
    assert reading.messages == (Message("system", "/system", "Be brief."),)
    assert reading.system_text == "Be brief."


def test_r17_parallel_tool_blocks_are_two_calls(shared: Path) -> None:
    reading = _read((shared / "cases" / "R17_parallel_tool_use.sse").read_bytes())
    assert reading.tool_calls == (
        ToolCall("tu_1", "tide", '{"port": "Dover", "day": 3}'),
        ToolCall("tu_2", "wind", '{"port": "Lyme"}'),
    )
    assert (reading.stop_reason, reading.provider_stop, reading.output_tokens) == ("tool_call", "tool_use", 31)
    assert (reading.events, reading.interrupted) == (11, False)


def test_a_whole_answer_is_read_and_the_arguments_keep_every_digit() -> None:
    body = b"""{"model": "c-1", "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4},
     "content": [
      {"type": "thinking", "thinking": "hm", "signature": "s"},
      {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
      {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1e2}},
      {"type": "tool_use", "id": "t1", "name": "tide", "input": {"id": 107505301260286111, "x": 1.10}}]}"""
    reading = _read(body, headers=JSON)
    assert (reading.final_text, reading.reasoning_text) == ("ab", "hm")
    assert reading.tool_calls == (ToolCall("t1", "tide", '{"id": 107505301260286111, "x": 1.10}'),)  # R16
    assert reading.provider_calls == (ToolCall("s1", "web_search", '{"q": 1e2}'),)
    assert (reading.stop_reason, reading.model_version) == ("tool_call", "c-1")
    assert (reading.input_tokens, reading.output_tokens) == (3, 4)


def test_a_streamed_call_without_deltas_has_the_input_it_began_with() -> None:
    block = {"type": "tool_use", "id": "t", "name": "now", "input": {}}
    started = {"type": "content_block_start", "index": 0, "content_block": block}
    reading = _read(_stream(START, started, _end("tool_use"), STOP))
    assert reading.tool_calls == (ToolCall("t", "now", "{}"),)


def test_counts_of_a_stream_are_running_totals() -> None:
    reading = _read(_stream(START, TEXT, _text("hi"), _end("end_turn"), STOP))
    assert reading.usage == {"input_tokens": 9, "output_tokens": 5}
    assert (reading.final_text, reading.stop_reason, reading.model_name) == ("hi", "end_turn", "c-1")


@pytest.mark.parametrize("events", [[START, TEXT, _text("so far")], [START, TEXT, _text("so far"), _end("end_turn")]])
def test_a_stream_without_message_stop_is_incomplete_whatever_it_said_before(events: list[dict[str, Any]]) -> None:
    reading = _read(_stream(*events))
    assert (reading.final_text, reading.stop_reason, reading.interrupted) == ("so far", "incomplete", True)
    assert reading.provider_stop == ("end_turn" if len(events) == 4 else None)
    unfinished = _read(_stream(*events, _end("end_turn"), STOP)[:-1])
    assert (unfinished.stop_reason, unfinished.last_event_unterminated) == ("incomplete", True)


@pytest.mark.parametrize(
    ("word", "stop"),
    [("end_turn", "end_turn"), ("stop_sequence", "end_turn"), ("max_tokens", "max_tokens"), ("refusal", "error"),
     ("pause_turn", "incomplete"), ("tool_use", "tool_call"), ("new_word", None)],
)  # fmt: skip
def test_the_providers_word_is_mapped_and_kept(word: str, stop: str | None) -> None:
    reading = _read(_stream(START, _end(word), STOP))
    assert (reading.stop_reason, reading.provider_stop) == (stop, word)
    assert ("stop_reason" in reading.reasons) == (stop is None)


def test_an_error_in_a_stream_or_body_is_an_error() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    streamed = _read(_stream(START, TEXT, _text("so"), error))
    assert (streamed.stop_reason, streamed.final_text, streamed.interrupted) == ("error", "so", False)
    assert streamed.error == ProviderError("overloaded_error", "Overloaded")
    whole = _read(json.dumps(error).encode(), 529, JSON)
    assert (whole.stop_reason, whole.error) == ("error", ProviderError("overloaded_error", "Overloaded"))


def test_what_cannot_be_read_says_why() -> None:
    assert _read(b"[]", headers=JSON).reasons["final_text"] == "the answer is no JSON object"
    assert _read(b"", headers=JSON).reasons["final_text"] == "the answer has no body"
    bare = _read(b"{}", headers=JSON)
    assert bare.reasons == {
        "final_text": "the answer holds no text",
        "usage": "not stated",
        "stop_reason": "not stated",
    }
    streamed = _read(b"data: {broken\n\n" + _stream(TEXT, _text("a")), 500)
    assert (streamed.stop_reason, streamed.error) == ("error", ProviderError(None, None, "500"))
    assert streamed.reasons["events"].startswith("event 0: ")
    stated = _read(_stream({"type": "error", "error": {"type": "t", "message": "m"}}), 500)
    assert stated.error == ProviderError("t", "m")
    nameless = _read(_stream({"type": "error"}))
    assert (nameless.stop_reason, nameless.error) == ("error", ProviderError(None, None))
    started = {"type": "content_block_start", "index": "x", "content_block": {"type": "text", "text": "no"}}
    assert (
        _read(_stream(START, started, {**_text("no"), "index": "x"}, {**_text("no"), "delta": 1}, STOP)).final_text
        is None
    )
    other = {"type": "ping", "message": {"model": "not this"}, "index": 0, "content_block": {}, "delta": {"text": "x"}}
    ignored = _read(_stream(START, TEXT, _text("a"), other, STOP))
    assert (ignored.model_name, ignored.final_text) == ("c-1", "a")


def test_r27_an_empty_signature_does_not_become_text() -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": ""}}
    begun = {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "", "signature": ""},
    }
    reading = _read(_stream(START, begun, delta))
    assert (reading.reasoning_text, reading.final_text, reading.stop_reason) == ("", None, "incomplete")


def test_a_block_whose_beginning_was_not_seen_is_read_from_its_deltas() -> None:
    reading = _read(_stream(_text("late"), STOP))
    assert reading.final_text == "late"


@given(junk, st.sampled_from(["message_start", "content_block_start", "content_block_delta", "message_delta", "error"]))
def test_no_json_makes_the_reader_fail(value: Any, kind: str) -> None:
    body = json.dumps(value).encode()
    anthropic.read_request(body)
    _read(body, headers=JSON)
    event = json.dumps(
        {"type": kind, "index": 0, "message": value, "delta": value, "content_block": value, "usage": value}
    )
    _read(b"data: " + event.encode() + b"\n\n")


def test_real_recordings_are_read(shared: Path) -> None:
    found = exchanges(shared, "anthropic.com/v1/messages")
    assert len(found) > 35
    for one in found:
        request, answer = (
            anthropic.read_request(one.body),
            anthropic.read_answer(one.status, one.answer_headers, [one.answer]),
        )
        sent = json.loads(one.body)
        assert request.model == sent["model"], one.file
        for each in request.messages:
            if each.text is not None:
                there = _at(sent, each.pointer)
                assert each.text == (there if isinstance(there, str) else json.dumps(there)), each.pointer
        assert not answer.interrupted, one.file
        if one.status != 200:
            assert answer.stop_reason == "error"
            continue
        assert answer.stop_reason in ("end_turn", "max_tokens", "tool_call"), one.file
        assert answer.input_tokens, one.file
        assert answer.output_tokens, one.file
        assert answer.final_text or answer.tool_calls or answer.provider_calls, one.file

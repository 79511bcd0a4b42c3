"""Chat completions: texts where they stand, calls kept apart, no digit lost, no stop invented."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.dialects import openai_chat as chat
from tachograph.dialects.reading import AnswerReading, Message, ProviderError, ToolCall
from tests.dialects.recordings import exchanges

JSON = [(b"Content-Type", b"application/json")]
SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]


def _stream(*chunks: dict[str, Any], done: bool = True) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + (
        b"data: [DONE]\n\n" if done else b""
    )


def _delta(finish: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {
        "model": "m-1",
        "system_fingerprint": "fp_9",
        "choices": [{"index": index, "delta": delta, "finish_reason": finish}],
    }


def _read(body: bytes, status: int = 200, headers: Any = SSE) -> AnswerReading:
    return chat.read_answer(status, headers, [body])


# --- requests ---------------------------------------------------------------------------------------------------------

REQUEST = b"""{"model": "m", "temperature": 0.70, "seed": 18446744073709551617, "num_ctx": 2048, "stream": true,
 "stream_options": {"include_usage": true}, "tools": [ {"type":"function","function":{"name":"tide"}} ],
 "messages": [
  {"role": "system", "content": "Be brief."},
  {"role": "developer", "content": [{"type": "text", "text": "Use tools."}]},
  {"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi"},
    {"type": "image_url", "image_url": {"url": "u"}}]},
  {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
    {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{\\"day\\": 1.10}"}}]},
  {"role": "tool", "tool_call_id": "c1", "content": "low"}]}"""


def test_a_request_is_read_with_the_pointer_of_each_text() -> None:
    reading = chat.read_request(REQUEST)
    assert (reading.model, reading.system_text, reading.developer_text) == ("m", "Be brief.", "Use tools.")
    assert reading.stream
    assert reading.tools_json == '[ {"type":"function","function":{"name":"tide"}} ]'
    assert reading.sampling == {"temperature": "0.70", "seed": "18446744073709551617", "num_ctx": "2048"}
    assert reading.messages == (
        Message("system", "/messages/0/content", "Be brief."),
        Message("developer", "/messages/1/content/0/text", "Use tools."),
        Message("user", "/messages/2/content/0/text", "hi", name="ann"),
        Message("user", "/messages/2/content/1", None, "image_url", name="ann"),
        Message("assistant", "/messages/3/reasoning_content", "hm", "reasoning_content"),
        Message("assistant", "/messages/3/tool_calls/0/function/arguments", '{"day": 1.10}', "tool_call", "c1", "tide"),
        Message("tool", "/messages/4/content", "low", "text", "c1"),
    )
    assert reading.reasons == {}


def _at(document: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"model":"a","model":"b"}', b"nothing"])
def test_a_request_that_cannot_be_read_says_why_for_each_field(body: bytes) -> None:
    reading = chat.read_request(body)
    assert (reading.model, reading.messages, reading.sampling, reading.tools_json) == (None, (), {}, None)
    assert set(reading.reasons) == {"model", "system_text", "developer_text", "messages", "tools_json", "sampling"}
    assert (reading.reasons["model"] == "the request is no JSON object") == (body == b"[]")


def test_what_was_not_sent_is_none_with_a_reason() -> None:
    reading = chat.read_request(b'{"messages": [{"role":"system","content":"a"},{"role":"system","content":"b"}]}')
    assert reading.system_text == "a\n\nb"
    assert reading.reasons == {
        "model": "not sent",
        "tools_json": "not sent",
        "system_text": "2 texts, joined by blank lines",
        "developer_text": "not sent",
    }


def test_r23_an_unknown_parameter_is_kept(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R23_parameter_in_identity.json").read_bytes())
    assert chat.read_request(json.dumps(case["recorded"]).encode()).sampling == {"num_ctx": "2048"}


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_whole_answer_is_read() -> None:
    body = b"""{"model": "m-1", "system_fingerprint": "fp_9", "choices": [
      {"index": 1, "message": {"content": "other"}, "finish_reason": "length"},
      {"index": 0, "message": {"content": "hi", "reasoning_content": "hm", "tool_calls": [
        {"id": "c1", "function": {"name": "tide", "arguments": "{\\"id\\": 107505301260286111}"}}]},
       "finish_reason": "tool_calls"}],
      "usage": {"prompt_tokens": 9007199254740993, "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 1}}}"""
    reading = _read(body, headers=JSON)
    assert (reading.final_text, reading.reasoning_text, reading.other_texts) == ("hi", "hm", ("other",))
    assert reading.tool_calls == (ToolCall("c1", "tide", '{"id": 107505301260286111}'),)  # R16
    assert (reading.stop_reason, reading.provider_stop) == ("tool_call", "tool_calls")
    assert (reading.input_tokens, reading.output_tokens, reading.reasoning_tokens) == (9007199254740993, 2, 1)
    assert reading.model_version == "m-1 fp_9"
    assert (reading.interrupted, reading.events, reading.error) == (False, 0, None)


def test_parallel_calls_of_a_stream_are_kept_apart() -> None:
    def call(index: int, ident: str | None, name: str | None, arguments: str) -> dict[str, Any]:
        return _delta(tool_calls=[{"index": index, "id": ident, "function": {"name": name, "arguments": arguments}}])

    reading = _read(
        _stream(
            call(0, "a", "tide", ""),
            call(1, "b", "wind", '{"port"'),
            call(0, None, None, '{"day": 3}'),
            call(1, None, None, ': "Lyme"}'),
            _delta("tool_calls"),
        )
    )
    assert reading.tool_calls == (ToolCall("a", "tide", '{"day": 3}'), ToolCall("b", "wind", '{"port": "Lyme"}'))
    assert reading.stop_reason == "tool_call"
    assert reading.final_text is None
    assert reading.reasons["final_text"] == "the answer holds no text"


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    def call(ident: str | None, arguments: str) -> dict[str, Any]:
        return _delta(tool_calls=[{"id": ident, "function": {"name": "t", "arguments": arguments}}])

    reading = _read(_stream(call("a", "1"), call("b", "2"), call("a", "3"), call(None, "4"), _delta("tool_calls")))
    assert reading.tool_calls == (ToolCall("a", "t", "13"), ToolCall("b", "t", "24"))


def test_a_first_call_without_index_or_id_and_a_call_in_the_old_manner_are_read() -> None:
    bare = _read(_stream(_delta(tool_calls=[{"function": {"name": "t", "arguments": "1"}}]), _delta("tool_calls")))
    assert bare.tool_calls == (ToolCall(None, "t", "1"),)
    old = _delta(function_call={"name": "tide", "arguments": "{"}), _delta(function_call={"arguments": "}"})
    assert _read(_stream(*old, _delta("function_call"))).tool_calls == (ToolCall(None, "tide", "{}"),)
    asked = b'{"messages": [{"role": "assistant", "function_call": {"name": "tide", "arguments": "{}"}}]}'
    assert chat.read_request(asked).messages == (
        Message("assistant", "/messages/0/function_call/arguments", "{}", "tool_call", None, "tide"),
    )


def test_other_choices_do_not_run_into_the_first() -> None:
    call = [{"index": 0, "id": "x", "function": {"name": "other", "arguments": "{}"}}]
    reading = _read(
        _stream(
            _delta(index=1, tool_calls=call, refusal="no", reasoning="hm"),
            _delta("stop", 1),
            _delta(content="a"),
            _delta("stop"),
        )
    )
    assert (reading.tool_calls, reading.refusal_text, reading.reasoning_text) == ((), None, None)
    assert reading.final_text == "a"
    odd = {"choices": [{"index": "x", "delta": {"content": "b"}}]}
    assert _read(_stream(odd, _delta(content="a"), _delta("stop"))).other_texts == ()


def test_an_event_that_cannot_be_read_is_named() -> None:
    reading = _read(b"data: {broken\n\n" + _stream([], _delta(content="a"), _delta("stop")))  # type: ignore[arg-type]
    assert reading.final_text == "a"
    assert reading.reasons["events"].startswith("event 0: Expecting")
    assert reading.reasons["events"].endswith("event 1: no object")


def test_a_stream_under_an_error_status_is_an_error() -> None:
    reading = _read(_stream(_delta(content="a")), 500)
    assert (reading.stop_reason, reading.error) == ("error", ProviderError(None, None, "500"))
    stated = _read(b'data: {"error": {"type": "t", "message": "m"}}\n\n', 500)
    assert stated.error == ProviderError("t", "m")


def test_a_stream_that_is_cut_keeps_its_text_and_invents_no_stop() -> None:
    whole = _stream(
        _delta(role="assistant", content=""), _delta(content="The harbour"), _delta(content=" opens"), done=False
    )
    reading = _read(whole)
    assert (reading.final_text, reading.stop_reason, reading.provider_stop) == ("The harbour opens", "incomplete", None)
    assert (reading.interrupted, reading.events, reading.last_event_unterminated) == (True, 3, False)
    assert reading.usage is None
    assert reading.reasons["usage"] == "not stated"  # unknown, not zero
    cut = _read(whole[:-40])
    assert (cut.final_text, cut.events, cut.last_event_unterminated) == ("The harbour", 3, True)
    assert _read(whole[:-1]).final_text == "The harbour opens"  # the event is whole, only its blank line is missing


def test_done_or_a_finish_reason_ends_a_stream() -> None:
    stated = _read(_stream(_delta(content="x"), _delta("stop"), done=False))
    assert (stated.stop_reason, stated.interrupted) == ("end_turn", False)
    done = _read(_stream(_delta(content="x")))
    assert (done.stop_reason, done.interrupted, done.reasons["stop_reason"]) == (None, False, "not stated")
    half = _read(_stream(_delta(content="x"), done=False) + b"data: [DONE]")
    assert (half.interrupted, half.last_event_unterminated) == (True, True)


@pytest.mark.parametrize(
    ("word", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "error"), ("function_call", "tool_call")],
)
def test_the_providers_word_is_mapped_and_kept(word: str, stop: str) -> None:
    reading = _read(_stream(_delta(word)))
    assert (reading.stop_reason, reading.provider_stop) == (stop, word)


def test_an_unknown_word_is_no_stop_reason() -> None:
    reading = _read(_stream(_delta("eos_found")))
    assert (reading.stop_reason, reading.provider_stop) == (None, "eos_found")
    assert reading.reasons["stop_reason"] == "unknown word 'eos_found'"


def test_errors_are_errors_in_a_body_and_in_a_stream() -> None:
    body = b'{"error": {"message": "slow down", "type": "rate_limit", "code": 429}}'
    assert _read(body, 429, JSON).error == ProviderError("rate_limit", "slow down", "429")
    assert _read(body, 429, JSON).stop_reason == "error"
    streamed = _read(_stream(_delta(content="so"), done=False) + b"data: " + body + b"\n\n")
    assert (streamed.stop_reason, streamed.final_text, streamed.interrupted) == ("error", "so", False)
    html = _read(b"<html>bad gateway</html>", 502, [(b"content-type", b"text/html")])
    assert (html.stop_reason, html.error) == ("error", ProviderError(None, None, "502"))


def test_a_refusal_is_told_apart_from_the_text() -> None:
    reading = _read(_stream(_delta(refusal="I can"), _delta(refusal="not."), _delta("stop")))
    assert (reading.final_text, reading.refusal_text) == (None, "I cannot.")


def test_a_body_that_was_cut_or_never_came_is_no_good_answer() -> None:
    body = b'{"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]}'
    cut = _read(body[:-9], headers=[*JSON, (b"content-length", str(len(body)).encode())])
    assert (cut.stop_reason, cut.interrupted, cut.final_text) == ("incomplete", True, None)
    assert _read(body[:-9], headers=JSON).stop_reason is None
    assert _read(b"").reasons["final_text"] == "the answer has no body"
    unzipped = _read(body, headers=[*JSON, (b"content-encoding", b"gzip")])
    assert unzipped.reasons["final_text"] == "said to be gzip, and is not"
    assert _read(gzip.compress(body), headers=[*JSON, (b"content-encoding", b"gzip")]).final_text == "hi"


def test_r20_and_r21_texts_come_out_exactly(shared: Path) -> None:
    separators = _read((shared / "cases" / "R20_line_separators.sse").read_bytes())
    assert (separators.final_text, separators.stop_reason) == ("one\u2028two\u0085three\u2029four", "end_turn")
    case = json.loads((shared / "cases" / "R21_split_utf8.json").read_bytes())
    chunks = [base64.b64decode(chunk) for chunk in case["response"]["chunks_base64"]]
    assert chat.read_answer(200, SSE, chunks).final_text == case["expected_text"]


@given(st.binary(max_size=300), st.sampled_from([JSON, SSE, []]), st.sampled_from([200, 400]))
def test_no_bytes_make_the_reader_fail(body: bytes, headers: Any, status: int) -> None:
    chat.read_request(body)
    _read(body, status, headers)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "delta", "content", "tool_calls", "function", "index", "id", "usage", "error",
             "text", "type", "messages", "arguments", "function_call", "finish_reason", "role", "response", "output",
             "item", "content_block", "system", "input", "summary", "stop_reason", "output_index", "incomplete_details"]
        ),
        inner,
    ),
    max_leaves=20,
)  # fmt: skip


@given(junk)
def test_no_json_makes_the_reader_fail(value: Any) -> None:
    body = json.dumps(value).encode()
    chat.read_request(body)
    _read(body, headers=JSON)
    _read(b"data: " + body + b"\n\n")


# --- real recordings --------------------------------------------------------------------------------------------------


def test_real_recordings_are_read(shared: Path) -> None:
    found = exchanges(shared, "/chat/completions")
    assert len(found) > 15
    for one in found:
        request, answer = chat.read_request(one.body), chat.read_answer(one.status, one.answer_headers, [one.answer])
        sent = json.loads(one.body)
        assert request.model == sent["model"], one.file
        assert [_at(sent, each.pointer) for each in request.messages if each.text is not None] == [
            each.text for each in request.messages if each.text is not None
        ]
        assert not answer.interrupted, one.file
        if one.status == 200 and "invalid_response" not in one.file:
            assert answer.stop_reason in ("end_turn", "tool_call"), one.file
            assert answer.final_text or answer.tool_calls, one.file
            assert answer.model_version, one.file
        elif one.status != 200:
            assert answer.stop_reason == "error", one.file
            assert answer.error is not None, one.file


def test_a_real_stream_gives_each_choice_its_text(shared: Path) -> None:
    (one,) = [each for each in exchanges(shared, "/chat/completions") if "multiple_choices_streaming" in each.file]
    answer = chat.read_answer(one.status, one.answer_headers, [one.answer])
    texts: dict[int, str] = {}
    for line in one.answer.decode().splitlines():
        for choice in json.loads(line[6:])["choices"] if line.startswith("data: {") else []:
            texts[choice["index"]] = texts.get(choice["index"], "") + (choice["delta"].get("content") or "")
    assert len(texts) > 1
    assert (answer.final_text, *answer.other_texts) == tuple(texts[index] for index in sorted(texts))


def test_r18_a_real_stream_left_after_two_events_is_incomplete(shared: Path) -> None:
    (one,) = [each for each in exchanges(shared, "/chat/completions") if "streaming_not_complete" in each.file]
    first_two = b"\n\n".join(one.answer.split(b"\n\n")[:2]) + b"\n\n"
    answer = chat.read_answer(one.status, one.answer_headers, [first_two])
    assert (answer.events, answer.stop_reason, answer.interrupted, answer.usage) == (2, "incomplete", True, None)

"""Requests: the recorded call, the same call in other words, or another one, and where it differs first."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison.leaves import ABSENT, Leaf
from tachograph.comparison.requests import Request, compare_requests, nearest, prepare
from tachograph.formats.credentials import redact_headers, redact_url

URL = "https://api.example.test/v1/chat/completions"
JSON = (b"Content-Type", b"application/json")


def _call(body: Any = None, *, url: str = URL, method: str = "POST", kind: str = "http", more: Any = ()) -> Request:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(kind, method, url, (JSON, *more), sent)


def _chat(*texts: str, system: str = "Be brief.") -> dict[str, Any]:
    messages = [{"role": "system", "content": system}]
    messages += [
        {"role": "user" if index % 2 == 0 else "assistant", "content": text} for index, text in enumerate(texts)
    ]
    return {"model": "m", "messages": messages, "temperature": 0}


def test_a_call_is_itself() -> None:
    call = _call(_chat("hello"))
    assert compare_requests(call, call) == ("exact", (), None)
    assert compare_requests(prepare(call), prepare(call)).level == "exact"


@pytest.mark.parametrize(
    ("changed", "leaf"),
    [
        (_call({"a": 1}, kind="spawn"), Leaf("/kind", "http", "spawn")),
        (_call({"a": 1}, method="PUT"), Leaf("/method", "POST", "PUT")),
        (_call({"a": 1}, url=URL.replace("https", "http")), Leaf("/url/scheme", "https", "http")),
        (_call({"a": 1}, url=URL.replace("api", "eu")), Leaf("/url/host", "api.example.test", "eu.example.test")),
        (_call({"a": 1}, url=URL + "/x"), Leaf("/url/path", "/v1/chat/completions", "/v1/chat/completions/x")),
        (_call({"a": 1}, url=URL + "?api-version=2"), Leaf("/url/query/api-version", ABSENT, "2")),
        (_call({"a": 1}, more=[(b"anthropic-version", b"2")]), Leaf("/headers/anthropic-version", ABSENT, "2")),
        (_call({"a": 2}), Leaf("/body/a", 1, 2)),
    ],
)
def test_each_part_of_a_call_decides_and_is_named(changed: Request, leaf: Leaf) -> None:
    call = _call({"a": 1})
    assert compare_requests(call, changed) == ("different", (), leaf)
    assert compare_requests(changed, call) == ("different", (), Leaf(leaf.path, leaf.replayed, leaf.recorded))


def test_an_edited_system_prompt_is_the_first_difference_with_both_texts() -> None:
    verdict = compare_requests(_call(_chat("q")), _call(_chat("q", system="Be kind.")))
    assert verdict.first == Leaf("/body/messages/0/content", "Be brief.", "Be kind.")


@pytest.mark.parametrize(
    ("one", "other", "level"),
    [
        ("a=1&b=2", "b=2&a=1", "meaning"), ("a=%7E", "a=~", "meaning"), ("a=x+y", "a=x%20y", "meaning"),
        ("a=1&a=2", "a=2&a=1", "different"), ("a=1", "a=01", "different"), ("a=%2F", "a=%252F", "different"),
    ],
)  # fmt: skip
def test_a_query_is_compared_by_its_values(one: str, other: str, level: str) -> None:
    verdict = compare_requests(_call({}, url=f"{URL}?{one}"), _call({}, url=f"{URL}?{other}"))
    assert verdict.level == level
    assert bool(verdict.notes) == (level == "meaning")


def test_r07_a_redacted_recording_matches_the_live_call_whatever_its_key() -> None:
    def call(url_key: str, header: bytes) -> Request:
        return _call({"q": 1}, url=f"https://u:pw1@h.test/v1?api_key={url_key}&q=2", more=[(b"X-Api-Key", header)])

    live, other = call("Secret9", b"sk-one1"), call("rotated-and-longer", b"sk-another-2")
    recorded = live._replace(url=redact_url(live.url)[0], headers=redact_headers(live.headers)[0])
    assert "Secret9" not in recorded.url
    for asked in (live, other, recorded):
        assert compare_requests(recorded, asked) == ("exact", (), None)
    assert compare_requests(recorded, live._replace(url=live.url.replace("q=2", "q=3"))).level == "different"


def test_r23_a_parameter_that_only_one_provider_knows_still_decides(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R23_parameter_in_identity.json").read_bytes())
    verdict = compare_requests(_call(case["recorded"]), _call(case["live"]))
    assert verdict == ("different", (), Leaf("/body/num_ctx", 2048, 8192))


def test_a_compressed_body_is_compared_by_what_it_holds() -> None:
    def call(body: bytes, coding: bytes = b"gzip") -> Request:
        return _call(body, more=[(b"Content-Encoding", coding)])

    plain = b'{"a": 1}'
    one, other = call(gzip.compress(plain, mtime=1)), call(gzip.compress(plain, mtime=2))
    assert compare_requests(one, other) == ("meaning", ("same body, compressed differently",), None)
    changed = call(gzip.compress(b'{"a": 2}', mtime=2))
    assert compare_requests(one, changed).first == Leaf("/body/a", 1, 2)
    assert compare_requests(call(plain), call(plain + b" ")).level == "meaning"  # not gzip at all: JSON as sent
    assert compare_requests(call(one.body[:-3]), call(other.body[:-3])).level == "different"
    assert compare_requests(call(one.body + b"junk"), call(other.body + b"jink")).level == "different"
    assert compare_requests(one, call(one.body, b"br")).first == Leaf("/headers/content-encoding", "gzip", "br")


def test_the_content_type_says_how_a_body_is_read() -> None:
    text = Request("http", "POST", URL, ((b"content-type", b"text/plain"),), b'{"a": 1}')
    assert compare_requests(text, text._replace(body=b'{"a":1}')).level == "different"


def test_a_call_without_a_content_type_or_a_host_is_compared_all_the_same() -> None:
    bare = Request("http", "POST", "/v1/x", (), b"plain")
    assert compare_requests(bare, bare._replace(body=b"plaid")).level == "different"
    assert compare_requests(bare, bare._replace(url="/v1/y")).first == Leaf("/url/path", "/v1/x", "/v1/y")


requests = st.builds(
    Request,
    st.sampled_from(["http", "spawn"]),
    st.sampled_from(["GET", "POST"]),
    st.sampled_from([URL, URL + "?a=1", URL + "?a=2&key=abcdefghijklmnop1234"]),
    st.lists(st.sampled_from([JSON, (b"accept", b"1"), (b"accept", b"2"), (b"cookie", b"c")]), max_size=3),
    st.sampled_from([b"{}", b'{"a":1}', b'{"a": 1}', b'{"a":1.0}', b"", b"\xff"]),
)


@given(requests, requests)
def test_comparing_is_symmetric_and_a_difference_is_always_named(one: Request, other: Request) -> None:
    there, back = compare_requests(one, other), compare_requests(other, one)
    assert there.level == back.level
    assert there.notes == back.notes
    assert (there.first is not None) == (there.level == "different")
    assert there.level != "meaning" or there.notes
    assert compare_requests(one, one).level == "exact"


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_flipped_bit_anywhere_in_a_body_is_never_exact(body: bytes, data: st.DataObject) -> None:
    other = bytearray(body)
    other[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert compare_requests(_call(body), _call(bytes(other))).level != "exact"


# --- nearest ----------------------------------------------------------------------------------------------------------


TURNS = [_call(_chat(*[f"question or answer number {number}" for number in range(turn)])) for turn in (1, 3, 5)]


def test_nothing_is_nearest_of_nothing() -> None:
    assert nearest(TURNS[0], []) is None


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_an_edited_prompt_finds_the_recording_of_its_own_turn(turn: int) -> None:
    body = json.loads(TURNS[turn].body)
    body["messages"][0]["content"] = "Refund everybody."
    found = nearest(_call(body), TURNS)
    assert found == (turn, Leaf("/body/messages/0/content", "Be brief.", "Refund everybody."))


@pytest.mark.parametrize("turn", [1, 2])
def test_an_edited_last_message_finds_the_recording_of_its_own_turn(turn: int) -> None:
    body = json.loads(TURNS[turn].body)
    body["messages"][-1]["content"] = "another question number 9"
    found = nearest(_call(body), TURNS)
    assert found is not None
    assert found.position == turn
    assert found.first is not None
    assert found.first.path == f"/body/messages/{len(body['messages']) - 1}/content"


def test_the_same_endpoint_goes_before_a_longer_agreement() -> None:
    body = _chat("the very same body")
    candidates = [_call(body, url="https://other.test/v1/embeddings"), _call(_chat("unlike"))]
    found = nearest(_call(body), candidates)
    assert found is not None
    assert found.position == 1
    assert nearest(_call(body), candidates[:1]) is not None


def test_the_earliest_of_equals_is_nearest_and_a_used_up_recording_differs_nowhere() -> None:
    assert nearest(TURNS[1], [TURNS[1], TURNS[1]]) == (0, None)


def test_a_changed_header_is_the_difference_from_the_recording_with_the_same_body() -> None:
    found = nearest(TURNS[1]._replace(headers=(JSON, (b"anthropic-version", b"2"))), TURNS)
    assert found == (1, Leaf("/headers/anthropic-version", ABSENT, "2"))

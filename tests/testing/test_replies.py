"""Behaviours say what goes on the wire, and refuse what could not be meant."""

from __future__ import annotations

import gzip

import pytest

from tachograph.errors import UsageError
from tachograph.testing.replies import Reply, encoded, json_reply, plain, redirect, stream, too_many_requests


def test_text_is_utf_8_and_headers_come_from_a_mapping_or_from_pairs() -> None:
    assert plain("é", headers={"a": "1"}) == plain("é".encode(), headers=[("a", "1")])


def test_json_is_compact_and_in_the_order_of_its_keys() -> None:
    assert json_reply({"b": 1, "a": "é"}).chunks == ('{"b":1,"a":"é"}'.encode(),)


def test_an_encoded_body_names_its_coding() -> None:
    reply = encoded(b"abc", coding="gzip", headers={"x": "y"})
    assert reply.headers == (("x", "y"), ("content-encoding", "gzip"))
    assert isinstance(reply.chunks, tuple)
    assert gzip.decompress(reply.chunks[0]) == b"abc"  # type: ignore[arg-type]


def test_the_usual_refusals_of_a_provider() -> None:
    assert too_many_requests(retry_after="3").headers[-1] == ("retry-after", "3")
    assert redirect("/b").status == 307


def test_a_length_needs_a_body_that_is_known() -> None:
    with pytest.raises(UsageError, match="tuple"):
        Reply(chunks=iter([b"a"]))
    assert stream(iter([b"a"]), framing="content_length").chunks == (b"a",)


def test_a_cut_needs_a_way_to_end() -> None:
    with pytest.raises(UsageError, match="ending"):
        stream([b"abc"], cut_after=1)

"""Scripts as JSON mean what they say, and a misspelt one is refused with its place."""

from __future__ import annotations

import json
import re

import pytest

from tachograph.errors import UsageError
from tachograph.testing.replies import Hangup, Raw, Reply, Silence, encoded, json_reply, plain
from tachograph.testing.script_file import read_script


def test_each_kind_of_step_can_be_written() -> None:
    steps = [
        {"body": "é", "status": 201, "headers": [["a", "1"], ["a", "2"]]},
        {"json": {"b": 1}},
        {"body_base64": "AP8=", "coding": "gzip"},
        {"chunks": ["a", 0.5, {"base64": "/w=="}], "ending": "reset", "cut_after": 1, "borders": "reads"},
        {"kind": "raw", "chunks": ["x"], "ending": "reset"},
        {"kind": "silence"},
        {"kind": "hangup", "ending": "reset"},
    ]
    script, then = read_script(json.dumps(steps))
    assert then is None
    assert script == [
        plain("é", status=201, headers=[("a", "1"), ("a", "2")]),
        json_reply({"b": 1}),
        encoded(b"\x00\xff", coding="gzip"),
        Reply(chunks=(b"a", 0.5, b"\xff"), framing="chunked", ending="reset", cut_after=1, borders="reads"),
        Raw(chunks=(b"x",), ending="reset"),
        Silence(),
        Hangup(ending="reset"),
    ]


def test_what_follows_the_script_can_be_named() -> None:
    assert read_script('{"script": [], "then": {"kind": "silence"}}') == ([], Silence())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no JSON"),
        ("3", "no list"),
        ("[3]", "step 1 is no object"),
        ('[{}, {"endding": "reset"}]', "step 2: unknown endding"),
        ('[{"chunks": [], "ending": "rest"}]', "ending cannot be 'rest'; it is one of complete, reset"),
        ('[{"kind": "sulk"}]', "no such kind"),
        ('[{"kind": "silence", "body": ""}]', "unknown body; known are none"),
        ('[{"body": "", "json": 1}]', "more than one body"),
        ('[{"body_base64": "!"}]', "not base64"),
        ('[{"chunks": [true]}]', "a chunk is"),
        ('[{"headers": [["a"]]}]', "headers are pairs"),
        ('{"then": {}, "scrip": []}', "unknown scrip"),
    ],
)
def test_a_script_that_cannot_be_meant_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        read_script(text)

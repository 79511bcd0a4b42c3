"""Bodies: same bytes, same meaning with every liberty named, or different and where."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.comparison import bodies
from tachograph.comparison.bodies import (
    BOUNDARY_ONLY,
    REWRITTEN_FORM,
    REWRITTEN_JSON,
    Body,
    compare_bodies,
    compare_read,
)
from tachograph.comparison.leaves import ABSENT, Leaf, Span
from tests.comparison.test_leaves import json_values

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


def _json(one: bytes, other: bytes) -> bodies.BodyVerdict:
    return compare_bodies(JSON, one, JSON, other)


@given(json_values)
def test_json_that_is_only_written_differently_means_the_same_and_says_so(value: Any) -> None:
    one = json.dumps(value).encode()
    other = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode()
    verdict = _json(one, other)
    assert verdict == (bodies.SAME_BYTES if one == other else ("meaning", (REWRITTEN_JSON,), None))


@given(
    st.sampled_from([JSON, FORM, "text/plain", None, "multipart/form-data; boundary=b"]),
    st.binary(min_size=1),
    st.data(),
)
def test_one_flipped_bit_is_never_the_same_bytes(kind: str | None, body: bytes, data: st.DataObject) -> None:
    other = bytearray(body)
    other[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert compare_bodies(kind, body, kind, bytes(body)).level == "bytes"
    there, back = compare_bodies(kind, body, kind, bytes(other)), compare_bodies(kind, bytes(other), kind, body)
    assert there.level == back.level != "bytes"
    assert (there.first is None) == (there.level == "meaning")
    assert there.level == "different" or there.notes


def test_one_flipped_bit_inside_json_text_or_numbers_is_a_named_leaf() -> None:
    body = b'{"model":"m","messages":[{"content":"refund me"}],"n":21}'
    for at in (body.index(b"refund"), body.index(b"21")):
        other = bytearray(body)
        other[at] ^= 1
        verdict = _json(body, bytes(other))
        assert verdict.first is not None
        assert verdict.first.path == ("/n" if at == body.index(b"21") else "/messages/0/content")


@pytest.mark.parametrize(
    "other", [b'{"n":1.0}', b'{"n":1.50}', b'{"n":true}', b'{"n":"1"}', b'{"n":1,"n":1}', b'{"n":1,"x":null}', b"{}"]
)
def test_another_value_is_never_the_same_meaning(other: bytes) -> None:
    assert _json(b'{"n":1}', other).level == "different"
    assert _json(other, b'{"n":1}').level == "different"


def test_json_that_is_not_plain_is_compared_as_bytes_and_says_why() -> None:
    verdict = _json(b'{"a":1, "a":1}', b'{"a":1,"a":1}')
    assert verdict.level == "different"
    assert verdict.notes == ("compared as bytes: key 'a' twice in one object",)
    assert verdict.first == Leaf("", Span(7, 14, b'{"a":1, "a":1}'), Span(7, 13, b'{"a":1,"a":1}'))


def _mcp(trace: str | None, **more: Any) -> bytes:
    meta = {"_meta": {"traceparent": trace, **more}} if trace else {}
    return json.dumps({"method": "tools/call", "params": {"name": "tide", **meta}}).encode()


def test_trace_context_in_the_body_is_ignored_and_the_note_names_it() -> None:
    ignored = ("meaning", ("ignored: /params/_meta/traceparent",), None)
    assert _json(_mcp("00-aa"), _mcp("00-bb")) == ignored
    assert _json(_mcp("00-aa"), _mcp(None)) == ignored
    assert _json(_mcp(None), _mcp("00-bb")) == ignored


def test_what_stands_beside_the_ignored_place_still_decides() -> None:
    verdict = _json(_mcp("00-aa", progressToken=1), _mcp("00-bb", progressToken=2))
    assert verdict.first == Leaf("/params/_meta/progressToken", 1, 2)
    assert _json(_mcp("00-aa", progressToken=1), _mcp(None)).level == "different"
    assert _json(b'{"params": {"_meta": {"traceparent": "a"}}}', b"{}").first == Leaf("/params", {}, ABSENT)
    text = b'{"params": "_meta traceparent", "a": %d}'
    assert _json(text % 1, text % 2).first == Leaf("/a", 1, 2)
    outside = _json(b'{"traceparent": "a"}', b'{"traceparent": "b"}')
    assert outside.first == Leaf("/traceparent", "a", "b")


def test_a_recorded_body_is_read_once() -> None:
    recorded = Body(JSON, b'{"a": 1}')
    tree = recorded.read()
    assert compare_read(recorded, Body(JSON, b'{"a":1}')).level == "meaning"
    assert recorded.read() is tree
    broken = Body(JSON, b"{")
    for _ in range(2):
        with pytest.raises(bodies.NotPlainJson):
            broken.read()


def test_without_a_content_type_only_what_begins_like_json_is_read_as_json() -> None:
    assert compare_bodies(None, b'{"a": 1}', None, b'{"a":1}').level == "meaning"
    assert compare_bodies(None, b'"a" ', None, b'"a"').level == "different"
    assert compare_bodies("text/plain", b'{"a": 1}', "text/plain", b'{"a":1}').level == "different"
    assert compare_bodies("application/vnd.x+json; v=1", b"[1 ]", "APPLICATION/JSON", b"[1]").level == "meaning"
    assert compare_bodies(JSON, b"[1 ]", "text/plain", b"[1]").level == "different"


# --- forms ------------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_a_form_written_differently_means_the_same(fields: dict[str, str]) -> None:
    one = urlencode(fields).encode()
    other = urlencode(list(reversed(fields.items())), safe="/").replace("+", "%20").encode()
    verdict = compare_bodies(FORM, one, FORM, other)
    assert verdict == (bodies.SAME_BYTES if one == other else ("meaning", (REWRITTEN_FORM,), None))


def test_a_changed_field_of_a_form_is_named() -> None:
    assert compare_bodies(FORM, b"a=1&b=2&b=3", FORM, b"a=1&b=2&b=4").first == Leaf("/b/1", "3", "4")
    assert compare_bodies(FORM, b"a=1&b=2", FORM, b"b=2&a=7").first == Leaf("/a", "1", "7")
    assert compare_bodies(FORM, b"a=1", FORM, b"a=1&c=").first == Leaf("/c", ABSENT, "")
    assert compare_bodies(FORM, b"a=%zz", FORM, b"a=%25zz").level == "meaning"
    assert compare_bodies(FORM, b"a=%4", FORM, b"a=%04").level == "different"
    assert compare_bodies(FORM, b"a=%", FORM, b"a=%25").level == "meaning"
    assert compare_bodies(FORM, b"a=%ff", FORM, b"a=%fe").level == "different"
    assert compare_bodies(FORM, b"a=1&a=2", FORM, b"a=2&a=1").level == "different"


# --- multipart --------------------------------------------------------------------------------------------------------


def _multipart(boundary: str, *parts: tuple[str, bytes]) -> tuple[str, bytes]:
    body = b"".join(f"--{boundary}\r\n{head}\r\n\r\n".encode() + data + b"\r\n" for head, data in parts)
    return f"multipart/form-data; boundary={boundary}", body + f"--{boundary}--\r\n".encode()


PURPOSE = ('Content-Disposition: form-data; name="purpose"', b"assistants")
FILE = ('Content-Disposition: form-data; name="file"; filename="n.txt"', b"tide\r\n--table")
DATA = ('Content-Disposition: form-data; name="data"\r\nContent-Type: application/json', b'{"a": 1}')


def _two(one: tuple[str, bytes], other: tuple[str, bytes]) -> bodies.BodyVerdict:
    return compare_bodies(*one, *other)


def test_r05_the_boundary_alone_makes_no_difference(shared: Path) -> None:
    case = json.loads((shared / "cases" / "R05_multipart.json").read_bytes())
    sent = {one["id"]: (one["headers"][0][1], base64.b64decode(one["body_base64"])) for one in case["requests"]}
    assert _two(sent["recorded"], sent["same-parts"]) == ("meaning", (BOUNDARY_ONLY,), None)
    verdict = _two(sent["recorded"], sent["other-part"])
    assert verdict.level == "different"
    assert verdict.first is not None
    assert verdict.first.path == "/file"


def test_a_boundary_is_found_among_other_parameters_and_in_quotes() -> None:
    _, body = _multipart("x", PURPOSE)
    other = _multipart("y", PURPOSE)
    for said in ('multipart/form-data; charset=utf-8; boundary="x"', "multipart/form-data;Boundary=x;a=b"):
        assert compare_bodies(said, body, *other).notes == (BOUNDARY_ONLY,)
    verdict = compare_bodies("multipart/form-data; boundary=", body, *other)
    assert verdict.notes == ("compared as bytes: multipart without a boundary",)


def test_parts_are_compared_by_their_own_meaning_and_notes_say_which() -> None:
    rewritten = (DATA[0], b'{"a":1}')
    verdict = _two(_multipart("x", PURPOSE, DATA), _multipart("y", PURPOSE, rewritten))
    assert verdict == ("meaning", (f"part /data: {REWRITTEN_JSON}", "boundary"), None)
    changed = _two(_multipart("x", PURPOSE, DATA), _multipart("y", PURPOSE, (DATA[0], b'{"a":2}')))
    assert changed.first == Leaf("/data/a", 1, 2)


def test_a_missing_added_or_renamed_part_is_named() -> None:
    whole, less = _multipart("x", PURPOSE, FILE), _multipart("y", PURPOSE)
    assert _two(whole, less).first == Leaf("/file", FILE[0] + " (13 bytes)", ABSENT)
    assert _two(less, whole).first == Leaf("/file", ABSENT, FILE[0] + " (13 bytes)")
    renamed = (FILE[0].replace("n.txt", "m.txt"), FILE[1])
    first = _two(whole, _multipart("x", PURPOSE, renamed)).first
    assert first == Leaf("/file/headers/0", FILE[0], renamed[0])


def test_parts_of_one_name_are_counted() -> None:
    first = _two(_multipart("x", FILE, FILE), _multipart("y", FILE, (FILE[0], b"other"))).first
    assert first is not None
    assert first.path == "/1"
    nameless = ("Content-Type: text/plain", b"a")
    first = _two(_multipart("x", FILE, nameless), _multipart("y", FILE, (nameless[0], b"b"))).first
    assert first is not None
    assert first.path == "/1"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda kind, body: (kind, body[:-4]),
        lambda kind, body: (kind, b"preamble\r\n" + body),
        lambda kind, body: (kind, body + b"epilogue"),
        lambda kind, body: ("multipart/form-data", body),
        lambda kind, body: (kind, body.replace(b"\r\n\r\n", b"\n\n")),
        lambda kind, body: (kind, body.replace(b"--x\r\n", b"--xtra\r\n", 1)),
    ],
)
def test_multipart_that_is_framed_otherwise_is_compared_as_bytes(spoil: Any) -> None:
    one = _multipart("x", PURPOSE)
    verdict = _two(spoil(*one), spoil(*_multipart("y", PURPOSE)))
    assert verdict.level == "different"
    assert verdict.notes[0].startswith("compared as bytes: multipart")


def test_r09_binary_is_compared_as_bytes() -> None:
    one, other = bytes.fromhex("c700ff3dbb260a80"), bytes.fromhex("c700ff3dbb260a81")
    kind = "application/octet-stream"
    assert compare_bodies(kind, one, kind, one).level == "bytes"
    assert compare_bodies(kind, one, kind, other).first == Leaf("", Span(7, 8, one), Span(7, 8, other))


def test_r08_only_the_bytes_say_how_json_was_written(shared: Path) -> None:
    body = (shared / "cases" / "R08_key_order.json").read_bytes()
    again = json.dumps(json.loads(body)).encode()
    assert _json(body, body).level == "bytes"
    assert _json(body, again).first == Leaf("/mid", bodies.read_json(b"[2.50]")[0], 2.5)  # 2.50 is not 2.5

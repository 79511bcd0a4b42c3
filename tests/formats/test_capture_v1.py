"""The document taken apart and put together: what is signed, what is committed, and that every change is found."""

from __future__ import annotations

import json
from copy import deepcopy
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.canonical import digest
from tachograph.formats import capture_v1 as cv
from tachograph.formats.capture_check import examine
from tachograph.formats.capture_places import PLACES

SECRET = bytes(range(32))
REQUEST = b'{"n": 1.10}'
HEAD = sha256(b"a head").digest()


def document() -> tuple[dict[str, Any], dict[str, bytes], dict[str, bytes]]:
    """A small document with every kind of item."""
    made: dict[str, Any] = {
        "version": "replay/v1", "decisionId": "dec_1", "agentId": "billing", "captureLevel": "full",
        "subjects": ["ann"],
        "input": {"originUserId": "ann", "requestPayload": digest(REQUEST), "requestPayloadHash": digest(REQUEST),
                  "hashOf": "bytes"},
        "agentConfiguration": {
            "systemPromptText": "Be kind.", "systemPromptHash": digest(b"Be kind."), "modelIdentifier": "small",
            "samplingParameters": {"temperature": 0.5, "stop": ["END"], "stream": True},
        },
        "memoryState": {"workingSetEntries": [{"entryId": "e1", "tier": "hot", "renderedContent": "old",
                        "renderedContentHash": digest(b"old"), "contextPosition": 0}],
                        "contextSetHash": "sha256:" + HEAD.hex(), "retrievals": []},
        "executionTrace": {"toolCalls": [{"sequence": 0, "toolName": "refund", "input": {"amount": 3}, "output": False,
                           "inputHash": digest(b'{"amount":3}'), "outputHash": digest(b"false"), "errorRef": None}],
                           "stopReason": "end_turn", "outcome": {"exitCode": 0}},
        "evidenceStates": {"/runtime": {"state": "unavailable", "reason": "not_seen"},
                           "/source": {"state": "absent", "reason": "Nobody said so."}},
        "replayPolicy": {"retentionDays": 365},
    }  # fmt: skip
    return made, {"/input/requestPayload": REQUEST}, {"/memoryState/contextSetHash": HEAD}


def sealed(parts: tuple[dict[str, Any], dict[str, bytes], dict[str, bytes]] | None = None) -> Any:
    """Divide and commit; returns payload, document as it is given away, salts and blobs by digest."""
    divided = cv.divide(*(parts or document()))
    committed = cv.commitments(divided.items, SECRET)
    signed = cv.payload(divided.skeleton, committed)
    items = {item.pointer: item for item in divided.items}
    salts = {pointer: cv.salt_of(SECRET, pointer) for pointer in items}
    blobs = {item.digest[7:]: item.data for item in divided.items if item.kind == cv.BLOB}
    return json.loads(signed), cv.fill(divided.skeleton, items), salts, blobs


def test_the_skeleton_holds_names_and_numbers_and_everything_else_is_an_item() -> None:
    divided = cv.divide(*document())
    text = json.dumps(divided.skeleton)
    for content in ("ann", "Be kind", "old", "END", 'refund": {', "Nobody", digest(b"false")[7:20]):
        assert content not in text
    assert divided.skeleton["agentConfiguration"]["samplingParameters"] == {"temperature": 0.5, "stream": True}
    assert {item.pointer: item.kind for item in divided.items} == {
        "/subjects": "json", "/input/originUserId": "text", "/input/requestPayload": "blob",
        "/agentConfiguration/systemPromptText": "text", "/agentConfiguration/samplingParameters/stop": "json",
        "/memoryState/workingSetEntries/0/entryId": "text", "/memoryState/workingSetEntries/0/renderedContent": "text",
        "/memoryState/contextSetHash": "tree", "/executionTrace/toolCalls/0/input": "json",
        "/executionTrace/toolCalls/0/output": "json", "/evidenceStates/~1source/reason": "text",
    }  # fmt: skip


def test_a_commitment_is_the_one_line_that_the_contract_gives() -> None:
    item = cv.Item("/input/originUserId", "text", b"ann")
    salt = cv.salt_of(SECRET, item.pointer)
    line = f"tachograph-commit-v1 text /input/originUserId {salt} sha256:{sha256(b'ann').hexdigest()}"
    assert len(salt) == 32
    assert cv.commitment(item, salt) == "text sha256:" + sha256(line.encode()).hexdigest()


def test_what_was_sealed_comes_back_whole_and_opens() -> None:
    signed, given_away, salts, blobs = sealed()
    assert given_away == document()[0]
    examined = examine(signed, given_away, salts=salts, blobs=blobs)
    assert examined.faults == []
    assert set(examined.states.values()) == {"intact"}
    assert len(examined.states) == 11


def test_content_that_is_left_out_is_missing_and_no_fault_by_itself() -> None:
    signed, given_away, salts, _ = sealed()
    del given_away["agentConfiguration"]["systemPromptText"], given_away["agentConfiguration"]["systemPromptHash"]
    del given_away["memoryState"]["contextSetHash"]
    examined = examine(signed, given_away, salts=salts, blobs={})
    assert examined.faults == []
    missing = {pointer for pointer, state in examined.states.items() if state == "missing"}
    assert missing == {
        "/agentConfiguration/systemPromptText", "/memoryState/contextSetHash", "/input/requestPayload"
    }  # fmt: skip


def change(path: str, value: Any) -> Any:
    """An edit of a document at slashed names; `...` removes."""

    def edit(given_away: dict[str, Any]) -> None:
        names = path.split("/")
        holder: Any = given_away
        for name in names[:-1]:
            holder = holder[int(name)] if isinstance(holder, list) else holder[name]
        if value is ...:
            del holder[names[-1]]
        else:
            holder[names[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (change("agentConfiguration/systemPromptText", "Be cruel."), "/agentConfiguration/systemPromptText"),
        (change("agentConfiguration/systemPromptHash", digest(b"x")), "/agentConfiguration/systemPromptHash"),
        (change("agentConfiguration/modelIdentifier", "big"), "/agentConfiguration/modelIdentifier"),
        (change("agentConfiguration/samplingParameters/temperature", 0.6), "/samplingParameters/temperature"),
        (change("agentConfiguration/samplingParameters/stream", 1), "/samplingParameters/stream"),
        (change("agentConfiguration/samplingParameters/seed", "x"), "/agentConfiguration/samplingParameters/seed"),
        (change("executionTrace/toolCalls/0/output", "false"), "/executionTrace/toolCalls/0/output"),
        (change("executionTrace/toolCalls/0/errorRef", ...), "/executionTrace/toolCalls/0/errorRef"),
        (change("input/requestPayload", {"n": 1.1}), "/input/requestPayload"),
        (change("input/hashOf", "sha256 of something else"), "/input/hashOf"),
        (change("memoryState/contextSetHash", "sha256:" + "0" * 64), "/memoryState/contextSetHash"),
        (change("memoryState/workingSetEntries/0/extra", 1), "/memoryState/workingSetEntries/0/extra"),
        (change("added", {"anything": 1}), "/added"),
        (change("evidenceStates/x", {"state": "value"}), "/evidenceStates/x"),
        (change("input/requestPayloadHash", digest(b"other")), "/input/requestPayloadHash"),
    ],
)
def test_every_change_is_found_and_named(edit: Any, place: str) -> None:
    signed, given_away, salts, blobs = sealed()
    edit(given_away)
    faults = examine(signed, given_away, salts=salts, blobs=blobs).faults
    assert any(fault.startswith(place) or place in fault for fault in faults), faults


def test_salts_are_checked_for_their_form_and_for_their_place() -> None:
    signed, given_away, salts, blobs = sealed()
    for wrong in (None, salts["/subjects"] + "0", salts["/subjects"][:31], salts["/subjects"].upper(), 5, "0" * 32):
        examined = examine(signed, given_away, salts={**salts, "/subjects": wrong}, blobs=blobs)
        assert examined.states["/subjects"] == "mismatch"
        assert [fault.partition(":")[0] for fault in examined.faults] == ["/subjects"]
    more = examine(signed, given_away, salts={**salts, "/nowhere": "0" * 32}, blobs=blobs)
    assert more.faults == ["/nowhere: a salt without a commitment"]


def test_a_blob_is_no_text_of_its_digest_and_bytes_do_not_slide_between_salt_and_value() -> None:
    signed, given_away, salts, blobs = sealed()
    swapped = deepcopy(signed)
    swapped["commitments"]["/input/requestPayload"] = swapped["commitments"]["/input/requestPayload"].replace(
        "blob", "text", 1
    )
    examined = examine(swapped, given_away, salts=salts, blobs=blobs)
    assert examined.states["/input/requestPayload"] == "mismatch"
    slid = {**salts, "/subjects": salts["/subjects"] + "["}
    assert examine(signed, given_away, salts=slid, blobs=blobs).states["/subjects"] == "mismatch"


HOSTILE = [
    2**64 + 1, -0.0, float("nan"), float("inf"), 1e300, "\ud800", "\u2028", "x" * 2000, {"größe": 1}, {"": 2},
    {"a" * 65: 1, "x-0": 2}, [[[[[[[[[[1]]]]]]]]]], None, b"bytes", {1: 2},
]  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("number", range(len(HOSTILE) + 1))
@pytest.mark.parametrize("place", ["agentId", "unknown", "input/requestPayload", "runtime/entryPoint", "sealing"])
def test_no_value_makes_a_document_unsealable(number: int, place: str) -> None:
    value = HOSTILE[number] if number < len(HOSTILE) else deep(2000)
    made: dict[str, Any] = {"version": "replay/v1", "input": {}, "runtime": {}}
    change(place, value)(made)
    signed, given_away, salts, blobs = sealed((made, {}, {}))
    examined = examine(signed, given_away, salts=salts, blobs=blobs)
    assert examined.faults == []
    if "/agentId" in signed["commitments"]:
        assert signed["evidenceStates"]["/agentId"]["reason"] == "invalid"


def test_odd_keys_stand_under_a_number_that_no_other_key_has() -> None:
    made = {"input": {"größe": 1, "x-0": 2, "with space": 3}}
    signed, given_away, salts, blobs = sealed((made, {}, {}))
    assert set(signed["commitments"]) == {"/input/x-0", "/input/x-1", "/input/x-2"}
    assert given_away["input"] == {"x-0": 2, "x-1": {"größe": 1}, "x-2": {"with space": 3}} or given_away["input"] == {
        "x-0": 2, "x-1": {"with space": 3}, "x-2": {"größe": 1}
    }  # fmt: skip
    assert examine(signed, given_away, salts=salts, blobs=blobs).faults == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*PLACES, "other", "ö"]), JSON, max_size=6))
def test_any_document_is_sealed_and_opens(made: dict[str, Any]) -> None:
    signed, given_away, salts, blobs = sealed((made, {}, {}))
    examined = examine(signed, given_away, salts=salts, blobs=blobs)
    assert examined.faults == []
    assert set(examined.states.values()) <= {"intact"}

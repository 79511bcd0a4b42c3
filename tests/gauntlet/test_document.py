"""The signed document of real agents: every group is filled from what was observed, and every check holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer
from tests.gauntlet.answers import completion
from tests.gauntlet.harness import record, tacho


def anthropic_answer(request: Request) -> Reply:
    """One message of a model, unstreamed."""
    said = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "small-1",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 21, "output_tokens": 3},
    }  # fmt: skip
    return Reply(headers=[("content-type", "application/json")], chunks=(json.dumps(said).encode(),))


def openai_answer(request: Request) -> Reply:
    """The same of another provider."""
    return completion("Done.", number=request.number)


def empty_places(document: dict[str, Any], at: str = "") -> list[str]:
    """Null members: there must be none but `errorRef` (contract, evidenceStates)."""
    found: list[str] = []
    for name, member in document.items():
        if member is None and name != "errorRef":
            found.append(f"{at}/{name}")
        if isinstance(member, dict) and name != "commitments":
            found += empty_places(member, f"{at}/{name}")
    return found


@pytest.mark.parametrize(("library", "answer"), [("openai", openai_answer), ("anthropic", anthropic_answer)])
def test_a_real_agent_fills_every_group_and_every_check_holds(tmp_path: Path, library: str, answer: Any) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "documents.py", library=library, url=server.url)
    assert recorded.exit_code == 0
    shown = tacho(recorded.world, "show", "last", "--document")
    document = json.loads(shown.stdout)
    assert document["agentId"] == "billing"
    assert document["subjects"] == ["ann"]
    assert document["input"]["requestPayload"] == {"order": 7}
    configuration = document["agentConfiguration"]
    assert configuration["systemPromptText"] == "Be kind. Refunds after 30 days are refused."
    assert (configuration["systemPromptVersion"], configuration["toolSchemaVersion"]) == ("p3", "v1")
    assert configuration["samplingParameters"]["temperature"] == 0.25
    (entry,) = document["memoryState"]["workingSetEntries"]
    assert (entry["entryId"], entry["tier"], entry["contextPosition"], entry["retrievalMethod"]) == (
        "p1",
        "warm",
        0,
        "bm25",
    )
    assert entry["provenance"]["writerId"] == "ops"
    (retrieval,) = document["memoryState"]["retrievals"]
    assert [one["id"] for one in retrieval["returned"]] == ["p1", "p2"]
    assert document["memoryState"]["totalContextTokens"] > 0
    trace = document["executionTrace"]
    assert [call["toolName"] for call in trace["toolCalls"]] == ["refund"]
    assert trace["toolCalls"][0]["output"] == {"ok": True, "order": 7, "amount": 12.5}
    (call,) = trace["modelCalls"]
    assert (call["status"], call["ended"], call["model"], call["attempt"]) == (200, "eof", "small-1", 1)
    assert (trace["finalOutputText"], trace["stopReason"]) == ("Done.", "end_turn")
    assert [one["kind"] for one in trace["effects"] if one["kind"] != "sleep"].count("external") == 2
    rate, other, queue = document["externalState"]["observableExternals"]
    assert (rate["capturedValue"], queue["capturedValue"]) == (1.25, 3)
    assert other["error"] == {"class": "builtins.ConnectionError", "message": "no route to the rates"}
    assert document["evidenceStates"]["/externalState/observableExternals/1/capturedValue"]["state"] == "absent"
    assert document["sealing"]["custodian"] == "same_user"
    assert empty_places(document) == []
    assert b"1234567890abcdef" not in shown.stdout
    checked = json.loads(tacho(recorded.world, "verify", "--all", "--json").stdout)
    (capture,) = checked["captures"]
    assert checked["failed"] == 0
    assert {name: check["state"] for name, check in capture["checks"].items()} == {
        "identity": "not_checked", "format": "ok", "signature": "ok", "key": "ok", "time": "not_checked",
        "inclusion": "ok", "consistency": "ok", "anchor": "ok", "content": "ok", "sequence": "ok", "coverage": "ok",
    }  # fmt: skip
    signer = document["sealing"]["signer"]["publicKeyRef"].partition("#")[0]
    known = json.loads(tacho(recorded.world, "verify", "last", "--trust", signer, "--json").stdout)
    assert known["captures"][0]["checks"]["identity"]["state"] == "ok"

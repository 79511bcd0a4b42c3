"""The skeleton: what may stand in the journal, counted from the log and never taken from the program."""

from __future__ import annotations

import json

from tachograph.canonical import canonical
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.skeleton import Outline, is_watched, outline, rfc3339
from tachograph.intake.sketch import Sketch
from tests.replay.made import RUN_ID, Run

CHAT = "http://provider.test:8000/v1/chat/completions?x=1"
REQUEST = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": "  what\n is it "}]}).encode()
_SAID = {"role": "assistant", "content": "a secret"}
_CHOICE = {"index": 0, "finish_reason": "stop", "message": _SAID}
ANSWER = json.dumps({"model": "m-1", "choices": [_CHOICE], "usage": {"prompt_tokens": 5}}).encode()


def _outline(run: Run, *, number: int = 0) -> Outline:
    log = run.log
    facts = next((fact.said for fact in log.of(fr.OPEN) if fact.decision == number), {})
    return outline(
        Sketch.of(run.frames), run_id=RUN_ID, decision_id="dec_01ARZ3NDEKTSV4RRFFQ69G5FAV", number=number, opened=facts,
        run=log.first(fr.RUN),
    )  # fmt: skip


def test_counts_models_status_and_stop_reason_come_from_the_log() -> None:
    """A model call in a known dialect; the endpoint is scheme and host, the path is content."""
    seen = _outline(Run().call(1, REQUEST, url=CHAT, answer=ANSWER).ended(0))
    payload = seen.payload
    assert payload["counts"] == {"effects": 1, "modelCalls": 1, "toolCalls": 0, "draws": 0}
    assert payload["modelCalls"] == [
        {"endpoint": "http://provider.test", "model": "m-1", "usage": {"prompt_tokens": 5}}
    ]
    assert (payload["stopReason"], payload["exitCode"], "failure" in payload) == ("end_turn", 0, False)
    assert payload["capturedAt"] == "2026-11-30T00:53:20.123Z"
    assert seen.title == "what is it"


def test_no_content_stands_in_the_payload() -> None:
    """Neither texts, nor paths, nor argv, nor names of persons."""
    run = Run(argv=["python", "agent-of-alice.py"]).call(1, REQUEST, url=CHAT, answer=ANSWER).ended(3)
    run.add(fr.OPEN, values.encode({"id": "dec_x", "user": "alice", "session": "s-1"}), decision=1, path=1)
    text = canonical(_outline(run).payload).decode()
    for content in ("what", "secret", "alice", "agent-of", "v1/chat", "s-1", "/somewhere"):
        assert content not in text


def test_each_way_to_fail_is_told_and_the_first_that_holds_is_named() -> None:
    """Declared, exception, stop reason, exit status."""

    def failure(run: Run, number: int) -> str | None:
        found = _outline(run, number=number).payload.get("failure")
        return None if found is None else str(found)

    def opened() -> Run:
        return Run().add(fr.OPEN, values.encode({"id": "dec_x"}), decision=1, path=1)

    assert failure(opened(), 1) is None
    assert (
        failure(opened().add(fr.CLOSE, values.encode({"raised": "builtins.ValueError"}), decision=1), 1) == "exception"
    )
    said = values.encode({"text": "", "stopReason": "error"})
    assert failure(opened().add(fr.OUTPUT, said, decision=1), 1) == "stop_reason"
    declared = opened().add(fr.OUTPUT, said, decision=1).add(fr.FAIL, values.encode({"reason": "wrong"}), decision=1)
    assert failure(declared, 1) == "declared"
    assert failure(Run().ended(2), 0) == "exit_code"


def test_an_agent_without_a_name_is_known_by_its_entry_point() -> None:
    """`agt_` and 16 hex of the entry file's digest; a given name wins; one that is no plain text does not."""
    digest = "ab" * 32
    assert _outline(Run(files={"/somewhere/agent.py": digest})).payload["agentId"] == "agt_" + digest[:16]
    assert _outline(Run(agent="refunds")).payload["agentId"] == "refunds"
    assert _outline(Run(agent="bad\x1bname", files={"a": digest})).payload["agentId"] == "agt_" + digest[:16]


def test_a_run_whose_program_did_not_record_itself_counts_as_bypassed() -> None:
    """So that a list of what was seen cannot pass it over."""
    run = Run()
    assert is_watched(run.log)
    run.frames = [frame for frame in run.frames if frame.kind != fr.PROCESS]
    assert not is_watched(run.log)
    assert {"what": "process", "count": 1} in _outline(run).payload["coverage"]["bypassed"]


def test_times_have_milliseconds_and_a_z() -> None:
    """Truncated, never rounded up into the next second."""
    assert rfc3339(999_999_999) == "1970-01-01T00:00:00.999Z"

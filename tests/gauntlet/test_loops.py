"""Row 1 on each event loop: every client that awaits, and the anthropic SDK in both of its ways."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import (
    Behaviour,
    Request,
    ScriptedServer,
    Silence,
    json_reply,
    refused_port,
    stream,
    too_many_requests,
)
from tests.gauntlet.answers import DONE, echo, piece, prompt_of
from tests.gauntlet.harness import record, replay, same

LOOPS = ("", "uvloop")


@pytest.mark.parametrize("loop", LOOPS)
def test_every_client_that_awaits_comes_back_on_each_loop_task_by_task(tmp_path: Path, loop: str) -> None:
    def answer(request: Request) -> Behaviour:
        match prompt_of(request):
            case "never":
                return Silence()
            case "flow":
                return stream((piece("one"), 0.02, piece("two"), DONE), borders="reads")
        return echo(request)

    with ScriptedServer(answer) as server, refused_port() as port:
        recorded = record(
            tmp_path, "loops.py", url=server.url, refused=f"http://127.0.0.1:{port}", loop=loop, retries=0
        )
        assert recorded.exit_code == 0, recorded.stderr
        assert recorded.stdout.endswith(b"uvloop\n" if loop else b"asyncio.unix_events\n")
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    assert replayed["drift"] == []
    asked = [one for one in recorded.calls() if " " in one["path"] or one["path"].count("/a") > 1]
    assert len({one["path"] for one in asked}) >= 20, "each task has a path of its own"


@pytest.mark.parametrize("loop", LOOPS)
def test_programs_that_a_loop_starts_come_back_and_a_python_child_runs_again(tmp_path: Path, loop: str) -> None:
    def answer(request: Request) -> Behaviour:
        return json_reply({"said": request.body.decode().upper()})

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "starts.py", url=server.url, loop=loop)
        assert recorded.exit_code == 0, recorded.stderr
        assert b"FROM THE CHILD" in recorded.stdout
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    assert [one["path"].count("/p") for one in recorded.calls()] == [1]


def message(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    """A whole message."""
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-small", "content": list(content),
        "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2},
    }  # fmt: skip


def events() -> list[bytes]:
    """A message as events."""
    text = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}}
        for said in ("high at ", "nöon")
    ]
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": message()},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *text,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return [b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in said]


@pytest.mark.parametrize(("mode", "loop"), [("sync", ""), ("async", ""), ("async", "uvloop")])
def test_the_anthropic_sdk_comes_back_with_tools_streams_retries_and_errors(
    tmp_path: Path, mode: str, loop: str
) -> None:
    limits: list[int] = []

    def answer(request: Request) -> Behaviour:
        asked: Any = request.json()
        if len(asked["messages"]) > 1:
            return json_reply(message({"type": "text", "text": "It is high at noon."}))
        match asked["messages"][0]["content"]:
            case "tool":
                used = {"type": "tool_use", "id": "toolu_1", "name": "tide", "input": {"where": "here"}}
                return json_reply(message(used, stop="tool_use"))
            case "stream":
                return stream(events(), borders="reads")
            case "limit":
                limits.append(1)
                calm = json_reply(message({"type": "text", "text": "calm"}))
                return too_many_requests() if len(limits) == 1 else calm
        return json_reply({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, status=400)

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "claude.py", mode=mode, url=server.url, loop=loop)
        assert recorded.exit_code == 0, recorded.stderr
        assert "nöon".encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))
    calls = recorded.calls()
    assert [one["status"] for one in calls] == [200, 200, 200, 200, 429, 200, 400]
    assert [one["ended"] for one in calls[2:4]] == ["eof", "closed_early"]
    assert {one["provider"] for one in calls[:4]} == {"anthropic.messages"}

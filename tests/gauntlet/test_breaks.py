"""Row 3: servers that break, clients that time out, programs that cancel: the same bytes, then the same exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.testing.scripted import Behaviour, Hangup, Reply, Request, ScriptedServer, Silence, head_then_hang, stream
from tests.gauntlet.answers import echo, piece
from tests.gauntlet.harness import record, replay, same
from tests.gauntlet.test_calls import LIBRARIES, MODES, every_client

HALF = piece("the harbour opens at")
BREAKS = {
    "a reset after the second chunk": stream((HALF, HALF), ending="reset", borders="reads"),
    "an end inside a chunk": stream((HALF, HALF), ending="cut", cut_after=len(HALF) + 11, borders="reads"),
    "a length that is not reached": stream(
        (HALF, HALF), framing="content_length", ending="cut", cut_after=len(HALF) + 11, borders="reads"
    ),
}


@pytest.mark.parametrize("how", BREAKS)
@every_client
def test_a_server_that_breaks_in_a_stream_gives_the_same_bytes_and_then_the_same_exception(
    tmp_path: Path, library: str, mode: str, how: str
) -> None:
    with ScriptedServer(lambda request: BREAKS[how] if b"go on" in request.body else echo(request)) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, then="again?", retries=0
        )
        assert repr(HALF).encode() in recorded.stdout
        assert b"Error" in recorded.stdout
        same(recorded, replay(recorded, server=server))
    first, second = recorded.calls()
    assert (first["ended"], second["ended"]) == ("error", "eof")
    assert first["stopReason"] in (None, "incomplete")  # and nothing that a model said


@pytest.mark.parametrize(
    "broken", [Hangup(ending="cut"), Hangup(ending="reset"), Silence(), head_then_hang()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize(("library", "mode"), [("httpx", "sync"), ("httpx2", "async"), ("openai", "sync"), ("openai", "async")])
def test_an_answer_that_never_comes_raises_the_same_class_again(
    tmp_path: Path, library: str, mode: str, broken: Behaviour
) -> None:
    with ScriptedServer(lambda request: broken if b"go on" in request.body else echo(request)) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, then="again?", retries=0, timeout=0.5
        )
        assert b"Error" in recorded.stdout or b"Timeout" in recorded.stdout
        same(recorded, replay(recorded, server=server))


@pytest.mark.parametrize("mode", MODES)
def test_the_sdk_tries_again_after_its_own_time_out_and_each_attempt_is_an_effect(tmp_path: Path, mode: str) -> None:
    def answer(request: Request) -> Behaviour:
        return Silence() if request.number == 0 else echo(request)

    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "ask.py", library="openai", mode=mode, url=server.url, prompts=["tide?"], timeout=0.5
        )
        assert server.hits == 2
        same(recorded, replay(recorded, server=server))
    first, second = recorded.calls()
    assert (first["ended"], second["ended"]) == ("error", "eof")
    assert "ReadTimeout" in first["error"]


@pytest.mark.parametrize(("how", "after"), [("wait_for", "call"), ("cancel", "call"), ("cancel", "chunk")])
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_call_that_the_program_gives_up_is_given_up_again_and_the_next_is_answered(
    tmp_path: Path, library: str, how: str, after: str
) -> None:
    def answer(request: Request) -> Behaviour:
        if b"never ends" not in request.body:
            return echo(request)
        chunked: Reply = stream((piece("one"),), ending="hang")
        return chunked if after == "chunk" else Silence()

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "cancel.py", library=library, url=server.url, how=how, after=after)
        assert b"CancelledError" in recorded.stdout
        assert b"and now?" in recorded.stdout
        same(recorded, replay(recorded, server=server))
    first, second = recorded.calls()
    assert (first["ended"], second["ended"]) == ("cut_off", "eof")

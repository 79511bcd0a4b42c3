"""Row 3: servers that break, clients that time out, programs that cancel: the same bytes, then the same exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.testing.scripted import Behaviour, Hangup, Request, ScriptedServer, Silence, head_then_hang, stream
from tests.gauntlet.answers import echo, piece, prompt_of
from tests.gauntlet.harness import record, replay, same
from tests.gauntlet.test_calls import AT_THE_SOCKET, AWAITED, MODES, every_client

HALF = piece("the harbour opens at")
INSIDE = len(HALF) + 11  # bytes: inside the second chunk
BREAKS: dict[str, Behaviour] = {
    "a reset after the second chunk": stream((HALF, HALF), ending="reset", borders="reads"),
    "an end inside a chunk": stream((HALF, HALF), ending="cut", cut_after=INSIDE, borders="reads"),
    "a length that is not reached": stream(
        (HALF, HALF), framing="content_length", ending="cut", cut_after=INSIDE, borders="reads"
    ),
}


@every_client
def test_a_server_that_breaks_in_a_stream_gives_the_same_bytes_and_then_the_same_exception(
    tmp_path: Path, library: str, mode: str
) -> None:
    def answer(request: Request) -> Behaviour:
        return BREAKS.get(prompt_of(request)) or echo(request)

    reads = [{"prompt": how} for how in BREAKS]
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, reads=reads, then="again?", retries=0
        )
        at_the_socket = (library, mode) in AT_THE_SOCKET  # some of them keep the half of an answer of known length
        assert recorded.stdout.count(repr(HALF).encode()) in (len(BREAKS) + 1, len(BREAKS) + 1 - at_the_socket)
        lines = recorded.stdout.decode().splitlines()
        raised = [line for line in lines if not line[0].isdigit() and line != "end"]
        assert len(raised) == len(BREAKS) - (library == "botocore")  # it takes a cut chunk for the last one
        same(recorded, replay(recorded, server=server))
    *broken, whole = recorded.calls()
    # A socket just ends, and its client sees then what is missing.
    assert [one["ended"] for one in broken] == ["error", *(["eof"] * 2 if at_the_socket else ["error"] * 2)]
    assert all(one["stopReason"] in (None, "incomplete") for one in broken)  # and nothing that a model said
    assert whole["ended"] == "eof"


RAISED = ("Error", "Timeout", "RemoteDisconnected")
NEVER: dict[str, Behaviour] = {
    "an end before the head": Hangup(ending="cut"),
    "a reset before the head": Hangup(ending="reset"),
    "no byte": Silence(),
    "a head and no body": head_then_hang(),
}


@pytest.mark.parametrize(
    ("library", "mode"),
    [("httpx", "sync"), ("httpx2", "async"), ("openai", "sync"), ("openai", "async"), *AT_THE_SOCKET],
)
def test_an_answer_that_never_comes_raises_the_same_class_again(tmp_path: Path, library: str, mode: str) -> None:
    def answer(request: Request) -> Behaviour:
        return NEVER.get(prompt_of(request)) or echo(request)

    reads = [{"prompt": how} for how in NEVER]
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, reads=reads, then="again?", retries=0,
            timeout=0.4,
        )  # fmt: skip
        lines = [line for line in recorded.stdout.decode().splitlines() if any(word in line for word in RAISED)]
        assert len(lines) == len(NEVER)
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


@pytest.mark.parametrize("library", AWAITED)
def test_answers_that_the_program_gives_up_are_given_up_again_and_the_next_is_answered(
    tmp_path: Path, library: str
) -> None:
    def answer(request: Request) -> Behaviour:
        match prompt_of(request):
            case "and now?":
                return echo(request)
            case "after a chunk":
                return stream((piece("one"),), ending="hang")
        return Silence()

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "cancel.py", library=library, url=server.url)
        assert recorded.stdout.count(b"CancelledError") == 5  # and once TimeoutError, outside
        assert b"re: and now?" in recorded.stdout
        same(recorded, replay(recorded, server=server))
    *given_up, last = recorded.calls()
    assert [one["ended"] for one in given_up] == ["cut_off"] * 3
    assert last["ended"] == "eof"

"""Row 1: one call, three, and the attempts that a client makes again: each attempt its own effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer, too_many_requests
from tests.gauntlet.answers import completion, echo
from tests.gauntlet.harness import World, held_port, record, replay, same, tacho, wait_for, world_in

LIBRARIES = ("httpx", "httpx2", "openai")
MODES = ("sync", "async")
AWAITED = ("httpx", "httpx2", "openai", "aiohttp")
AT_THE_SOCKET = [(library, "sync") for library in ("urllib", "urllib3", "requests", "botocore")]
every_client = pytest.mark.parametrize(
    ("library", "mode"), [(one, mode) for one in LIBRARIES for mode in MODES] + [*AT_THE_SOCKET, ("aiohttp", "async")]
)
# Where the clients' own code makes no difference to what is tested: each library once, the SDK in both of its ways.
some_clients = pytest.mark.parametrize(
    ("library", "mode"),
    [
        ("httpx", "sync"),
        ("httpx2", "async"),
        ("openai", "sync"),
        ("openai", "async"),
        ("aiohttp", "async"),
        *AT_THE_SOCKET,
    ],
)
two_clients = pytest.mark.parametrize(("library", "mode"), [("httpx", "async"), ("httpx2", "sync")])
own_and_sdk = pytest.mark.parametrize(("library", "mode"), [("httpx2", "sync"), ("openai", "async")])


@every_client
def test_r06_three_calls_of_one_endpoint_come_back_each_with_its_own_headers_and_bytes(
    tmp_path: Path, library: str, mode: str
) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(
            tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=["tide?", "wind?", "tide?"]
        )
        assert (recorded.exit_code, server.hits) == (0, 3)
        assert [f"req-{number}".encode() in recorded.stdout for number in range(3)] == [True] * 3
        same(recorded, replay(recorded, server=server))
    assert [(one["status"], one["ended"]) for one in recorded.calls()] == [(200, "eof")] * 3


def test_one_call_is_one_decision_of_one_effect_as_ls_show_and_replay_agree(tmp_path: Path) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library="httpx", mode="sync", url=server.url, prompts=["tide?"])
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    shown = recorded.shown()
    assert replayed["decisionId"] == recorded.decision_id == shown["decision"]["decisionId"]
    assert replayed["comparison_basis"] == "sealed_program_rerun"
    assert [one["kind"] for one in shown["timeline"]] == ["model"]
    assert shown["decision"]["exitCode"] == 0


@some_clients
def test_a_429_and_the_answer_after_it_are_two_effects(tmp_path: Path, library: str, mode: str) -> None:
    # retry-after-ms is the SDK's own header; without it the SDK would wait for half a second
    limited = too_many_requests()
    limited = type(limited)(
        status=429, headers=(*limited.headers, ("retry-after-ms", "20")), chunks=limited.chunks, reason="Slow Down"
    )
    with ScriptedServer([limited, completion("calm", number=1)]) as server:
        recorded = record(tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=["tide?"])
        assert server.hits == 2
        same(recorded, replay(recorded, server=server))
    assert [one["status"] for one in recorded.calls()] == [429, 200]


@some_clients
def test_a_refused_connection_and_the_clients_own_retry_are_two_effects(
    tmp_path: Path, library: str, mode: str
) -> None:
    with held_port() as port:
        late = ScriptedServer(echo, port=port)

        def listen(world: World) -> None:
            assert wait_for(world.work / "refused")
            late.start()
            (world.work / "listening").touch()

        url = f"http://127.0.0.1:{port}"
        recorded = record(
            tmp_path, "ask.py", during=listen, library=library, mode=mode, url=url, prompts=["tide?"],
            await_listener=True,
        )  # fmt: skip
        assert (recorded.exit_code, late.hits) == (0, 1)
        same(recorded, replay(recorded, server=late))
        late.stop()
    first, second = recorded.calls()
    assert (first["ended"], first["status"], second["status"]) == ("error", None, 200)
    named = "ClientConnectorError" if library == "aiohttp" else "ConnectError"
    assert (named in first["error"]) == ((library, mode) not in AT_THE_SOCKET)
    assert first["error"]


REFUSED = {
    "openai": b"APIConnectionError", "httpx": b"ConnectError", "urllib": b"URLError",
    "urllib3": b"NewConnectionError", "requests": b"ConnectionError", "botocore": b"EndpointConnectionError",
}  # fmt: skip


@pytest.mark.parametrize(("library", "mode"), [("openai", "sync"), ("httpx", "async"), *AT_THE_SOCKET])
def test_a_connection_refused_to_the_last_attempt_raises_the_same_class(
    tmp_path: Path, library: str, mode: str
) -> None:
    world_in(tmp_path)
    with held_port() as port:
        url = f"http://127.0.0.1:{port}"
        recorded = record(
            tmp_path, "ask.py", library=library, mode=mode, url=url, prompts=["tide?", "wind?"], retries=1
        )
        assert recorded.stdout.count(REFUSED[library]) >= 2
        same(recorded, replay(recorded))
    assert [one["ended"] for one in recorded.calls()] == ["error"] * 4


@pytest.mark.parametrize(("library", "mode"), AT_THE_SOCKET)
def test_show_reads_a_call_that_was_taken_at_the_socket_as_any_other(tmp_path: Path, library: str, mode: str) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=["tide?"])
    (call,) = recorded.calls()
    assert (call["kind"], call["status"], call["ended"], call["chunks"]) == ("model", 200, "eof", 1)
    assert (call["model"], call["stopReason"]) == ("small", "end_turn")
    detail = tacho(recorded.world, "show", "last", "--effect", str(call["effect"]), "--json").json()
    assert "re: tide?" in json.dumps(detail)
    assert json.dumps(detail).count("HTTP/1.1 200") == 1  # the line that show puts there: the body has no framing
    shown = tacho(recorded.world, "show", "last").stdout.decode()
    assert "re: tide?" in shown

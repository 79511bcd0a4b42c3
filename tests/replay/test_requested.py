"""A decision of a long-lived server is replayed alone: the program starts again and is sent the recorded request."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer
from tests.gauntlet.answers import echo, prompt_of
from tests.gauntlet.harness import Recorded, World, held_port, record, tacho, wait_for, world_in
from tests.gauntlet.leaks import leaks

ASKED = ["What is owed?", "By whom?", "Since when?"]
LOOPS = ["asyncio", "aiohttp", "uvicorn", "uvloop_raw", "uvloop_aiohttp", "uvloop"]
SERVERS = ["threads", "one", *LOOPS]


def keep_asking(port: int) -> None:
    """Ask on one connection that is kept alive, as a stranger would."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    for asked in ASKED:
        connection.request("POST", "/ask", asked)
        assert connection.getresponse().read()
    connection.close()


def served(
    folder: Path, model: ScriptedServer, server: str, ask: Callable[[int], None] = keep_asking, **more: Any
) -> Recorded:  # fmt: skip
    """Record a server that is asked by strangers and then stopped with a signal."""

    def during(world: World) -> None:
        assert wait_for(world.work / "serving.json")
        said = json.loads((world.work / "serving.json").read_text())
        ask(said["port"])
        os.kill(said["pid"], signal.SIGKILL)

    return record(folder, "receives.py", during=during, server=server, library="httpx", url=model.url, **more)


def rows(recorded: Recorded) -> list[dict[str, Any]]:
    """The decisions, oldest first."""
    return list(reversed(tacho(recorded.world, "ls", "--json").json()))


def replayed(recorded: Recorded, row: dict[str, Any], *options: str) -> dict[str, Any]:
    ran = tacho(recorded.world, "replay", row["decisionId"], "--json", *options)
    assert ran.exit_code in (0, 1), ran
    return dict(ran.json())


def is_the_same(answer: dict[str, Any], target: str = "/ask") -> None:
    assert (answer["equivalent"], answer["divergences"], answer["misses"]) == (True, [], []), answer
    assert (answer["unconsumed"], answer["attempts"], answer["liveEffects"]) == ([], [], 0), answer
    assert f"the program was started again and sent the recorded request POST {target}" in " ".join(answer["notes"])


@pytest.mark.parametrize("server", SERVERS)
def test_each_decision_of_a_stopped_server_replays_with_the_request_that_led_to_it(tmp_path: Path, server: str) -> None:
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, server)
        hits = model.hits
        found = rows(recorded)
        assert [row["title"] for row in found] == ASKED
        for row in found:
            answer = replayed(recorded, row)
            is_the_same(answer)
            # A Date header is drawn by the first request of its second; a start-up polls as often as it must.
            assert [one for one in answer["drift"] if one["kind"] not in ("order", "timer", "time.time")] == [], answer
        assert model.hits == hits


@pytest.mark.parametrize("server", ["threads", "aiohttp"])
def test_two_requests_at_once_are_not_mixed_up(tmp_path: Path, server: str) -> None:
    both = threading.Barrier(2)

    def meet(request: Request) -> Reply:
        if prompt_of(request) == "who is calling?":
            both.wait(20)  # each handler has begun before either decision opens
        return echo(request)

    def at_once(port: int) -> None:
        each = [http.client.HTTPConnection("127.0.0.1", port, timeout=20) for _ in range(2)]
        for asked in (["one", "two"], ["three", "four"]):
            for connection, said in zip(each, asked, strict=True):
                connection.request("POST", f"/{said}", said)
            assert all(one.getresponse().read() for one in each)

    with ScriptedServer(meet) as model:
        recorded = served(tmp_path, model, server, at_once)
        found = rows(recorded)
        assert sorted(row["title"] for row in found) == ["four", "one", "three", "two"]
        for row in found:
            answer = replayed(recorded, row, "--alone")
            is_the_same(answer, f"/{row['title']}")


def raw_request(port: int, data: bytes, *more: bytes) -> bytes:
    """Send bytes as they are, in several pieces, and return what comes until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        for piece in more:
            client.sendall(piece)
        got = b""
        while part := client.recv(65536):
            got += part
    return got


def test_a_chunked_request_with_credentials_is_sent_again_and_none_of_them_is_kept(tmp_path: Path) -> None:
    secrets = ["tell-nobody-0123456789", "cookie-crumbs-9876", "query-key-5566778899aa", "very-secret-session-1234"]
    token, cookie, key, _ = secrets
    head = (
        f"POST /ask?api_key={key} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {token}\r\nCookie: sid={cookie}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()

    def ask(port: int) -> None:
        got = raw_request(port, head[:40], head[40:] + b"5\r\nWhat \r\n", b"8;x=y\r\nis owed?\r\n", b"0\r\n\r\n")
        assert b"What is owed?" in got

    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads", ask)
        (row,) = rows(recorded)
        is_the_same(replayed(recorded, row), "/ask?api_key=aaaaa-aaa-0000000000aa")
    everything = {**recorded.world.files(), **recorded.world.content()}
    assert leaks(everything, secrets) == []
    assert leaks(everything, ["What "]) != []  # the search itself finds what is there


def test_a_program_that_asks_or_answers_otherwise_differs_there(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads")
        row = rows(recorded)[1]
        world.edit("ending.txt", "?")
        answer = replayed(recorded, row)
        assert [one["path"] for one in answer["divergences"]] == ["/decisions/2/reply/body"], answer
        assert (answer["equivalent"], answer["unconsumed"], answer["misses"]) == (False, [], [])
        world.edit("ask.txt", "kindly")
        answer = replayed(recorded, row)
    assert answer["equivalent"] is False
    first = answer["divergences"][0]
    assert first["path"].endswith("/request/body/messages/1/content")
    assert (str(first["original"])[:6], str(first["replay"])[:6]) == ("please", "kindly")
    assert answer["divergences"][-1]["path"] == "/decisions/2/reply"


def test_a_program_that_does_not_serve_any_more_is_no_replay(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads")
        world.edit("receives.py", "print('closed for good')\n")
        answer = replayed(recorded, rows(recorded)[0])
    assert answer["equivalent"] is False
    assert [one["path"] for one in answer["divergences"]] == ["/decisions/1/output", "/decisions/1/reply"]
    assert [one["effect"] for one in answer["unconsumed"]] == [3]
    assert answer["outcome"]["stdout"] == "closed for good\n"


def test_requests_sent_ahead_of_their_answers_are_not_guessed_at(tmp_path: Path) -> None:
    one = b"POST /one HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\n\r\none"
    two = b"POST /two HTTP/1.1\r\nHost: here\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntwo"
    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads", lambda port: bool(raw_request(port, one + two)) or None)
    for row in rows(recorded):
        ran = tacho(recorded.world, "replay", row["decisionId"], "--alone", "--json")
        assert ran.exit_code == 3
        said = ran.json()["error"]
        assert said["reason"] == "no_entry_point"
        assert "no function declared with @tachograph.agent opened it" in said["message"]
        assert "requests were sent ahead of the answers" in said["message"]


def test_whichever_worker_gets_the_request_it_is_the_recorded_decision(tmp_path: Path) -> None:
    with ScriptedServer(echo) as model, held_port() as free:

        def ask(number: int) -> None:
            for asked in ASKED:
                connection = http.client.HTTPConnection("127.0.0.1", number, timeout=20)
                connection.request("POST", "/ask", asked)
                assert connection.getresponse().read()
                connection.close()

        recorded = served(tmp_path, model, "pool", ask, port=free)
        warm_up, *found = rows(recorded)
        assert [row["title"] for row in found] == ASKED
        for row in found:
            answer = replayed(recorded, row)
            is_the_same(answer)
            assert answer["served"] == 4, answer  # the start-up's two, who is calling, and its own
        ran = tacho(recorded.world, "replay", warm_up["decisionId"], "--alone", "--json")
        assert (ran.exit_code, ran.json()["error"]["reason"]) == (3, "no_entry_point")


def test_a_decision_that_opens_after_the_answer_is_waited_for(tmp_path: Path) -> None:
    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", number, timeout=20)
        connection.request("POST", "/later", "What is owed?")
        assert connection.getresponse().status == 202
        connection.close()
        assert wait_for(World(tmp_path).work / "done.txt")

    with ScriptedServer(echo) as model:
        recorded = served(tmp_path, model, "threads", ask)
        (row,) = rows(recorded)
        is_the_same(replayed(recorded, row), "/later")
    assert leaks({**recorded.world.files(), **recorded.world.content()}, ["very-secret-session-1234"]) == []


def test_of_a_server_that_still_runs_a_decision_is_shown_and_replayed_with_its_request(tmp_path: Path) -> None:
    seen: list[Any] = []

    def ask(number: int) -> None:
        keep_asking(number)
        world = World(tmp_path)
        newest = tacho(world, "ls", "--json").json()[0]["decisionId"]
        seen.append(tacho(world, "show", newest, "--json").json()["facts"]["inbound"])
        seen.append(tacho(world, "show", newest).stdout.decode())
        seen.append(tacho(world, "replay", newest, "--json").json())

    with ScriptedServer(echo) as model:
        served(tmp_path, model, "threads", ask)
    inbound, shown, answer = seen
    assert inbound == {"method": "POST", "target": "/ask"}
    assert "inbound request: POST /ask" in shown
    is_the_same(answer)


def test_a_decision_in_whose_midst_the_server_was_killed_replays_as_far_as_it_went(tmp_path: Path) -> None:
    asked, never = threading.Event(), threading.Event()

    def fall_silent(request: Request) -> Reply:
        if prompt_of(request).startswith("please"):
            asked.set()
            never.wait(30)
        return echo(request)

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", number, timeout=20)
        connection.request("POST", "/ask", "What is owed?")
        assert asked.wait(20)

    with ScriptedServer(fall_silent) as model:
        recorded = served(tmp_path, model, "threads", ask)
        never.set()
        (row,) = rows(recorded)
        is_the_same(replayed(recorded, row))

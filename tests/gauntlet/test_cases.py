"""Cases of the case log that stand in no row of their own: what identifies a call, and how `show` reads an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer, encoded, json_reply, stream
from tests.gauntlet.answers import DONE, completion, echo, piece
from tests.gauntlet.harness import different, record, replay, same, tacho, world_in


@pytest.mark.parametrize(("library", "mode"), [("httpx", "sync"), ("openai", "async")])
def test_r23_a_parameter_that_only_one_provider_knows_is_part_of_the_question(
    tmp_path: Path, library: str, mode: str
) -> None:
    world = world_in(tmp_path)
    world.edit("more.json", json.dumps({"num_ctx": 2048}))
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library=library, mode=mode, url=server.url, prompts=["hello"])
        world.edit("more.json", json.dumps({"num_ctx": 8192}))
        replayed = replay(recorded, server=server)
    call = recorded.calls()[0]["effect"]
    first = different(replayed, at=f"/effects/{call}/request/body/num_ctx")
    assert (first["original"], first["replay"]) == (2048, 8192)
    assert "re: hello" not in replayed.stdout


BIG = 107505301260286111


def test_r16_an_integer_above_2_to_the_53_is_shown_and_compared_with_all_its_digits(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("more.json", json.dumps({"order_id": BIG}))
    with ScriptedServer([completion(json.dumps({"id": BIG})), completion("ok", number=1)]) as server:
        prompts = [f'{{"id": {BIG}}}', "and then?"]
        recorded = record(tmp_path, "ask.py", library="httpx", mode="sync", url=server.url, prompts=prompts)
        same(recorded, replay(recorded, server=server))
        for words in (("show", "last", "--json"), ("show", "last", "--effect", "1"), ("show", "last", "--bytes", "1"),
                      ("show", "last", "--bytes", "1", "--request")):  # fmt: skip
            assert str(BIG).encode() in tacho(world, *words).stdout, words
        world.edit("more.json", json.dumps({"order_id": BIG + 1}))
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/1/request/body/order_id")
    assert (str(BIG) in str(first["original"]), str(BIG + 1) in str(first["replay"])) == (True, True)


@pytest.mark.parametrize(("mode", "ending"), [("sync", "complete"), ("async", "cut")])
def test_r19_an_interrupted_stream_is_no_good_answer(tmp_path: Path, mode: str, ending: Any) -> None:
    def event(kind: str, **more: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n".encode()

    whole = event("response.created", response={"id": "resp_1", "status": "in_progress"}) + b"\n"
    whole += event("response.output_text.delta", item_id="m1", delta="The harbour opens at")  # no blank line behind it
    reply = stream([whole], framing="until_close" if ending == "complete" else "chunked", ending=ending)
    made = {"path": "/v1/responses", "text": json.dumps({"model": "small", "input": "When?", "stream": True})}
    if ending == "cut":
        made["raw"] = True
    with ScriptedServer([reply]) as server:
        recorded = record(tmp_path, "bodies.py", library="httpx", mode=mode, url=server.url, calls=[made])
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert call["stopReason"] in (None, "incomplete", "interrupted")
    assert call["ended"] == ("eof" if ending == "complete" else "error")
    assert recorded.shown()["decision"]["stopReason"] != "end_turn"


SEPARATED = "one\u2028two\u0085three\u2029four"


def test_r20_line_separators_inside_an_event_cut_nothing(tmp_path: Path) -> None:
    chunks = [piece(SEPARATED), piece("", stop="stop"), DONE]
    with ScriptedServer([stream(chunks, content_type="text/event-stream")]) as server:
        recorded = record(tmp_path, "sdk_flow.py", mode="sync", url=server.url, stops=[None])
        assert SEPARATED.encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert call["stopReason"] == "end_turn"
    for wanted in ("four", SEPARATED):
        hits = recorded.shown("--grep", wanted)["grep"]
        assert [SEPARATED in hit["line"] for hit in hits if "answer" in hit["where"]] == [True], hits


def test_r21_the_text_of_characters_split_over_chunks_is_read_exactly(tmp_path: Path) -> None:
    text = "crème 東京 🛶"
    whole = piece(text) + piece("", stop="stop") + DONE
    with ScriptedServer([stream([whole[at : at + 1] for at in range(len(whole))])]) as server:
        reads = [{"prompt": "go on"}]
        recorded = record(tmp_path, "flow.py", library="httpx2", mode="async", url=server.url, reads=reads)
        same(recorded, replay(recorded, server=server))
    assert recorded.calls()[0]["answered"] == text


def test_r04_show_says_what_it_cannot_decode_and_keeps_the_bytes(tmp_path: Path) -> None:
    reply = encoded(b'{"says": "calm"}', coding="gzip", headers={"content-type": "application/json"})
    wire = b"".join(one for one in reply.chunks if isinstance(one, bytes))
    named = (("content-type", "application/json"), ("content-encoding", "x-odd"))
    unknown = Reply(headers=named, chunks=(b"\x9f\x01",))
    with ScriptedServer([reply, unknown]) as server:
        calls = [{"method": "GET", "path": "/a"}, {"method": "GET", "path": "/b"}]
        recorded = record(tmp_path, "bodies.py", library="httpx2", mode="sync", url=server.url, calls=calls)
        same(recorded, replay(recorded, server=server))
    world = recorded.world
    assert tacho(world, "show", "last", "--bytes", "1").stdout == wire
    assert tacho(world, "show", "last", "--bytes", "2").stdout == b"\x9f\x01"
    assert tacho(world, "show", "last", "--effect", "1", "--json").json()["answer"]["body"] == '{"says": "calm"}'
    said = tacho(world, "show", "last", "--effect", "2", "--json").json()["answer"]["body"]
    assert ("x-odd" in said, "not decoded" in said) == (True, True)


def test_r31_one_get_in_the_replay_of_an_empty_recording_opens_no_socket_and_creates_no_file(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "bodies.py", library="httpx", mode="sync", url=server.url, calls=[])
        same(recorded, replay(recorded, server=server))
        before = {file for file in world.folder.rglob("*") if "__pycache__" not in str(file)}
        world.edit("calls.json", json.dumps([{"method": "GET", "path": "/v1/models"}]))
        replayed = replay(recorded, server=server)
    different(replayed, at="/effects")
    (miss,) = replayed["misses"]
    assert (miss["call"]["method"], miss["call"]["endpoint"]) == ("GET", f"{server.url}/v1/models")
    assert miss["nearest"] is None
    after = {file for file in world.folder.rglob("*") if "__pycache__" not in str(file)}
    assert {file.name for file in after - before} == {"calls.json"}


def test_r31_a_connection_past_every_client_is_refused_and_told(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("reach.txt", "no")
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "reaches.py", port=server.port)
        same(recorded, replay(recorded, server=server))
        world.edit("reach.txt", "yes")
        replayed = replay(recorded, server=server)
    different(replayed)
    (attempt,) = replayed["attempts"]
    assert (attempt["what"], attempt["where"]) == ("socket.connect", f"127.0.0.1:{server.port}")
    assert replayed.stdout == recorded.stdout.decode()  # it swallowed the PermissionError


def test_r31_a_recorded_connection_that_no_client_made_is_refused_before_the_start(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("reach.txt", "yes")
    with ScriptedServer([json_reply({})]) as server:
        record(tmp_path, "reaches.py", port=server.port)
        seen = server.connections
        ran = tacho(world, "replay", "last", "--json")
        assert (ran.exit_code, server.connections) == (3, seen)
    assert ran.json()["error"]["reason"] == "unrecorded_boundary"
    assert seen == 1


def test_r11_another_endpoint_never_gets_the_answer_of_the_old_one(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    calls = [{"path": "/v1/load_order", "text": '{"id": 7}'}, {"path": "/v1/charge_card", "text": '{"id": 7}'}]
    world.edit("calls.json", json.dumps(calls))

    def answer(request: Request) -> Reply:
        return json_reply({"did": request.path})

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "bodies.py", library="httpx2", mode="sync", url=server.url)
        calls[1]["path"] = "/v1/queue_charge"
        world.edit("calls.json", json.dumps(calls))
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/2/request/url/path")
    assert (first["original"], first["replay"]) == ("/v1/charge_card", "/v1/queue_charge")
    assert b"charge_card".hex() not in replayed.stdout
    assert b"load_order".hex() in replayed.stdout  # what still fits is still served


def test_another_method_is_another_call(tmp_path: Path) -> None:
    world = world_in(tmp_path)
    world.edit("calls.json", json.dumps([{"path": "/v1/x", "text": "{}"}]))
    with ScriptedServer(lambda _: json_reply({"ok": 1})) as server:
        recorded = record(tmp_path, "bodies.py", library="httpx", mode="sync", url=server.url)
        world.edit("calls.json", json.dumps([{"path": "/v1/x", "text": "{}", "method": "PUT"}]))
        replayed = replay(recorded, server=server)
    first = different(replayed, at="/effects/1/request/method")
    assert (first["original"], first["replay"]) == ("POST", "PUT")

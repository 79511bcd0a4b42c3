"""Row 10: bodies of every kind come back as they were sent; a changed program is named, and compared all the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.codings import compress
from tachograph.testing.scripted import Reply, Request, ScriptedServer, encoded, json_reply, plain, stream
from tests.gauntlet.answers import echo
from tests.gauntlet.harness import Recorded, different, record, replay, same, world_in
from tests.gauntlet.test_calls import two_clients

FOUR_CLIENTS = pytest.mark.parametrize(
    ("library", "mode"), [("httpx", "sync"), ("httpx", "async"), ("httpx2", "sync"), ("httpx2", "async")]
)
BINARY = random.Random(7).randbytes(2051)
OTHER = random.Random(8).randbytes(2051)


def calls(tmp_path: Path, server: ScriptedServer, library: str, mode: str, *made: dict[str, Any]) -> Recorded:
    """Record these calls."""
    return record(tmp_path, "bodies.py", library=library, mode=mode, url=server.url, calls=list(made))


@two_clients
def test_r09_2051_bytes_that_are_no_text_come_back_exactly_in_both_directions(
    tmp_path: Path, library: str, mode: str
) -> None:
    world_in(tmp_path).edit("calls.json", json.dumps([{"hex": BINARY.hex(), "path": "/v1/audio"}]))
    with ScriptedServer(lambda _: plain(OTHER, headers={"content-type": "application/octet-stream"})) as server:
        recorded = calls(tmp_path, server, library, mode)
        assert server.requests[0].body == BINARY
        assert OTHER.hex().encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))
        changed = bytearray(BINARY)
        changed[1234] ^= 1
        recorded.world.edit("calls.json", json.dumps([{"hex": changed.hex(), "path": "/v1/audio"}]))
        replayed = replay(recorded, server=server)
    first = different(replayed)
    assert first["path"].startswith("/effects/1/request/body")
    assert OTHER.hex() not in replayed.stdout
    (call,) = recorded.calls()
    assert (call["requestBytes"], call["answerBytes"]) == (2051, 2051)


CODINGS = ("gzip", "br", "zstd", "deflate")


@two_clients
def test_r04_encoded_answers_keep_their_wire_bytes(tmp_path: Path, library: str, mode: str) -> None:
    body = json.dumps({"says": "crème 東京 🛶 " * 40}, ensure_ascii=False).encode()

    def answer(request: Request) -> Reply:
        return encoded(body, coding=request.path[1:], headers={"content-type": "application/json"})

    accepts = {"accept-encoding": ", ".join(CODINGS)}
    made = [{"path": f"/{coding}", "headers": accepts, "raw": raw} for coding in CODINGS for raw in (True, False)]
    with ScriptedServer(answer) as server:
        recorded = calls(tmp_path, server, library, mode, *made)
        for coding in CODINGS:
            assert compress(body, coding).hex().encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))


@two_clients
def test_r03_an_empty_body_under_a_gzip_header_stays_empty(tmp_path: Path, library: str, mode: str) -> None:
    empty = plain(b"", headers={"content-encoding": "gzip"})
    made = [{"method": method, "path": "/v1/models", "raw": raw} for method in ("HEAD", "GET") for raw in (True, False)]
    with ScriptedServer(lambda _: empty) as server:
        recorded = calls(tmp_path, server, library, mode, *made)
        assert recorded.stdout.count(b"decoded 0") == 2
        assert recorded.stdout.count(b"content-encoding") == 2
        same(recorded, replay(recorded, server=server))
    assert [one["answerBytes"] for one in recorded.calls()] == [0] * 4


FORM = {"purpose": "assistants", "file": "tide table for Tuesday"}


@two_clients
def test_r05_a_form_whose_boundary_is_drawn_anew_is_the_same_form(tmp_path: Path, library: str, mode: str) -> None:
    with ScriptedServer(lambda _: json_reply({"id": "file-1"})) as server:
        recorded = calls(tmp_path, server, library, mode, {"path": "/v1/files", "files": FORM})
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    assert replayed["notes"] == []  # the recorded draw came back, so even the boundary is the same


@two_clients
def test_r05_a_form_with_a_boundary_that_nobody_saw_drawn_is_compared_part_by_part(
    tmp_path: Path, library: str, mode: str
) -> None:
    made = {"path": "/v1/files", "files": FORM, "boundary": "undrawn"}
    world_in(tmp_path).edit("calls.json", json.dumps([made]))
    with ScriptedServer(lambda _: json_reply({"id": "file-1"})) as server:
        recorded = calls(tmp_path, server, library, mode)
        replayed = replay(recorded, server=server)
        same(recorded, replayed)
        assert any("boundary" in note for note in replayed["notes"])
        changed = {**made, "files": {**FORM, "file": "tide table for Friday"}}
        recorded.world.edit("calls.json", json.dumps([changed]))
        replayed = replay(recorded, server=server)
    first = different(replayed)
    assert "file" in first["path"].removeprefix("/effects/1/request/body")  # the part is named
    assert (first["original"]["text"], first["replay"]["text"]) == (FORM["file"], "tide table for Friday")
    assert "file-1" not in replayed.stdout


@two_clients
def test_r08_odd_spacing_key_order_and_trailing_zeros_come_back_byte_for_byte(
    tmp_path: Path, library: str, mode: str
) -> None:
    odd = b'{"zeta":1,"id":"r-7","alpha":[],"usage":{"out":3,"in":1}, "mid" : 2.50 }'
    with ScriptedServer(lambda _: plain(odd, headers={"content-type": "application/json"})) as server:
        recorded = calls(tmp_path, server, library, mode, {"text": odd.decode()})
        assert (len(odd), odd.hex().encode() in recorded.stdout) == (72, True)
        same(recorded, replay(recorded, server=server))


@FOUR_CLIENTS
def test_r01_r33_a_body_that_is_produced_while_it_is_sent_is_recorded_whole_and_so_is_a_streamed_answer(
    tmp_path: Path, library: str, mode: str
) -> None:
    def answer(request: Request) -> Reply:
        return stream([b"you sent ", request.body, b" in %d" % len(request.chunks)], borders="reads")

    made = {"path": "/v1/upload", "parts": ["first ", "second ", "third"]}
    world_in(tmp_path).edit("calls.json", json.dumps([made]))
    with ScriptedServer(answer) as server:
        recorded = calls(tmp_path, server, library, mode)
        assert server.requests[0].chunks == (b"first ", b"second ", b"third")
        same(recorded, replay(recorded, server=server))
        recorded.world.edit("calls.json", json.dumps([{**made, "parts": ["first ", "second ", "fourth"]}]))
        replayed = replay(recorded, server=server)
    assert different(replayed)["path"].startswith("/effects/1/request/body")
    (call,) = recorded.calls()
    assert call["requestBytes"] == len("first second third")


@pytest.mark.parametrize("file", ["ask.py", "clients.py"])
def test_a_capture_taken_under_one_version_of_the_program_is_replayed_under_another_and_says_so(
    tmp_path: Path, file: str
) -> None:
    with ScriptedServer(echo) as server:
        recorded = record(tmp_path, "ask.py", library="httpx2", mode="sync", url=server.url, prompts=["tide?"])
        assert replay(recorded, server=server)["inputsChanged"] == []
        source = (recorded.world.programs / file).read_text()
        recorded.world.edit(file, source + "\n# a later version\n")
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    (changed,) = replayed["inputsChanged"]
    assert changed["path"].endswith(file)

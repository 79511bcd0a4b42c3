"""Row 2: streamed answers: the same chunks, at once, and a record of every way in which reading can end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer, stream
from tests.gauntlet.answers import DONE, echo, piece
from tests.gauntlet.harness import record, replay, same, wait_for, world_in
from tests.gauntlet.test_calls import MODES, every_client

# Cut inside JSON, inside a two-byte, a three-byte and a four-byte character, and between two line ends.
WHOLE = piece("crème 東京 ") + piece("🛶 ends") + piece("", stop="stop") + DONE
CUTS = [7, WHOLE.index("è".encode()) + 1, WHOLE.index("京".encode()) + 2, WHOLE.index("🛶".encode()) + 3]
CUTS += [WHOLE.index(b"\n\n") + 1, len(WHOLE) - 3]
BORDERS = [0, *sorted(CUTS), len(WHOLE)]
CHUNKS = tuple(WHOLE[start:end] for start, end in zip(BORDERS, BORDERS[1:], strict=False))


def cut_badly() -> Reply:
    """The stream whose borders fall where a careless reader breaks."""
    return stream(CHUNKS, borders="reads")


@every_client
def test_r21_r24_chunks_cut_inside_json_and_characters_come_back_as_they_were(
    tmp_path: Path, library: str, mode: str
) -> None:
    with ScriptedServer([cut_badly()]) as server:
        recorded = record(tmp_path, "flow.py", library=library, mode=mode, url=server.url)
        for chunk in CHUNKS:
            assert f"{len(chunk)} {chunk!r}\n".encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert (call["chunks"], call["ended"], call["answerBytes"]) == (len(CHUNKS), "eof", len(WHOLE))


@every_client
def test_the_first_chunk_reaches_the_program_before_the_server_sends_a_second(
    tmp_path: Path, library: str, mode: str
) -> None:
    world = world_in(tmp_path)
    seen = world.work / "first"
    on_time: list[bool] = []

    def chunks() -> Iterator[bytes]:
        yield piece("one")
        on_time.append(wait_for(seen))  # a recorder that waits for more would wait here, with the server
        yield piece("two") + DONE

    with ScriptedServer(lambda _: stream(chunks())) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, acknowledge=str(seen)
        )
        assert on_time == [True]
        same(recorded, replay(recorded, server=server))


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_own_stream_ends_at_done_and_gives_the_same_parsed_chunks(tmp_path: Path, mode: str) -> None:
    with ScriptedServer([cut_badly()]) as server:
        recorded = record(tmp_path, "sdk_flow.py", library="openai", mode=mode, url=server.url)
        assert "crème 東京".encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))


@every_client
def test_r18_a_client_that_stops_at_done_leaves_a_record_that_says_so(
    tmp_path: Path, library: str, mode: str
) -> None:
    # the server keeps the connection open behind [DONE]: whoever reads on would hang
    with ScriptedServer(
        lambda request: echo(request) if b"then" in request.body else stream((piece("a"), DONE), ending="hang")
    ) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, stop="done", then="and then?"
        )
        same(recorded, replay(recorded, server=server))
    first, second = recorded.calls()
    assert (first["ended"], first["chunks"], second["ended"]) == ("closed_early", 2, "eof")


@every_client
def test_r18_a_client_that_stops_after_three_chunks_leaves_exactly_those(
    tmp_path: Path, library: str, mode: str
) -> None:
    def answer(request: Request) -> Reply:
        if b"then" in request.body:
            return echo(request)
        return stream([piece(str(number)) for number in range(9)], borders="reads", ending="hang")

    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "flow.py", library=library, mode=mode, url=server.url, stop=3, then="then")
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    first = recorded.calls()[0]
    assert (first["ended"], first["chunks"]) == ("closed_early", 3)
    assert first["stopReason"] in (None, "incomplete")  # what the model would have said in the end is unknown


@pytest.mark.parametrize("mode", MODES)
def test_r18_the_sdks_own_stream_left_early_is_recorded_too(tmp_path: Path, mode: str) -> None:
    chunks = [piece(str(number)) for number in range(5)] + [DONE]
    with ScriptedServer([stream(chunks, borders="reads")]) as server:
        recorded = record(tmp_path, "sdk_flow.py", library="openai", mode=mode, url=server.url, stop=2)
        same(recorded, replay(recorded, server=server))
    assert recorded.calls()[0]["status"] == 200


@every_client
def test_r02_a_stream_that_is_open_when_the_program_ends_is_recorded_as_far_as_it_came(
    tmp_path: Path, library: str, mode: str
) -> None:
    endless = stream((piece("one"), piece("two")), borders="reads", ending="hang")
    with ScriptedServer([endless]) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, stop=2, leave_open=True
        )
        assert recorded.exit_code == 0
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert call["chunks"] == 2
    # an event loop closes its generators when it ends; a thread just stops
    assert call["ended"] in ({"open_at_end"} if mode == "sync" else {"open_at_end", "closed_early"})


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_r02_an_event_stream_read_beside_the_program_passes_at_once_and_ends_open(
    tmp_path: Path, library: str
) -> None:
    world = world_in(tmp_path)
    endless = stream((piece("one"),), ending="hang")
    with ScriptedServer([endless]) as server:
        recorded = record(
            tmp_path, "listens.py", library=library, url=server.url, acknowledge=str(world.work / "first")
        )
        assert b"one" in recorded.stdout
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert (call["ended"], call["chunks"]) == ("open_at_end", 1)

"""Row 2: streamed answers: the same chunks, at once, and a record of every way in which reading can end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer, stream
from tests.gauntlet.answers import DONE, echo, piece, prompt_of
from tests.gauntlet.harness import record, replay, same, wait_for, world_in
from tests.gauntlet.test_calls import AT_THE_SOCKET, MODES, every_client, some_clients

# Cut inside JSON, inside a two-byte, a three-byte and a four-byte character, and between two line ends.
WHOLE = piece("crème 東京 ") + piece("🛶 ends") + piece("", stop="stop") + DONE
CUTS = [7, WHOLE.index("è".encode()) + 1, WHOLE.index("京".encode()) + 2, WHOLE.index("🛶".encode()) + 3]
CUTS += [WHOLE.index(b"\n\n") + 1, len(WHOLE) - 3]
BORDERS = [0, *sorted(CUTS), len(WHOLE)]
CHUNKS = tuple(WHOLE[start:end] for start, end in pairwise(BORDERS))
CUT_BADLY = stream(CHUNKS, borders="reads")


@every_client
def test_r21_r24_chunks_cut_anywhere_come_back_as_they_were_and_the_first_is_not_delayed(
    tmp_path: Path, library: str, mode: str
) -> None:
    seen = world_in(tmp_path).work / "first"
    on_time: list[bool] = []

    def waiting() -> Iterator[bytes]:
        yield piece("one")
        on_time.append(wait_for(seen))  # a recorder that waits for more would wait here, with the server
        yield piece("two") + DONE

    def answer(request: Request) -> Reply:
        return CUT_BADLY if prompt_of(request) == "cut" else stream(waiting())

    reads = [{"prompt": "cut"}, {"prompt": "wait", "acknowledge": str(seen)}]
    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "flow.py", library=library, mode=mode, url=server.url, reads=reads)
        for chunk in CHUNKS:
            assert f"{len(chunk)} {chunk!r}\n".encode() in recorded.stdout
        assert on_time == [True]
        same(recorded, replay(recorded, server=server))
    cut, waited = recorded.calls()
    assert (cut["chunks"], cut["ended"], cut["answerBytes"]) == (len(CHUNKS), "eof", len(WHOLE))
    assert (waited["chunks"], waited["ended"]) == (2, "eof")


@some_clients
def test_r18_a_client_that_stops_at_done_or_after_three_chunks_leaves_a_record_that_says_so(
    tmp_path: Path, library: str, mode: str
) -> None:
    # the server keeps each connection open behind what it sent: whoever reads on would hang
    def answer(request: Request) -> Reply:
        match prompt_of(request):
            case "to done":
                return stream((piece("a"), DONE), borders="reads", ending="hang")
            case "three":
                return stream([piece(str(number)) for number in range(9)], borders="reads", ending="hang")
        return echo(request)

    reads = [{"prompt": "to done", "stop": "done"}, {"prompt": "three", "stop": 3}]
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, reads=reads, then="and then?"
        )
        same(recorded, replay(recorded, server=server))
    to_done, three, then = recorded.calls()
    assert (to_done["ended"], to_done["chunks"], then["ended"]) == ("closed_early", 2, "eof")
    assert (three["ended"], three["chunks"]) == ("closed_early", 3)
    assert three["stopReason"] in (None, "incomplete")  # what the model would have said in the end is unknown


@pytest.mark.parametrize("mode", MODES)
def test_the_sdks_own_stream_gives_the_same_parsed_chunks_to_done_and_when_it_is_left_early(
    tmp_path: Path, mode: str
) -> None:
    with ScriptedServer(lambda _: CUT_BADLY) as server:
        recorded = record(tmp_path, "sdk_flow.py", mode=mode, url=server.url, stops=[None, 1])
        assert "crème 東京".encode() in recorded.stdout
        same(recorded, replay(recorded, server=server))
    whole, left = recorded.calls()
    assert (whole["status"], left["status"]) == (200, 200)
    assert whole["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    ("library", "mode"),
    [("httpx", "async"), ("httpx2", "sync"), ("openai", "sync"), ("openai", "async"), *AT_THE_SOCKET],
)
def test_r02_a_stream_that_is_open_when_the_program_ends_is_recorded_as_far_as_it_came(
    tmp_path: Path, library: str, mode: str
) -> None:
    endless = stream((piece("one"), piece("two")), borders="reads", ending="hang")
    with ScriptedServer([endless]) as server:
        recorded = record(
            tmp_path, "flow.py", library=library, mode=mode, url=server.url, leave_open=True,
            reads=[{"prompt": "go on", "stop": 2}],
        )  # fmt: skip
        assert recorded.exit_code == 0
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert call["chunks"] == 2
    # an event loop closes its generators when it ends; a thread just stops
    assert call["ended"] in ({"open_at_end"} if mode == "sync" else {"open_at_end", "closed_early"})


def test_r02_an_event_stream_read_beside_the_program_passes_at_once_and_ends_open(tmp_path: Path) -> None:
    with ScriptedServer([stream((piece("one"),), ending="hang")]) as server:
        recorded = record(tmp_path, "listens.py", library="httpx2", url=server.url)
        assert b"one" in recorded.stdout
        same(recorded, replay(recorded, server=server))
    (call,) = recorded.calls()
    assert (call["ended"], call["chunks"]) == ("open_at_end", 1)

"""aiohttp's client below its parser: the program sees what it would have seen, and the same pieces again in a replay.

Real clients against real servers on loopback. Each program is run without us, recorded, and replayed.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from websockets.sync.server import serve

from tachograph.formats import frame as fr
from tachograph.formats.effect_log import read_effect_log
from tachograph.seams.aiohttp_transport import Moves, read_moves
from tachograph.testing.codings import compress
from tachograph.testing.scripted import (
    Behaviour,
    Reply,
    Request,
    ScriptedServer,
    encoded,
    json_reply,
    plain,
    redirect,
    stream,
)
from tests.seams.driver import Recorded, Session

HEAD = """
import asyncio, os, sys, time
import aiohttp
BASE = sys.argv[1]
def told(*words):
    print(*words, flush=True)
def fault(e):
    told(type(e).__module__, type(e).__name__, str(e), [type(c).__name__ for c in (e.__cause__,) if c])
async def main():
    async with aiohttp.ClientSession() as session:
"""


def written(body: str) -> str:
    """A program that does `body` in an open session."""
    lines = "".join(" " * 8 + line + "\n" for line in body.strip().splitlines())
    return HEAD + lines + "asyncio.run(main())\n"


def recorded_and_replayed(
    folder: Path, body: str, server: ScriptedServer | None, *args: str, moves: bool = False
) -> Recorded:
    """Run without us, record, replay: the same words each time, and not one connection in the replay.

    `moves`: what each read gives depends on how the machine runs, so that only the replay must say the same.
    """
    session = Session(folder, written(body))
    words = args if server is None else (server.url, *args)
    without = session.plain(*words)
    assert without.status == 0, without.err
    recorded = session.record(*words)
    assert recorded.out == without.out or moves
    assert recorded.notes() == []
    for _ in range(2):
        before = None if server is None else (server.hits, server.connections)
        replayed = recorded.replay()
        assert replayed.out == recorded.out
        assert server is None or (server.hits, server.connections) == before
        assert replayed.clean, (replayed.misses, replayed.attempts, replayed.frames)
        assert replayed.drift == []
        assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    return recorded


# --- requests and answers ---------------------------------------------------------------------------------------------

PLAIN = """
async with session.post(BASE + "/v1?x=1&y=%20", json={"a": "grüße"}, headers={"X-Two": "1"}) as r:
    told(r.status, r.reason, r.version, r.raw_headers, await r.json(), r.url, r.headers.getall("x-many"))
async with session.get(BASE + "/again", params={"q": ["1", "2"]}) as r:
    told(r.status, await r.read(), r.content.total_bytes)
async with session.delete(BASE + "/none") as r:
    told(r.status, await r.read(), r.reason)
async with session.head(BASE + "/head") as r:
    told(r.status, r.headers["content-length"], await r.read())
async with session.get(BASE + "/there") as r:
    told(r.status, await r.text(), r.url, [h.status for h in r.history])
for path in ("gzip", "deflate", "br"):
    async with session.get(BASE + "/" + path) as r:
        told(path, r.headers.get("content-encoding"), await r.read())
try:
    async with session.get(BASE + "/missing", raise_for_status=True) as r:
        pass
except aiohttp.ClientResponseError as e:
    told(e.status, e.message, e.request_info.url)
"""


def plain_script(request: Request) -> Behaviour:
    many = (("X-Many", "one"), ("x-many", "two"), ("content-type", "application/json"))
    coding = request.path[1:]
    if coding in ("gzip", "deflate", "br"):
        return encoded(b"crowded harbour " * 99, coding=coding)
    return {
        "/v1": Reply(status=201, reason="Made", headers=many, chunks=(b'{"b":2}',)),
        "/again": plain(b"\x00\xff"),
        "/none": Reply(status=204),
        "/head": plain(b"never sent"),
        "/there": redirect("/here", status=302),
        "/here": plain(b"arrived"),
        "/missing": json_reply({}, status=404),
    }[request.path]


def test_requests_and_answers_come_back_whole(tmp_path: Path) -> None:
    with ScriptedServer(plain_script) as server:
        recorded = recorded_and_replayed(tmp_path, PLAIN, server)
        sent = server.requests[10]
        assert server.connections == 2, "one connection each time, kept open"
    effects = recorded.log.effects
    first = effects[0]
    assert (first.method, first.url) == ("POST", f"http://{sent.header('host')}/v1?x=1&y=%20")
    assert first.body == sent.body
    assert [(name.decode(), value.decode()) for name, value in first.headers] == list(sent.headers)
    assert (first.status, first.reason, first.version, first.answer) == (201, b"Made", b"HTTP/1.1", b'{"b":2}')
    assert (b"X-Many", b"one") in first.response_headers, "names as sent"
    assert {effect.ended for effect in effects[:-1]} == {"eof"}
    assert {effect.path for effect in effects} == {"0/a1"}, "the task that asked, not the one that wrote"
    assert [effect.status for effect in effects[4:6]] == [302, 200]
    gzip = effects[6]
    assert gzip.answer == compress(b"crowded harbour " * 99, "gzip")


SENT = """
async def parts():
    for part in (b"one ", b"", b"two ", b"three"):
        yield part
        await asyncio.sleep(0)
for data in (parts(), b"x" * 300000, {"a": "1"}, bytearray(b"raw"), open(__file__, "rb")):
    async with session.post(BASE + "/up", data=data) as r:
        told(r.status, await r.text())
form = aiohttp.FormData({"note": "ö"})
form.add_field("file", b"tide table" * 9000, filename="tide.txt")
async with session.post(BASE + "/up", data=form) as r:
    told(r.status, await r.text())
async with session.post(BASE + "/up", data=b"shrunk " * 500, compress="gzip") as r:
    told(r.status, await r.text())
async with session.post(BASE + "/up", data=b"asked first", expect100=True) as r:
    told(r.status, await r.text())
async with session.post(BASE + "/no", data=b"never sent", expect100=True) as r:
    told(r.status, await r.text())
async def broken():
    yield b"one "
    raise ValueError("out of parts")
try:
    async with session.post(BASE + "/up", data=broken()) as r:
        told(r.status)
except Exception as e:
    fault(e)
async with session.get(BASE + "/up") as r:
    told(r.status, await r.text())
"""


def upload_script(request: Request) -> Behaviour:
    if request.path == "/no":
        return Reply(status=417, headers=(("connection", "close"),))
    answer = plain(b"%d bytes" % len(request.body))
    if request.header("expect"):
        return Reply(chunks=answer.chunks, interim=((100, ()),))
    return answer


def test_bodies_are_recorded_without_their_framing_whole_or_as_far_as_they_were_sent(tmp_path: Path) -> None:
    with ScriptedServer(upload_script) as server:
        recorded = recorded_and_replayed(tmp_path, SENT, server)
    effects = recorded.log.effects
    assert effects[0].body == b"one two three"
    assert effects[1].body == b"x" * 300000
    assert effects[2].body == b"a=1"
    assert b"tide table" * 9000 in effects[5].body
    assert effects[6].body == compress(b"shrunk " * 500, "gzip") or len(effects[6].body) < 200
    assert effects[7].body == b"asked first"
    assert (effects[7].status, effects[7].answer) == (200, b"11 bytes")
    assert effects[9].body == b"one "
    assert [one.body_complete for one in effects] == [True] * 8 + [one.body_complete for one in effects[8:9]] + [
        False,
        True,
    ]


# --- pieces -----------------------------------------------------------------------------------------------------------

PIECES = """
async def slowly(r, pause):
    async for piece in r.content.iter_any():
        told(len(piece), piece)
        await asyncio.sleep(pause)
async def lines(r, pause):
    async for line in r.content:
        told(line)
        await asyncio.sleep(pause)
async def sized(r, pause):
    async for piece in r.content.iter_chunked(5):
        told(piece)
        await asyncio.sleep(pause)
async def chunks(r, pause):
    async for piece, end in r.content.iter_chunks():
        told(piece, end)
        await asyncio.sleep(pause)
async def mixed(r, pause):
    told(await r.content.read(2))
    await asyncio.sleep(pause)
    told(await r.content.readany())
    told(await r.content.readline())
    await asyncio.sleep(pause)
    told(await r.content.readchunk())
    told(r.content.read_nowait(1) if not r.content.at_eof() and r.content._buffer else None)
    await asyncio.sleep(pause)
    told(await r.content.read())
for read in (slowly, lines, sized, chunks, mixed):
    for pause in (0, 0.03, 0.07):
        async with session.get(BASE + "/flow") as r:
            told(read.__name__, pause, r.status)
            await read(r, pause)
"""


def flow(_: Request) -> Behaviour:
    return stream([b"one\ntw", 0.02, b"o\nthr", 0.05, b"ee\n", b"four\nfive", 0.01, b"\nsix\n"], borders="reads")


def test_every_way_of_reading_gets_the_same_pieces_again_slow_or_fast(tmp_path: Path) -> None:
    with ScriptedServer(flow) as server:
        recorded = recorded_and_replayed(tmp_path, PIECES, server, moves=True)
    calls = [effect for effect in recorded.log.effects if effect.kind == "http"]
    assert all(effect.answer == b"one\ntwo\nthree\nfour\nfive\nsix\n" for effect in calls)
    assert any(arrival.kind == "move" for effect in recorded.log.effects for arrival in effect.arrivals)


def test_without_the_readers_moves_a_slow_reader_would_get_other_pieces(tmp_path: Path) -> None:
    with ScriptedServer(flow) as server:
        recorded = Session(tmp_path, written(PIECES)).record(server.url)
    kept = [[frame for frame in fr.read_log(log) if frame.kind != fr.MOVE] for log in recorded.tape]
    recorded.tape = [fr.write_log(frames)[0] for frames in kept]
    recorded.log = read_effect_log(recorded.tape)
    assert recorded.replay().out != recorded.out


BIG = """
async with session.get(BASE + "/big") as r:
    total = 0
    async for piece in r.content.iter_chunked(70000):
        total += len(piece)
        told(len(piece))
        if total < 800000:
            await asyncio.sleep(0.002)
async with session.get(BASE + "/big") as r:
    told(len(await r.read()))
async with session.get(BASE + "/gzip") as r:
    async for piece in r.content.iter_any():
        told(len(piece))
        await asyncio.sleep(0.001)
"""


def test_a_body_that_outruns_its_reader_is_held_back_at_the_same_places(tmp_path: Path) -> None:
    def answer(request: Request) -> Behaviour:
        return encoded(b"wide " * 400000, coding="gzip") if request.path == "/gzip" else plain(b"0123456789" * 300000)

    with ScriptedServer(answer) as server:
        recorded_and_replayed(tmp_path, BIG, server, moves=True)


@pytest.mark.parametrize("moves", [b"", b"W", b"R3W", b"RWRW", b"R12W2R100W"])
def test_moves_are_written_in_short_and_read_again(moves: bytes) -> None:
    read = read_moves(moves)
    written_again = Moves()
    for what, count in read:
        for _ in range(count):
            written_again.add(what)
    assert written_again.take() == moves
    assert written_again.take() == b""


# --- what the program has beside --------------------------------------------------------------------------------------

MANY = """
done = []
async def one(n):
    async with session.get(BASE + f"/{n}") as r:
        text = await r.text()
        done.append(n)
        return text
answers = await asyncio.gather(*[one(n) for n in range(200)])
told(answers == [f"answer /{n}" for n in range(200)], done)
told(len(asyncio.all_tasks()), asyncio.current_task().get_name())
"""


def test_two_hundred_calls_at_once_complete_in_the_recorded_order(tmp_path: Path) -> None:
    def answer(request: Request) -> Behaviour:
        made = plain(f"answer {request.path}")
        return Reply(headers=made.headers, chunks=made.chunks, delay=(199 - int(request.path[1:])) * 0.002)

    with ScriptedServer(answer) as server:
        recorded = Session(tmp_path, written(MANY)).record(server.url)
        replayed = recorded.replay()
    assert recorded.out.startswith("True [")
    assert replayed.out == recorded.out
    assert replayed.clean
    assert replayed.drift == []


TASKS = """
import random, uuid
async def child(n):
    async with session.get(f"http://localhost:{BASE.rsplit(':', 1)[1]}/{n}") as r:
        return n, random.random(), str(uuid.uuid4()), await r.text()
async with session.get(f"http://localhost:{BASE.rsplit(':', 1)[1]}/first") as r:
    await r.read()
told(await asyncio.gather(child(1), child(2)))
told(await asyncio.gather(child(3), child(4)))
"""


def test_the_tasks_of_a_connection_shift_no_task_path_of_the_program(tmp_path: Path) -> None:
    """Names are looked up in an executor and addresses raced in tasks; a replay does neither, and draws by path."""
    with ScriptedServer(lambda request: plain(request.path)) as server:
        session = Session(tmp_path, written(TASKS))
        recorded = session.record(server.url)
        replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (replayed.clean, replayed.drift) == (True, [])
    paths = {effect.path for effect in recorded.log.effects}
    assert paths == {said["path"] for _, said in replayed.said(fr.SERVED)}


PROXY = """
async with session.get("http://inner.invalid/where?x=1", proxy=BASE) as r:
    told(r.status, await r.text(), r.url)
"""


def test_a_request_through_a_proxy_is_the_request_to_its_server(tmp_path: Path) -> None:
    with ScriptedServer(lambda _: plain(b"by proxy")) as server:
        recorded = recorded_and_replayed(tmp_path, PROXY, server)
    assert [effect.url for effect in recorded.log.effects] == ["http://inner.invalid/where?x=1"]


SECRET = """
for _ in range(2):
    async with session.get(BASE + "/", headers={"authorization": "Bearer sk-tide-4711"}) as r:
        told(r.status, r.cookies, await r.text())
"""


def test_credentials_enter_no_frame(tmp_path: Path) -> None:
    once = Reply(chunks=(b"calm",), headers=(("set-cookie", "session=secret-cookie-4711"),))
    with ScriptedServer(lambda _: once) as server:
        recorded = Session(tmp_path, written(SECRET)).record(server.url)
        replayed = recorded.replay()
    assert recorded.out.count("secret-cookie-4711") == 2
    kept = b"".join(frame.payload for frame in recorded.frames)
    assert b"4711" not in kept
    assert replayed.clean
    assert replayed.out.count("200") == 2


CHANGED = """
from pathlib import Path
body = b"changed" if Path("changed").exists() else b"as it was"
try:
    async with session.post(BASE + "/", data=body) as r:
        told(r.status, await r.text())
except BaseException as e:
    told(type(e).__name__)
"""


def test_a_changed_request_is_a_miss_that_whoever_waits_sees(tmp_path: Path) -> None:
    with ScriptedServer(lambda _: plain(b"calm")) as server:
        recorded = Session(tmp_path, written(CHANGED)).record(server.url)
        before = server.connections
        (tmp_path / "changed").touch()
        replayed = recorded.replay()
        assert server.connections == before
    assert replayed.out == "EffectMissed\n"
    (miss,) = replayed.misses
    assert miss["firstDifference"]["path"].startswith("/body")


READS_ON = """
from pathlib import Path
try:
    async with session.get(BASE + "/") as r:
        told(await r.content.readany())
        if Path("changed").exists():
            told(await r.content.readany())
except BaseException as e:
    told(type(e).__name__)
"""


def test_a_program_that_reads_past_what_it_read_is_a_miss(tmp_path: Path) -> None:
    with ScriptedServer(lambda _: stream([b"one"], ending="hang")) as server:
        recorded = Session(tmp_path, written(READS_ON)).record(server.url)
    assert [effect.ended for effect in recorded.log.effects] == ["closed_early"]
    assert recorded.replay().clean
    (tmp_path / "changed").touch()
    replayed = recorded.replay()
    assert replayed.out == "b'one'\nEffectMissed\n"
    assert replayed.misses[0]["firstDifference"]["path"] == "/answer/end"


SOCKET = """
async with session.ws_connect(BASE + "/") as ws:
    told((await ws.receive()).data)
    told((await ws.receive()).type)
"""


def test_a_websocket_passes_and_is_noted_as_bypassed(tmp_path: Path) -> None:
    with serve(lambda connection: connection.send("hello"), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        recorded = Session(tmp_path, written(SOCKET)).record(url)
        server.shutdown()
        thread.join()
    assert recorded.out == "hello\n8\n"
    assert recorded.notes() == [("bypassed.websocket", f"{url}/")]
    assert recorded.log.effects == []


OWN = """
from aiohttp import web
async def hello(request):
    return web.Response(text="from within")
app = web.Application()
app.router.add_get("/", hello)
runner = web.AppRunner(app)
await runner.setup()
site = web.TCPSite(runner, "127.0.0.1", 0)
await site.start()
async with session.get(f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/") as r:
    told(r.status, await r.text())
async with session.get(BASE) as r:
    told(r.status, await r.text())
await runner.cleanup()
"""


def test_a_call_to_a_server_of_the_run_itself_is_no_effect_and_passes(tmp_path: Path) -> None:
    with ScriptedServer(lambda _: plain(b"from outside")) as server:
        recorded = recorded_and_replayed(tmp_path, OWN, server)
    assert [effect.answer for effect in recorded.log.effects] == [b"from outside"]

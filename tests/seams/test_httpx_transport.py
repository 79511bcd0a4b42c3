"""httpx and httpx2, sync and async: the program sees what it would have seen, and all of it comes back in a replay.

Real clients against a real server on loopback. A program is written once: `ASYNC`, `AWAIT`, `Client`, `.ITER_`, `.READ`
and `.CLOSE` become the words of the sync or the async client.
"""

from __future__ import annotations

import json
import socket
import textwrap
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.model.effect import Effect
from tachograph.testing.codings import compress
from tachograph.testing.scripted import (
    Behaviour,
    Hangup,
    Raw,
    Reply,
    Request,
    ScriptedServer,
    Silence,
    encoded,
    json_reply,
    plain,
    redirect,
    refused_port,
    stream,
)
from tests.seams.driver import Recorded, Session, marked_files

WORDS = {
    "sync": {
        "ASYNC ": "", "AWAIT ": "", ".ITER_": ".iter_", ".READ(": ".read(", ".CLOSE(": ".close(",
        "__ITER__": "__iter__",
    },
    "async": {
        "ASYNC ": "async ", "AWAIT ": "await ", ".ITER_": ".aiter_", ".READ(": ".aread(", ".CLOSE(": ".aclose(",
        "__ITER__": "__aiter__", "library.Client(": "library.AsyncClient(",
    },
}  # fmt: skip
CLIENTS = [(library, mode) for library in ("httpx", "httpx2") for mode in ("sync", "async")]
each_client = pytest.mark.parametrize("clients", [[one] for one in CLIENTS], ids=["-".join(one) for one in CLIENTS])


def written(body: str, clients: Sequence[tuple[str, str]] = CLIENTS) -> str:
    """A program that does `body`, with `client` open, with each of the clients in turn."""
    source = "import asyncio, json, os, sys, time\nBASE = sys.argv[1]\n"
    source += "def told(*words):\n    print(*words, flush=True)\n"
    for library, mode in clients:
        lines = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
        part = f"ASYNC def main():\n    ASYNC with library.Client(timeout=10) as client:\n{lines}\n"
        for word, becomes in WORDS[mode].items():
            part = part.replace(word, becomes)
        source += f"import {library} as library\ntold({library!r}, {mode!r})\n{part}"
        source += "asyncio.run(main())\n" if mode == "async" else "main()\n"
    return source


def for_each(recorded: Recorded, clients: Sequence[tuple[str, str]] = CLIENTS) -> list[list[Effect]]:
    """The effects of each client, checked to be its own and as many as the others'."""
    effects = [effect for effect in recorded.log.effects if effect.kind == "http"]  # the programs sleep too
    size = len(effects) // len(clients)
    parts = [effects[size * number : size * (number + 1)] for number in range(len(clients))]
    assert len(effects) == size * len(clients)
    assert [{effect.library for effect in part} for part in parts] == [{library} for library, _ in clients]
    return parts


def recorded_and_replayed(folder: Path, source: str, server: ScriptedServer, *args: str) -> Recorded:
    """Run without us, record, replay: the same words each time, and not one connection in the replay."""
    session = Session(folder, source)
    without = session.plain(server.url, *args)
    assert without.status == 0, without.err
    recorded = session.record(server.url, *args)
    assert recorded.out == without.out
    assert recorded.notes() == []
    before = server.hits, server.connections
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (server.hits, server.connections) == before
    assert replayed.clean, (replayed.misses, replayed.attempts)
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    return recorded


# --- requests and answers ---------------------------------------------------------------------------------------------

PLAIN = """
r = AWAIT client.post(BASE + "/v1?x=1&y=%20", json={"a": "grüße"}, headers={"X-Two": "1"})
told(r.status_code, r.reason_phrase, r.http_version, r.headers.raw, r.json(), r.text, r.url)
told(r.headers.get_list("x-many"), r.is_closed, r.is_stream_consumed, r.num_bytes_downloaded, type(r.content))
r = AWAIT client.get(BASE + "/again", params={"q": ["1", "2"]})
told(r.status_code, r.content)
r = AWAIT client.request("DELETE", BASE + "/none")
told(r.status_code, r.content, r.reason_phrase)
r = AWAIT client.head(BASE + "/head")
told(r.status_code, r.headers["content-length"], r.content)
"""


def plain_script(request: Request) -> Behaviour:
    many = [("X-Many", "one"), ("x-many", "two"), ("X-Empty", "")]
    many.append(("content-type", "application/json"))
    return {
        "/v1": Reply(status=201, reason="Made", headers=tuple(many), chunks=(b'{"b":2}',)),
        "/again": plain(b"\x00\xff"),
        "/none": Reply(status=204),
        "/head": plain(b"never sent"),
    }[request.path]  # fmt: skip


def test_requests_and_answers_come_back_whole(tmp_path: Path) -> None:
    with ScriptedServer(plain_script) as server:
        recorded = recorded_and_replayed(tmp_path, written(PLAIN), server)
        requests = server.requests[16:32:4]
    for (first, again, none, head), sent in zip(for_each(recorded), requests, strict=True):
        assert (first.method, first.url) == ("POST", f"http://{sent.header('host')}/v1?x=1&y=%20")
        assert first.body == sent.body
        assert [(name.decode(), value.decode()) for name, value in first.headers] == list(sent.headers)
        assert (first.status, first.reason, first.version, first.answer) == (201, b"Made", b"HTTP/1.1", b'{"b":2}')
        assert (b"X-Many", b"one") in first.response_headers, "names as sent"
        assert {effect.ended for effect in (first, again, none, head)} == {"eof"}


CODED = """
for path in ("gzip", "br", "zstd", "deflate", "empty", "binary"):
    r = AWAIT client.get(BASE + "/" + path)
    told(path, r.headers.get("content-encoding"), len(r.content), r.content[:40])
"""


def coded_script(request: Request) -> Behaviour:
    name = request.path[1:]
    if name == "empty":
        return Reply(headers=(("content-encoding", "gzip"),))
    if name == "binary":
        return plain(bytes(range(256)) * 8 + b"abc")
    return encoded("grüße ".encode() * 50, coding=name)


def test_coded_empty_and_binary_bodies_come_back_as_they_were_sent(tmp_path: Path) -> None:
    with ScriptedServer(coded_script) as server:
        recorded = recorded_and_replayed(tmp_path, written(CODED), server)
    for effects in for_each(recorded):
        assert effects[0].answer == compress("grüße ".encode() * 50, "gzip"), "undecoded wire bytes"
        assert effects[4].answer == b""
        assert len(effects[5].answer) == 2051


# --- streams ----------------------------------------------------------------------------------------------------------

EVENTS = 'data: {"text": "grüße"}\n\ndata: {"text": "\u2028 end"}\n\ndata: [DONE]\n\n'.encode()
CUT = [EVENTS[at : at + 7] for at in range(0, len(EVENTS), 7)]  # inside JSON and inside characters of several bytes

STREAMED = """
ASYNC with client.stream("GET", BASE + "/raw") as r:
    told([part ASYNC for part in r.ITER_raw()])
ASYNC with client.stream("GET", BASE + "/bytes") as r:
    told([part ASYNC for part in r.ITER_bytes(5)])
ASYNC with client.stream("GET", BASE + "/text") as r:
    told([part ASYNC for part in r.ITER_text()])
ASYNC with client.stream("GET", BASE + "/lines") as r:
    told([part ASYNC for part in r.ITER_lines()], r.is_closed)
ASYNC with client.stream("GET", BASE + "/read") as r:
    told(AWAIT r.READ(), r.is_stream_consumed)
"""


def test_streams_keep_their_chunks_wherever_they_are_cut(tmp_path: Path) -> None:
    with ScriptedServer([], then=stream(CUT, borders="reads")) as server:
        recorded = recorded_and_replayed(tmp_path, written(STREAMED), server)
    for effects in for_each(recorded):
        assert [effect.chunks for effect in effects] == [CUT] * 5
        assert {effect.ended for effect in effects} == {"eof"}


DIES = """
ASYNC with client.stream("GET", BASE) as r:
    ASYNC for part in r.ITER_raw():
        os.kill(os.getpid(), 9)
"""


@each_client
def test_a_chunk_is_in_the_spool_before_the_program_has_it(tmp_path: Path, clients: list[tuple[str, str]]) -> None:
    with ScriptedServer([], then=stream([b"first", 0.2, b"second"], borders="reads")) as server:
        recorded = Session(tmp_path, written(DIES, clients)).record(server.url)
    assert recorded.ended.status == -9
    (effect,) = recorded.log.effects
    assert (effect.chunks, effect.ended) == ([b"first"], "open_at_end")


NOT_DELAYED = """
ASYNC with client.stream("GET", BASE + "/stream") as r:
    told("head")
    AWAIT client.get(BASE + "/go-on")
    ASYNC for part in r.ITER_raw():
        told(part)
        AWAIT client.get(BASE + "/go-on")
"""


def test_head_and_chunks_reach_the_program_as_they_come(tmp_path: Path) -> None:
    """The server sends each part only after the program asked for it with another call: a delay would be a deadlock."""
    gates = threading.Semaphore(0)

    def parts() -> Iterator[bytes]:
        for part in (b"one", b"two", b"three"):
            assert gates.acquire(timeout=20)
            yield part

    def script(request: Request) -> Behaviour:
        if request.path == "/go-on":
            gates.release()
            return plain()
        while gates.acquire(blocking=False):
            pass
        return stream(parts())

    with ScriptedServer(script) as server:
        recorded = recorded_and_replayed(tmp_path, written(NOT_DELAYED), server)
    for effects in for_each(recorded):
        assert effects[0].chunks == [b"one", b"two", b"three"]


EARLY = """
ASYNC with client.stream("GET", BASE + "/three") as r:
    parts = []
    ASYNC for part in r.ITER_raw():
        parts.append(part)
        if len(parts) == 3: break
    told(parts)
ASYNC with client.stream("GET", BASE + "/done") as r:
    ASYNC for line in r.ITER_lines():
        told(line)
        if line == "data: [DONE]": break
ASYNC with client.stream("GET", BASE + "/unread") as r:
    told(r.status_code)
r = AWAIT client.send(client.build_request("GET", BASE + "/closed"), stream=True)
AWAIT r.CLOSE()
told(r.is_closed)
"""


def test_a_client_that_stops_reading_leaves_a_record_that_says_so(tmp_path: Path) -> None:
    chunks: list[bytes | float] = [part for chunk in CUT for part in (chunk, 0.001)]
    with ScriptedServer([], then=stream([*chunks, b"more", 0.05, b"and more"], borders="reads")) as server:
        recorded = recorded_and_replayed(tmp_path, written(EARLY), server)
    for three, done, unread, closed in for_each(recorded):
        assert (three.chunks, three.ended) == (CUT[:3], "closed_early")
        assert (b"[DONE]" in done.answer, done.ended) == (True, "closed_early")
        assert (unread.chunks, unread.ended) == ([], "closed_early")
        assert (closed.chunks, closed.ended) == ([], "closed_early")


OPEN = """
r = AWAIT client.send(client.build_request("GET", BASE), stream=True)
ASYNC for part in r.ITER_raw():
    told(part)
    os._exit(0)
"""


@each_client
def test_a_stream_that_is_open_when_the_program_ends_is_left_open(
    tmp_path: Path, clients: list[tuple[str, str]]
) -> None:
    with ScriptedServer([], then=stream([b"one", 5.0, b"two"])) as server:
        recorded = recorded_and_replayed(tmp_path, written(OPEN, clients), server)
    (effect,) = recorded.log.effects
    assert (effect.chunks, effect.ended) == ([b"one"], "open_at_end")


# --- what breaks ------------------------------------------------------------------------------------------------------

BROKEN = """
def caught(fault):
    told(type(fault) is getattr(library, type(fault).__name__), type(fault).__mro__[:3], str(fault), repr(fault))
    told(fault.request.method, type(fault.request) is library.Request)
for path in ("/cut", "/reset", "/hangup", "/malformed", "/short"):
    parts = []
    try:
        ASYNC with client.stream("GET", BASE + path) as r:
            ASYNC for part in r.ITER_raw():
                parts.append(part)
    except library.TransportError as fault:
        caught(fault)
    told(path, parts)
try:
    AWAIT client.get(sys.argv[2])
except library.ConnectError as fault:
    caught(fault)
try:
    AWAIT client.get(BASE + "/silent", timeout=library.Timeout(10, read=0.1))
except library.ReadTimeout as fault:
    caught(fault)
try:
    ASYNC with client.stream("GET", BASE + "/hangs", timeout=library.Timeout(10, read=0.5)) as r:
        ASYNC for part in r.ITER_raw():
            told(part)
except library.ReadTimeout as fault:
    caught(fault)
try:
    AWAIT client.get("unknown://nothing")
except library.UnsupportedProtocol as fault:
    caught(fault)
"""


def broken_script(request: Request) -> Behaviour:
    behaviours: dict[str, Behaviour] = {
        "/cut": stream([b"one", b"two", b"three"], borders="reads", ending="cut", cut_after=8),
        "/reset": stream([b"one", b"two"], borders="reads", ending="reset", cut_after=6),
        "/hangup": Hangup(),
        "/malformed": Raw(chunks=(b"no http at all\r\n\r\n",)),
        "/short": Reply(headers=(("content-length", "9"),), chunks=(b"four",), ending="cut"),
        "/silent": Silence(),
        "/hangs": stream([b"one"], borders="reads", ending="hang"),
    }
    return behaviours[request.path]


def test_what_breaks_raises_the_same_exception_of_the_same_class(tmp_path: Path) -> None:
    with ScriptedServer(broken_script) as server, refused_port() as port:
        recorded = recorded_and_replayed(tmp_path, written(BROKEN), server, f"http://127.0.0.1:{port}/")
    for effects in for_each(recorded):
        assert [effect.ended for effect in effects] == ["error"] * 9
        assert effects[0].answer == b"onetwoth"


CANCELLED = """
async def hang():
    r = await client.get(BASE + "/silent")
    told("never", r)
async def read(parts):
    async with client.stream("GET", BASE + "/hangs") as r:
        async for part in r.aiter_raw():
            parts.append(part)
async def limited(work):
    try:
        await asyncio.wait_for(work, 0.6)
    except TimeoutError:
        return "timed out"
async def cancelled():
    task = asyncio.create_task(hang())
    await asyncio.sleep(0.3)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
one, two = [], []
told(await asyncio.gather(limited(hang()), limited(read(one)), cancelled()), one)
try:
    async with asyncio.timeout(0.6):
        await asyncio.gather(hang(), read(two))
except TimeoutError:
    told("both", two)
"""


def test_what_the_program_cut_off_is_cut_off_again_and_never_completed(tmp_path: Path) -> None:
    clients = CLIENTS[1::2]
    with ScriptedServer(broken_script) as server:
        recorded = recorded_and_replayed(tmp_path, written(CANCELLED, clients), server)
    for effects in for_each(recorded, clients):
        assert [effect.ended for effect in effects] == ["cut_off"] * 5
        assert [effect.chunks for effect in effects] == [
            [b"one"] if effect.url.endswith("/hangs") else [] for effect in effects
        ]


# --- uploads ----------------------------------------------------------------------------------------------------------


class SlowReader:
    """A server that writes a mark in a file once the first part of an upload has arrived, and answers at its end."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                data = b""
                while b"0\r\n\r\n" not in data and (part := connection.recv(65536)):
                    data += part
                    if b"first" in data:
                        self._mark.touch()
                body = data.partition(b"\r\n\r\n")[2]
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


UPLOAD = """
mark = sys.argv[2]
if len(sys.argv) < 4: os.path.exists(mark) and os.unlink(mark)
ASYNC def parts():
    yield b"first"
    until = time.monotonic() + 10
    while not os.path.exists(mark) and time.monotonic() < until:
        time.sleep(0.005)
    yield b"as it was sent" if os.path.exists(mark) else b"read ahead"
r = AWAIT client.post(BASE, content=parts())
told(r.text)
ASYNC def broken():
    yield b"first"
    raise ValueError("the program's own")
try:
    AWAIT client.post(BASE, content=broken())
except ValueError as fault:
    told(type(fault), fault)
"""


def test_an_upload_is_watched_while_it_is_sent_and_never_read_ahead(tmp_path: Path) -> None:
    server, mark = SlowReader(tmp_path / "mark"), str(tmp_path / "mark")
    try:
        recorded = Session(tmp_path, written(UPLOAD)).record(server.url, mark)
    finally:
        server.stop()
    assert "read ahead" not in recorded.out
    for whole, broken in for_each(recorded):
        assert (whole.body, whole.body_complete) == (b"firstas it was sent", True)
        assert (broken.body, broken.body_complete, broken.ended) == (b"first", False, "error")
    parts = [frame.payload for frame in recorded.frames if frame.kind == fr.BODY]
    assert parts == [b"first", b"as it was sent", b"first"] * 4, "part by part"
    replayed = recorded.replay(server.url, mark, "keep the mark")
    assert replayed.out == recorded.out
    assert replayed.clean
    calls = [effect.index for effect in recorded.log.effects if effect.kind == "http"]
    assert [effect for effect in replayed.served if effect in calls] == calls, "the one that broke off too"


REDIRECTED = """
ASYNC def once():
    yield b"only once"
try:
    AWAIT client.post(BASE + "/307", content=once(), follow_redirects=True)
except library.StreamConsumed as fault:
    told(type(fault) is library.StreamConsumed)
class Twice:
    ASYNC def __ITER__(self):
        yield b"part one, "
        yield b"part two"
r = AWAIT client.post(BASE + "/307", content=Twice(), follow_redirects=True)
told(r.status_code, r.text, [h.status_code for h in r.history], r.url)
r = AWAIT client.post(BASE + "/307", json={"a": 1}, follow_redirects=True)
told(r.status_code, r.text, [h.status_code for h in r.history])
r = AWAIT client.post(BASE + "/303", data={"a": "1"}, follow_redirects=True)
told(r.status_code, r.text, [(h.status_code, h.headers["location"]) for h in r.history])
"""
MULTIPART = """
r = client.post(BASE + "/307", files={"f": ("n.bin", b"\\x00" * 300)}, data={"k": "v"}, follow_redirects=True)
told(r.status_code, len(r.text), len(r.history))
"""


def redirecting_script(request: Request) -> Behaviour:
    if request.path in ("/307", "/303"):
        return redirect("/there", status=int(request.path[1:]))
    return plain(b"%s %b" % (request.method.encode(), request.body.replace(b"\x00", b"0")))


def test_each_hop_of_a_redirect_is_an_effect_of_its_own_with_its_own_body(tmp_path: Path) -> None:
    with ScriptedServer(redirecting_script) as server:
        recorded = recorded_and_replayed(tmp_path, written(REDIRECTED), server)
    for effects in for_each(recorded):
        assert [(effect.method, effect.status) for effect in effects] == [
            ("POST", 307), ("POST", 0), ("POST", 307), ("POST", 200), ("POST", 307), ("POST", 200), ("POST", 303),
            ("GET", 200),
        ]  # fmt: skip
        assert [effect.body for effect in effects[:4]] == [b"only once", b"", *[b"part one, part two"] * 2]
        assert [effect.body_complete for effect in effects] == [True, False, *[True] * 6]


def test_a_form_of_parts_with_a_random_boundary_finds_its_recording(tmp_path: Path) -> None:
    clients = CLIENTS[::2]
    with ScriptedServer(redirecting_script) as server:
        recorded = recorded_and_replayed(tmp_path, written(MULTIPART, clients), server)
    for first, second in for_each(recorded, clients):
        assert first.body == second.body
        assert b"\x00" * 300 in first.body


# --- what stays out, and who is reached -------------------------------------------------------------------------------

SECRET = "sk-ant-SECRETSECRETSECRET"
SECRETS = f"""
headers = {{"Authorization": "Bearer {SECRET}", "x-api-key": "{SECRET}"}}
r = AWAIT client.get(BASE + "/q?key={SECRET}&x=1", headers=headers)
told(r.status_code, "{SECRET}" in r.text, "{SECRET}" in r.headers.get("set-cookie", ""))
"""


def test_credentials_of_headers_and_queries_are_in_no_frame_and_nothing_is_readable_on_disk(tmp_path: Path) -> None:
    answer = plain(f"body with {SECRET}", headers={"set-cookie": f"session={SECRET}; Path=/"})
    with ScriptedServer([], then=answer) as server:
        recorded = Session(tmp_path, written(SECRETS)).record(server.url)
        assert SECRET in server.requests[0].target, "the server got the real one"
        replayed = recorded.replay()
    assert recorded.out.count("200 True True\n") == 4
    assert replayed.out.count("200 True False\n") == 4, "the body comes back exactly, the cookie as a placeholder"
    assert list(marked_files(recorded.spool, [SECRET.encode(), b"body with", b"127.0.0.1"])) == []
    frames = [frame for frame in recorded.frames if frame.kind != fr.CHUNK]
    assert not [frame for frame in frames if SECRET.encode() in frame.payload]
    for (effect,) in for_each(recorded):
        tags = dict(effect.tags)
        assert {name.lower() for name in tags} == {"authorization", "x-api-key", "key"}
        assert len({*tags.values()}) == 2, "equal secrets have equal tags, `Bearer sk-...` is another value"


def test_a_client_that_was_made_before_we_came_is_watched_too(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain("pong")) as server:
        source = f"""
            import httpx, json, sys
            client = httpx.Client()
            other = httpx.AsyncClient()
            from tachograph.capture.install import start
            start(json.loads(sys.argv[1]))
            start_again = client.get({server.url!r})
            print(start_again.text)
        """
        recorded = Session(tmp_path, source).record_itself()
    assert recorded.out == "pong\n"
    assert [effect.summary for effect in recorded.log.effects] == [f"GET {server.url}"]


def test_a_transport_inside_the_program_is_no_boundary(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import httpx
        transport = httpx.MockTransport(lambda request: httpx.Response(200, text="inside"))
        print(httpx.Client(transport=transport).get("http://nowhere/").text)
    """).record()  # fmt: skip
    assert recorded.out == "inside\n"
    assert recorded.log.effects == []


RETRIES = """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="sk-test", max_retries=2)
r = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
print(r.choices[0].message.content, r.usage)
"""


def test_each_attempt_of_an_sdk_is_an_effect_of_its_own(tmp_path: Path) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    script = [json_reply({"error": {}}, status=429, headers={"retry-after-ms": "1"}), Hangup(), json_reply(answer)]
    with ScriptedServer(script) as server:
        recorded = Session(tmp_path, RETRIES).record(server.url)
        assert recorded.replay().out == recorded.out == "hello None\n"
        assert server.hits == 3
    calls = [effect for effect in recorded.log.effects if effect.kind == "http"]
    assert [(effect.status, effect.ended) for effect in calls] == [(429, "eof"), (0, "error"), (200, "eof")]
    assert json.loads(calls[0].body)["messages"][0]["content"] == "hi"

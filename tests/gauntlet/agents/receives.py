"""A server that opens a decision while it handles a request; it lives until it is stopped.

Settings: server (`threads`, `one`, `pool`, `asyncio`, `aiohttp`, `uvicorn`, or these three by
`uvloop`), library, url, port (of `pool`). It writes `serving.json` (port, pid)
when it is ready. Before it serves it asks the model once; before each decision it asks who is calling.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import queue
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from clients import SETTINGS, AsyncCaller, Caller, beside

import tachograph

STARTED = uuid.uuid4()


def ready(port: int) -> None:
    """Say where we serve."""
    Path("serving.tmp").write_text(json.dumps({"port": port, "pid": os.getpid()}))
    Path("serving.tmp").rename("serving.json")


def asks(asked: bytes, who: str, ticket: uuid.UUID) -> str:
    """What the model is asked in a decision: with what was known before it, and with draws of its own."""
    return f"{beside('ask.txt', 'please')}: {asked.decode()} for {who} {ticket} {uuid.uuid4()} {STARTED} {READY}"


def answer(asked: bytes) -> str:
    """One request, handled in a thread."""
    ticket = uuid.uuid4()
    who = CALLER.ask("who is calling?").text
    with tachograph.decision(agent="receiver", user="somebody", request=asked.decode()) as opened:
        said = CALLER.ask(asks(asked, who, ticket)).text
        opened.output(said)
    return said + beside("ending.txt", "!")


async def answer_async(asked: bytes) -> str:
    """One request, handled in a task."""
    ticket = uuid.uuid4()
    who = (await ASYNC_CALLER.ask("who is calling?")).text
    async with tachograph.decision(agent="receiver", request=asked.decode()) as opened:
        left = asyncio.create_task(ASYNC_CALLER.ask("left " + asks(asked, who, ticket)))
        said = (await ASYNC_CALLER.ask("right " + asks(asked, who, ticket))).text
        opened.output(said + (await left).text)
    return said + beside("ending.txt", "!")


class Handler(http.server.BaseHTTPRequestHandler):
    """Takes bodies of a known length and chunked ones."""

    protocol_version = "HTTP/1.1"

    def body(self) -> bytes:
        """What came."""
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def do_POST(self) -> None:
        asked = self.body()
        if self.path == "/later":  # answered first, decided then
            self.send_response(202)
            self.send_header("set-cookie", "session=very-secret-session-1234")
            self.send_header("content-length", "0")
            self.end_headers()
            answer(asked)
            Path("done.txt").touch()
            return
        said = answer(asked).encode()
        self.send_response(200)
        self.send_header("set-cookie", "session=very-secret-session-1234; HttpOnly")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def threads(kind: Any) -> None:
    """Serve on threads, or one request at a time."""
    server = kind(("127.0.0.1", 0), Handler)
    ready(server.server_address[1])
    server.serve_forever()


def pool() -> None:
    """Serve on workers that stood before, at a port that is said; a decision of its own comes first."""
    taken: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()

    def work() -> None:
        while True:
            client = taken.get()
            Handler(client, client.getpeername(), None)  # type: ignore[arg-type]
            client.close()

    with tachograph.decision(agent="warm-up") as opened:
        opened.output(CALLER.ask("warm?").text)
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    listening = socket.create_server(("127.0.0.1", SETTINGS["port"]))
    ready(SETTINGS["port"])
    while True:
        taken.put(listening.accept()[0])


async def raw() -> None:
    """HTTP as one writes it by hand."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            said = (await answer_async(await reader.readexactly(length))).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said))
            await writer.drain()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def aiohttp_web() -> None:
    """aiohttp's server."""
    from aiohttp import web

    async def handle(request: web.Request) -> web.Response:
        return web.Response(text=await answer_async(await request.read()))

    app = web.Application()
    app.router.add_post("/{any}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    ready(site._server.sockets[0].getsockname()[1])  # type: ignore[union-attr]
    await asyncio.Event().wait()


async def uvicorn_asgi() -> None:
    """An ASGI application under uvicorn."""
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        said = (await answer_async(body)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-kind", b"asgi")]})
        for at in range(0, len(said), 7):
            await send({"type": "http.response.body", "body": said[at : at + 7], "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve([sock]))
    while not server.started:
        await asyncio.sleep(0.01)
    ready(sock.getsockname()[1])
    await task


CALLER = Caller(SETTINGS["library"], SETTINGS["url"])
ASYNC_CALLER = AsyncCaller(SETTINGS["library"], SETTINGS["url"])


def uvloop_main() -> None:
    """The same under uvloop."""
    import uvloop

    uvloop.run({"uvloop": uvicorn_asgi, "uvloop_aiohttp": aiohttp_web, "uvloop_raw": raw}[SETTINGS["server"]]())


LOOPS = {"asyncio": raw, "aiohttp": aiohttp_web, "uvicorn": uvicorn_asgi}
READY = CALLER.ask("are you there?").text

if __name__ == "__main__":
    if SETTINGS["server"] == "pool":
        pool()
    elif SETTINGS["server"].startswith("uvloop"):
        uvloop_main()
    elif SETTINGS["server"] in LOOPS:
        asyncio.run(LOOPS[SETTINGS["server"]]())
    else:
        threads(http.server.ThreadingHTTPServer if SETTINGS["server"] == "threads" else http.server.HTTPServer)

"""A server that lives until it is stopped; each request that comes in is a decision of an agent function.

Settings: server (`threads`, `asyncio`), library, url. It writes `serving.json` (port, pid) when it is ready.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from clients import SETTINGS, AsyncCaller, Caller, beside

import tachograph

STARTED = uuid.uuid4()


@tachograph.tool
def load_order(number: int) -> dict[str, Any]:
    """An order, with a random number of its own."""
    with Path("executed.txt").open("a", encoding="utf-8") as file:
        file.write("load_order\n")
    return {"number": number, "seen": str(uuid.uuid4())}


def question(asked: str, order: dict[str, Any]) -> str:
    """What the model is asked: with draws of this decision and one of the module's top."""
    return f"{beside('ask.txt', 'please')}: {asked} {order['seen']} {uuid.uuid4()} {time.time()} {STARTED}"


@tachograph.agent(name="counsel")
def counsel(asked: str, *, number: int, tags: list[str]) -> str:
    """One decision: a tool, a call here and one on a pool's thread."""
    order = load_order(number)
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    first = caller.ask(question(asked, order)).text
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(lambda: caller.ask(f"and {question(asked, order)}").text).result()
    return f"{first} / {second} / {tags}"


@tachograph.agent(name="counsel")
async def counsel_async(asked: str, *, number: int, tags: list[str]) -> str:
    """The same on a loop, with two calls at once."""
    order = load_order(number)
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    first = (await caller.ask(question(asked, order))).text

    async def ask(more: str) -> str:
        await asyncio.sleep(0)
        return (await caller.ask(f"{more} {question(asked, order)}")).text

    both = await asyncio.gather(ask("left"), ask("right"))
    return " / ".join([first, *both, str(tags)])


@tachograph.agent
def reads(stream: Any) -> int:
    """Its argument is no JSON value."""
    return len(stream)


def ready(port: int) -> None:
    """Say where we serve."""
    Path("serving.tmp").write_text(json.dumps({"port": port, "pid": os.getpid()}))
    Path("serving.tmp").rename("serving.json")


class Handler(http.server.BaseHTTPRequestHandler):
    """Each request is a decision."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        said = str(reads(asked)) if self.path == "/raw" else counsel(asked.decode(), number=len(asked), tags=["web"])
        self.send_response(200)
        self.send_header("content-length", str(len(said.encode())))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def threads() -> None:
    """Serve on threads, for ever."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready(server.server_address[1])
    server.serve_forever()


async def loop() -> None:
    """Serve on a loop, for ever: one line in, one line out."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            asked = line.decode().strip()
            writer.write((await counsel_async(asked, number=len(asked), tags=["line"])).encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    ready(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    if SETTINGS["server"] == "threads":
        threads()
    else:
        asyncio.run(loop())

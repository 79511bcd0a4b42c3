"""Serves HTTP on a port that it was given, and calls itself; each request that it serves asks the model.

Settings: server (`threads`: http.server, `uvicorn`, `uvicorn-asyncio`), library (of the calls to itself and to the
model), url (the model's), questions. The file `port.txt` beside it names the port, 0 where there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
from clients import SETTINGS, AsyncCaller, Caller, beside

PORT = int(beside("port.txt", "0"))


class Handler(http.server.BaseHTTPRequestHandler):
    """Asks the model what it was asked, and says which request this is."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        answer = Caller(SETTINGS["library"], SETTINGS["url"]).ask(asked).text
        body = json.dumps({"answer": answer, "id": str(uuid.uuid4()), "at": time.time()}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def threads() -> None:
    """One thread serves, one per connection, and this one asks."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        print("port", port)
        with httpx.Client() as client:
            for question in SETTINGS["questions"]:
                print(client.post(f"http://localhost:{port}/ask", content=question).text)
        print(httpx.post(f"http://127.0.0.1:{port}/ask", content="once more").text)
        server.shutdown()
    try:
        httpx.post(f"http://127.0.0.1:{port}/ask", content="is anybody there?")
    except httpx.ConnectError as fault:
        print("closed", type(fault).__name__)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """A starlette app under uvicorn, on the loop that already runs."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])

    async def ask(request: Request) -> JSONResponse:
        asked = (await request.body()).decode()
        return JSONResponse({"answer": (await caller.ask(asked)).text, "id": str(uuid.uuid4())})

    app = Starlette(routes=[Route("/ask", ask, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=PORT, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await task


async def tasks() -> None:
    """All on one loop; the questions go out at once."""
    async with serving() as port, httpx.AsyncClient() as client:
        print("port", port)
        print((await client.post(f"http://127.0.0.1:{port}/ask", content="first")).text)
        asked = (client.post(f"http://127.0.0.1:{port}/ask", content=question) for question in SETTINGS["questions"])
        for answer in await asyncio.gather(*asked):
            print(answer.text)


if __name__ == "__main__":
    if SETTINGS["server"] == "threads":
        threads()
    elif SETTINGS["server"] == "uvloop":
        import uvloop

        uvloop.run(tasks())
    else:
        asyncio.run(tasks())

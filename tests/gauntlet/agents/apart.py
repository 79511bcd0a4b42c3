"""One process of the run serves another one. Settings: url (the model's), library, way, start, questions.

`manager`: a `multiprocessing` manager, one of whose objects asks the model. `child`: a child serves HTTP and its parent
calls it. `parent`: the reverse.
"""

from __future__ import annotations

import http.server
import json
import multiprocessing
import subprocess
import sys
import threading
from multiprocessing.managers import BaseManager
from typing import Any

import httpx
from clients import SETTINGS, Caller

QUESTIONS = SETTINGS.get("questions", [])


class Asker:
    """What the manager serves: asks the model."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, question: str) -> str:
        """One call, from the manager's process."""
        self.asked += 1
        return f"{self.asked}: {Caller(SETTINGS['library'], SETTINGS['url']).ask(question).text}"


class Own(BaseManager):
    """A manager of our own."""


Own.register("Asker", Asker)


class Handler(http.server.BaseHTTPRequestHandler):
    """Asks the model what it was asked."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        body = Caller(SETTINGS["library"], SETTINGS["url"]).ask(asked).text.encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def fill(shared: Any, number: int) -> None:
    """Write into a manager's dict from another process."""
    shared[number] = number * number


def manager() -> None:
    """Objects of a manager, used here and in another process."""
    context = multiprocessing.get_context(SETTINGS["start"])
    with context.Manager() as kept:
        shared = kept.dict()
        workers = [context.Process(target=fill, args=(shared, number)) for number in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(sorted(shared.items()), [worker.exitcode for worker in workers])
    with Own(ctx=context) as own:
        asker = own.Asker()  # type: ignore[attr-defined]
        for question in QUESTIONS:
            print(asker.ask(question))


def start(role: str, *words: str) -> subprocess.Popen[str]:
    """This program once more, in another role."""
    settings = json.dumps({**SETTINGS, "way": role})
    return subprocess.Popen([sys.executable, __file__, settings, *words], stdout=subprocess.PIPE, text=True)


def serve() -> None:
    """Serve as many requests as there are questions, and say where."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_address[1], flush=True)
        for _ in QUESTIONS:
            server.handle_request()


def call(url: str) -> None:
    """Ask over HTTP."""
    for question in QUESTIONS:
        print(httpx.post(url, content=question).text)


def child() -> None:
    """A child serves; when it has ended nobody does."""
    process = start("serve")
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    call(f"http://127.0.0.1:{port}/")
    print("ended", process.wait())
    try:
        call(f"http://127.0.0.1:{port}/")
    except httpx.ConnectError as fault:
        print("closed", type(fault).__name__)


def parent() -> None:
    """A child calls."""
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(start("call", f"http://localhost:{server.server_address[1]}/").communicate()[0])
        server.shutdown()


if __name__ == "__main__":
    ways = {"manager": manager, "child": child, "parent": parent, "serve": serve, "call": lambda: call(sys.argv[2])}
    ways[SETTINGS["way"]]()

"""The scripted server: the door for tests, and a command for those that need it in another process.

    from tachograph.testing.scripted import ScriptedServer, json_reply, stream

    with ScriptedServer([json_reply({"ok": True})]) as server:
        httpx.get(server.url)
    assert server.hits == 1

    python -m tachograph.testing.scripted script.json        prints its port, serves until it is ended
    python -m tachograph.testing.scripted --chat             the scripted model behind four providers' protocols

The command prints one line, the port, when it listens; SIGTERM and SIGINT end it with exit code 0. With `--requests
FILE` every request is appended there as one line of JSON before it is answered, so that another process can count.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tachograph.errors import TachographError
from tachograph.testing.delivery import Delivery
from tachograph.testing.listener import LOOPBACK, ScriptedServer
from tachograph.testing.model_server import ModelServer
from tachograph.testing.replies import (
    Behaviour,
    Hangup,
    Raw,
    Reply,
    Silence,
    encoded,
    head_then_hang,
    json_reply,
    malformed_status_line,
    plain,
    redirect,
    stream,
    too_many_requests,
)
from tachograph.testing.script_file import read_script
from tachograph.testing.scripted_brain import ScriptedBrain
from tachograph.testing.wire import Request

__all__ = [
    "Behaviour",
    "Delivery",
    "Hangup",
    "Raw",
    "Reply",
    "Request",
    "ScriptedServer",
    "Silence",
    "encoded",
    "head_then_hang",
    "json_reply",
    "main",
    "malformed_status_line",
    "plain",
    "redirect",
    "refused_port",
    "serve_until_ended",
    "stream",
    "too_many_requests",
]


@contextlib.contextmanager
def refused_port() -> Iterator[int]:
    """A port on loopback that refuses connections: nothing listens, and while it is held nobody else can begin to."""
    with socket.socket() as holder:
        holder.bind((LOOPBACK, 0))
        yield holder.getsockname()[1]


def serve_until_ended(server: ScriptedServer) -> int:
    """Run a server in the foreground: print its port, then wait for SIGTERM or SIGINT. Returns the exit code."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with server:
        print(server.port, flush=True)
        ended.wait()
    return 0


def appending_to(path: Path) -> Callable[[Request], None]:
    """A listener's `on_request` that appends each request to `path`, one line of JSON, the body in base64."""

    def append(request: Request) -> None:
        line = {
            "number": request.number,
            "method": request.method,
            "target": request.target,
            "headers": request.headers,
            "body_base64": base64.b64encode(request.body).decode(),
            "arrived": request.arrived,
        }
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    return append


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit codes: 0 ended by a signal, 2 for a script that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m tachograph.testing.scripted", description="A scripted HTTP server."
    )
    parser.add_argument("script", nargs="?", type=Path, metavar="SCRIPT.json")
    parser.add_argument("--chat", action="store_true", help="the scripted model instead of a script")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--requests", type=Path, metavar="FILE", help="append each request there, a line of JSON each")
    given = parser.parse_args(arguments)
    if given.chat == (given.script is not None):
        parser.error("give either SCRIPT.json or --chat")
    on_request = appending_to(given.requests) if given.requests else None
    try:
        if given.chat:
            server: ScriptedServer = ModelServer(ScriptedBrain(), port=given.port, on_request=on_request)
        else:
            script, then = read_script(given.script.read_text(encoding="utf-8"))
            server = ScriptedServer(script, then=then, port=given.port, on_request=on_request)
        return serve_until_ended(server)
    except (TachographError, OSError) as error:
        print(f"scripted: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

"""Row 8: what no seam carries is counted while recording, and the plan of a replay refuses with that reason."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.sync.server import serve

from tests.gauntlet.harness import Recorded, record, tacho


@contextmanager
def websocket_server() -> Iterator[int]:
    """A server that says hello to each websocket."""
    with serve(lambda connection: connection.send("hello"), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.socket.getsockname()[1])
        finally:
            server.shutdown()
            thread.join()


class _Pong(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"+PONG\r\n")


@contextmanager
def local_service() -> Iterator[int]:
    """A service with a line protocol of its own, as a store of keys and values has."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Pong) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


def refused(recorded: Recorded) -> str:
    """The words with which a replay of it is refused, as having an unrecorded boundary."""
    ran = tacho(recorded.world, "replay", "last", "--json")
    assert ran.exit_code == 3, ran
    answer = ran.json()
    assert "unrecorded_boundary" in str(answer)
    return str(answer)


@pytest.mark.parametrize(("how", "loop"), [
    ("websockets", ""), ("websockets", "uvloop"), ("websockets-sync", ""), ("aiohttp", ""), ("aiohttp", "uvloop"),
])  # fmt: skip
def test_a_websocket_works_while_it_is_recorded_and_its_replay_is_refused_by_name(
    tmp_path: Path, how: str, loop: str
) -> None:
    with websocket_server() as port:
        recorded = record(tmp_path, "bypasses.py", how=how, port=port, loop=loop)
    assert (recorded.exit_code, recorded.stdout) == (0, b"hello\n"), recorded.stderr
    said = refused(recorded)
    assert "bypassed.websocket" in said
    assert f"127.0.0.1:{port}" in said


@pytest.mark.parametrize(("how", "loop"), [("socket", ""), ("streams", ""), ("streams", "uvloop")])
def test_a_service_that_no_seam_claimed_is_a_boundary_that_was_not_recorded(
    tmp_path: Path, how: str, loop: str
) -> None:
    with local_service() as port:
        recorded = record(tmp_path, "bypasses.py", how=how, port=port, loop=loop)
    assert recorded.exit_code == 0
    assert b"+PONG" in recorded.stdout
    said = refused(recorded)
    assert "socket.connect" in said
    assert f"127.0.0.1:{port}" in said

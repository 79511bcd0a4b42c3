"""Whether the peer has read is seen, not guessed."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator

import pytest

from tachograph.testing.pacing import wait_until_read, wait_until_sent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's table of connections is Linux's")
NEVER = threading.Event()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
        with client, server:
            yield server, client


def test_sent_is_not_yet_read(ends: tuple[socket.socket, socket.socket]) -> None:
    server, client = ends
    server.sendall(b"abc")
    assert wait_until_sent(server, stopping=NEVER)
    assert not wait_until_read(server, stopping=NEVER, limit_s=0.05)
    client.recv(2)
    assert not wait_until_read(server, stopping=NEVER, limit_s=0.05)
    client.recv(2)
    assert wait_until_read(server, stopping=NEVER)


def test_the_end_of_the_server_ends_the_wait(ends: tuple[socket.socket, socket.socket]) -> None:
    server, _ = ends
    server.sendall(b"abc")
    ended = threading.Event()
    ended.set()
    assert not wait_until_read(server, stopping=ended)

"""Fetching a did:web document from a real server on loopback: to its end, or refused."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tachograph.signing import identity
from tachograph.signing.identity import FetchRefused, Resolved, resolve
from tachograph.signing.keys import SigningKey
from tachograph.signing.web import fetcher

KEY = SigningKey.from_bytes(b"k" * 32).public


class Serves(http.server.BaseHTTPRequestHandler):
    """Serves DID documents, and other things."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        body = identity.document([KEY], did=f"did:web:localhost%3A{port}")
        if self.path == "/moved/did.json":
            self.send_response(302)
            self.send_header("Location", "/.well-known/did.json")
            body = b""
        else:
            self.send_response(200)
        if self.path == "/large/did.json":
            body = b"x" * 70_000
        if self.path == "/short/did.json":
            self.send_header("Content-Length", "100000")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server's port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Serves)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_did_web_on_this_machine_resolves_where_a_test_says_so(port: int) -> None:
    did = f"did:web:localhost%3A{port}"
    found = resolve(did, fetch=fetcher(loopback=True), loopback=True)
    assert found == Resolved(did, {f"{did}#{KEY.multibase()}": KEY})


@pytest.mark.parametrize(("path", "why"), [("moved", "302"), ("large", "over 65536"), ("short", "IncompleteRead")])
def test_what_is_not_a_whole_small_document_is_refused(port: int, path: str, why: str) -> None:
    with pytest.raises(FetchRefused, match=why):
        fetcher(loopback=True)(f"http://127.0.0.1:{port}/{path}/did.json")


def test_only_https_and_only_the_world_is_fetched_otherwise(port: int) -> None:
    for url, why in [
        (f"http://127.0.0.1:{port}/did.json", "only https"), (f"https://127.0.0.1:{port}/did.json", "no address"),
        (f"https://localhost:{port}/did.json", "no address"), ("https://10.1.2.3/did.json", "no address"),
        ("https://[::1]/did.json", "no address"), ("https://169.254.169.254/did.json", "no address"),
        ("file:///etc/passwd", "only https"),
    ]:  # fmt: skip
        with pytest.raises(FetchRefused, match=why):
            fetcher()(url)
    with pytest.raises(FetchRefused, match="only http of"):
        fetcher(loopback=True)(f"https://127.0.0.1:{port}/did.json")
    with pytest.raises(FetchRefused, match="no address"):
        fetcher(loopback=True)("http://10.1.2.3/did.json")


@contextmanager
def slow_server(said: bytes, *, goes_on: bool, pause: float = 0.02, piece: bytes = b"x") -> Iterator[int]:
    """Answers every connection with some bytes, then with more of them for ever, or with silence."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as connection:
                connection.sendall(said)
                while not done.wait(pause):
                    try:
                        if goes_on:
                            connection.sendall(piece)
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        done.set()
        thread.join()


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"])
def test_a_slow_answer_is_given_up(said: bytes, goes_on: bool) -> None:
    with slow_server(said, goes_on=goes_on) as port, pytest.raises((FetchRefused, TimeoutError)):
        fetcher(loopback=True, seconds=0.3)(f"http://127.0.0.1:{port}/did.json")


def test_a_flood_is_given_up() -> None:
    with (
        slow_server(b"", goes_on=True, pause=0.0, piece=b"x" * 5000) as port,
        pytest.raises(FetchRefused, match="long"),
    ):
        fetcher(loopback=True, seconds=0.3, most=1 << 40)(f"http://127.0.0.1:{port}/did.json")


def test_what_is_no_http_is_refused() -> None:
    with slow_server(b"\x16\x03 nothing\r\n" + b"x" * 200_000, goes_on=False) as port, pytest.raises(FetchRefused):
        fetcher(loopback=True)(f"http://127.0.0.1:{port}/did.json")

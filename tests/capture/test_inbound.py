"""Which request a decision belongs to: the one in whose handling it opened, or none, with the reason."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tachograph.capture.inbound import AHEAD, FOREIGN, LATER, LONG, LONG_AFTER
from tachograph.formats import frame as fr
from tachograph.intake.reading import inbound_of
from tests.seams.driver import Session

SERVER = """
import http.server, socket, threading, tachograph
from concurrent.futures import ThreadPoolExecutor

def decide(name):
    with tachograph.decision(agent=name):
        pass

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.asked = self.rfile.read(int(self.headers["content-length"]))
        before(self)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        after(self)
    def log_message(self, *_): pass

def before(handler): pass
def after(handler): pass

def post(target, body=b"-"):
    return b"POST %s HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (target, len(body), body)

def start(kind=http.server.ThreadingHTTPServer):
    server = kind(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return socket.create_connection(server.server_address)

def ask(client, *pieces):
    for piece in pieces:
        client.sendall(piece)
    got = b""
    while not got.endswith(b"ok"):
        part = client.recv(1000)
        assert part, got
        got += part
"""


def entries(tmp_path: Path, program: str) -> list[Any]:
    """What `show` says of the inbound request of each decision, in order."""
    recorded = Session(tmp_path, SERVER + textwrap.dedent(program)).record()
    assert recorded.out == ""
    assert recorded.gathered.damage == []
    return [inbound_of(recorded.log, fact.decision) for fact in recorded.log.of(fr.OPEN)]


def request(target: str) -> dict[str, str]:
    return {"method": "POST", "target": target}


@pytest.mark.parametrize(
    "way",
    [
        "decide('here')",
        "run(threading.Thread(target=decide, args=('thread',)))",
        "ThreadPoolExecutor(1).submit(decide, 'pool').result()",
    ],
)
def test_work_that_a_handler_starts_belongs_to_its_request(tmp_path: Path, way: str) -> None:
    found = entries(
        tmp_path,
        f"""
        def run(thread):
            thread.start()
            thread.join()
        def before(handler):
            {way}
        client = start()
        ask(client, post(b"/one")[:9], post(b"/one")[9:])
        ask(client, post(b"/two"))
        """,
    )
    assert found == [request("/one"), request("/two")]


def test_each_decision_of_one_request_has_it_whole(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        SERVER + "def before(handler):\n    decide('first')\n    decide('second')\nask(start(), post(b'/one'))\n",
    ).record()
    assert recorded.out == ""
    for number in (1, 2):
        parts = [one for one in recorded.log.of(fr.INBOUND) if one.decision == number and not one.flags]
        assert b"".join(one.payload for one in parts).endswith(b"\r\n\r\n-")


@pytest.mark.parametrize("kind", ["ThreadingHTTPServer", "HTTPServer"])
def test_what_a_server_does_beside_its_requests_belongs_to_none(tmp_path: Path, kind: str) -> None:
    found = entries(
        tmp_path,
        f"""
        handling, decided = threading.Event(), threading.Event()
        class Server(http.server.{kind}):
            def service_actions(self):
                if handling.is_set() and not decided.is_set():
                    decide("beside")
                    decided.set()
        def before(handler):
            handling.set()
            {"assert decided.wait(20)" if kind == "ThreadingHTTPServer" else ""}
        client = start(Server)
        ask(client, post(b"/one").replace(b"Host: here", b"Connection: close"))
        assert decided.wait(20)
        """,
    )
    assert found == [None]


WHY = {
    LATER: """
        answered = threading.Event()
        def before(handler):
            if handler.path == "/one":
                global late
                late = threading.Thread(target=lambda: (answered.wait(20), decide("late")))
                late.start()
        client = start()
        ask(client, post(b"/one"))
        ask(client, post(b"/two"))
        answered.set()
        late.join()
        """,
    AHEAD: """
        def before(handler):
            if handler.path == "/two":
                decide("ahead")
        client = start()
        client.sendall(post(b"/one") + post(b"/two"))
        while b"okHTTP" not in (got := client.recv(1000, socket.MSG_PEEK)) or not got.endswith(b"ok"):
            pass
        """,
    LONG: """
        import tachograph.capture.inbound as inbound
        inbound.MOST = 1000
        def before(handler):
            decide("long")
        ask(start(), post(b"/one", b"x" * 2000))
        """,
    LONG_AFTER: """
        done = threading.Event()
        def after(handler):
            decide("long")
            done.set()
        ask(start(), post(b"/one", b"x" * 70000))
        assert done.wait(20)
        """,
    FOREIGN: """
        def before(handler):
            decide("before")
            handler.send_response(101)
            handler.end_headers()
            decide("after")
        ask(start(), post(b"/one"))
        """,
}  # fmt: skip


def test_what_is_no_http_says_so(tmp_path: Path) -> None:
    found = entries(
        tmp_path,
        """
        listening = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
        client.sendall(b"\\x16\\x03\\x01\\x00\\xff")
        served.recv(1000)
        decide("raw")
        """,
    )
    assert found == [{"why": FOREIGN}]


@pytest.mark.parametrize("why", WHY, ids=["later", "ahead", "long", "long-after", "foreign"])
def test_a_request_that_cannot_be_sent_again_says_why(tmp_path: Path, why: str) -> None:
    found = entries(tmp_path, WHY[why])
    assert found
    assert all(one["why"] == why for one in found), found


def test_an_answer_without_a_length_is_whole_when_its_connection_is_closed(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        SERVER
        + textwrap.dedent(
            """
            def before(handler):
                decide("here")
                handler.wfile.write(b"HTTP/1.0 200 OK\\r\\n\\r\\nuntil the end")
                handler.close_connection = True
                handler.wfile = open("/dev/null", "wb")
            client = start()
            client.sendall(post(b"/one"))
            while client.recv(1000):
                pass
            while threading.active_count() > 2:  # the handler has not closed its side yet
                pass
            """
        ),
    ).record()
    assert recorded.out == ""
    replies = recorded.log.of(fr.REPLY)
    assert b"".join(one.payload for one in replies).endswith(b"until the end")
    assert [one.flags for one in replies][-1] == 1


def test_empty_lines_between_two_requests_are_none(tmp_path: Path) -> None:
    found = entries(
        tmp_path,
        """
        listening = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(listening.getsockname())
        served, _ = listening.accept()
        for target, more in ((b"/one", b"\\r\\n"), (b"/two", b"")):
            client.sendall(post(target) + more)
            served.recv(1000)
            decide("raw")
            served.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
        """,
    )
    assert found == [request("/one"), request("/two")]


def test_what_was_drawn_before_a_request_came_is_written_before_it(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        SERVER
        + textwrap.dedent(
            """
            import uuid
            drawn = threading.Event()
            def at_the_start():
                uuid.uuid4()
            def before(handler):
                decide("here")
            def after(handler):
                uuid.uuid4()
                drawn.set()
            at_the_start()
            client = start()
            ask(client, post(b"/one"))
            assert drawn.wait(20)
            ask(client, post(b"/two"))
            """
        ),
    ).record()
    assert recorded.out == ""
    first, second = [fact for fact in recorded.log.of(fr.INBOUND) if fact.flags]
    drawn = {draw.site[2]: draw.at_ns for draw in reversed(recorded.log.draws)}
    assert drawn["at_the_start"] <= first.at_ns - first.said["serving"]
    assert drawn["after"] <= second.at_ns - second.said["since"]

"""Connections that come in: the program reads and sends what it would have, and what passes is heard once."""

from __future__ import annotations

from pathlib import Path

from tachograph.formats import frame as fr
from tests.seams.driver import Recorded, Session

HEAD = """
import socket, threading, tachograph
listening = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listening.getsockname())
ASKED = b"POST /ask HTTP/1.1\\r\\nHost: here\\r\\nContent-Length: 5\\r\\n\\r\\nhello"
ANSWER = b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nworld"
client.sendall(ASKED)
served, address = listening.accept()
"""


def passed(recorded: Recorded) -> tuple[bytes, bytes]:
    """The request and the answer that the program's one decision kept."""
    parts = {
        kind: [fact for fact in recorded.log.of(kind) if not fact.flags and fact.payload]
        for kind in (fr.INBOUND, fr.REPLY)
    }
    asked, answered = (b"".join(fact.payload for fact in parts[kind]) for kind in (fr.INBOUND, fr.REPLY))
    return asked, answered


def test_each_way_of_reading_and_sending_is_heard_once_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rest.bin"
    file.write_bytes(b"ld")
    recorded = Session(
        tmp_path,
        HEAD
        + f"""
assert type(served) is socket.socket and address == client.getsockname(), (type(served), address)
got = served.recv(4, socket.MSG_PEEK) + served.recv(4)
into = bytearray(20)
count = served.recv_into(into, 10, socket.MSG_PEEK)
count = served.recv_into(into, 10)
got += bytes(into[:count])
got += served.makefile("rb").read(len(ASKED) - 14)
assert got == b"POST" + ASKED, got
with tachograph.decision():
    pass
at = served.send(ANSWER[:10])
served.sendall(memoryview(ANSWER)[at:-5])
served.sendmsg([b"w", bytearray(b"or")])
served.sendfile(open({str(file)!r}, "rb"))
served.close()
got = b""
while part := client.recv(100):
    got += part
assert got == ANSWER, got
""",
    ).record()
    assert recorded.out == ""
    asked, answered = passed(recorded)
    assert asked == b"POST /ask HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\nhello"
    assert answered == b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld"
    assert any(fact.flags for fact in recorded.log.of(fr.REPLY))
    assert recorded.notes() == []


def test_a_program_that_accepts_nothing_reads_and_sends_by_the_sockets_own_functions(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        """
        import _socket, socket
        for name in ("recv", "recv_into", "send", "sendall", "sendmsg"):
            assert getattr(socket.socket, name) is getattr(_socket.socket, name), name
        """,
    ).record()
    assert recorded.out == ""


def test_what_fails_in_hearing_fails_no_server(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        "import tachograph.capture.inbound as inbound\n"
        "def burn(*_): raise RuntimeError('burnt')\n"
        "inbound.Connection._follow = burn\n" + HEAD + "assert served.recv(1000) == ASKED\n"
        "served.sendall(ANSWER)\nassert client.recv(1000) == ANSWER\n"
        "class Odd(socket.socket): pass\n",
    ).record()
    assert recorded.out == ""
    assert recorded.notes() == [("bypassed.inbound", "RuntimeError: burnt")]


def test_a_closed_socket_leaves_nothing_behind(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        HEAD + "import gc\nfrom tachograph.seams import inbound\nassert len(inbound._taps) == 1\n"
        "served.close()\ndel served\ngc.collect()\nassert (inbound._taps, inbound._refs) == ({}, {})\n",
    ).record()
    assert recorded.out == ""

"""Of a connection that failed the network's own error is kept; a read that only had to wait ends nothing."""

from __future__ import annotations

from pathlib import Path

from tachograph.testing.scripted import Behaviour, Reply, Request, ScriptedServer, refused_port, stream
from tests.seams.driver import Session


def test_of_a_connection_that_urllib3_could_not_make_the_network_s_error_is_kept(tmp_path: Path) -> None:
    """What the client made of it holds the connection itself; in a replay the client makes it again."""
    with refused_port() as port:
        recorded = Session(tmp_path, f"""
            import urllib3
            try: urllib3.PoolManager(retries=False).request("GET", "http://127.0.0.1:{port}/")
            except urllib3.exceptions.NewConnectionError as fault: print(type(fault).__name__, repr(fault.__cause__))
        """).record()  # fmt: skip
    assert "ConnectionRefusedError" in recorded.out
    (effect,) = recorded.log.effects
    assert (effect.method, effect.headers) == ("CONNECT", [(b"failed-at", b"dial")])
    assert b"ConnectionRefusedError" in effect.error
    assert b"NewConnectionError" not in effect.error
    assert recorded.replay().out == recorded.out


def test_a_read_that_would_have_had_to_wait_does_not_end_the_answer(tmp_path: Path) -> None:
    def answer(_: Request) -> Behaviour:
        return Reply(chunks=(b"late",), borders="reads", delay=0.6)

    with ScriptedServer(answer) as server:
        recorded = Session(tmp_path, """
            import http.client, sys
            connection = http.client.HTTPConnection(sys.argv[1])
            connection.request("GET", "/")
            connection.sock.setblocking(False)
            try: connection.sock.recv_into(bytearray(9), 9)
            except BlockingIOError: print("not yet")
            connection.sock.setblocking(True)
            print(connection.getresponse().read())
        """).record(server.url.removeprefix("http://"))  # fmt: skip
    assert recorded.out == "not yet\nb'late'\n"
    (effect,) = recorded.log.effects
    assert (effect.ended, effect.answer) == ("eof", b"late")


def test_a_file_that_is_sent_over_the_socket_is_kept_from_where_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"01234567" * 3000)

    def answer(request: Request) -> Behaviour:
        return stream((request.body[:4] + b"%d" % len(request.body),), borders="reads")

    with ScriptedServer(answer) as server:
        recorded = Session(tmp_path, """
            import http.client, sys
            connection = http.client.HTTPConnection(sys.argv[1])
            for offset, count in ((2, 9000), (6, None)):
                connection.putrequest("POST", "/")
                connection.putheader("content-length", str(24000 - offset if count is None else count))
                connection.endheaders()
                with open("file", "rb") as file: print(connection.sock.sendfile(file, offset, count))
                print(connection.getresponse().read())
        """).record(server.url.removeprefix("http://"))  # fmt: skip
    assert recorded.out == "9000\nb'23459000'\n23994\nb'670123994'\n"
    assert [len(effect.body) for effect in recorded.log.effects] == [9000, 23994]
    assert recorded.log.effects[0].body == (b"01234567" * 3000)[2:9002]
    assert recorded.replay().out == recorded.out

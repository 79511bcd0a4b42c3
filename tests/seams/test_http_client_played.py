"""Connections of http.client in detail: what is sent, who reads how, which connection serves whom.

Uploads, readers of every kind, redirects, retries, proxies, tunnels, threads, classes of a program's own.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from tachograph.testing.scripted import (
    Behaviour,
    Raw,
    Reply,
    Request,
    ScriptedServer,
    encoded,
    plain,
    redirect,
    stream,
)
from tests.seams.driver import Session, marked_files
from tests.seams.http_clients import HEAD, twice
from tests.seams.tls import TlsServer, certificate

# --- uploads ----------------------------------------------------------------------------------------------------------

UPLOADS = """
import io, requests
session = requests.Session()
def gen():
    yield b"one "
    yield b"two " * 3
told(session.post(BASE + "/gen", data=gen()).text)
told(session.post(BASE + "/file", data=io.BytesIO(b"x" * 100000)).text)
told(session.post(BASE + "/multi", files={"f": ("a.txt", b"grow")}, data={"k": "v"}).text)
c = http.client.HTTPConnection(HOST)
c.request("POST", "/iter", iter([b"a", b"b"]))
told(c.getresponse().read())
c.request("POST", "/text", "text", {"Expect": "100-continue"})
told(c.getresponse().read())
prepared = session.prepare_request(requests.Request("PUT", BASE + "/prepared", data="by hand"))
told(session.send(prepared).text)
"""


def test_bodies_that_are_made_while_they_are_sent_are_kept_without_their_framing(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: plain(f"{request.path} {len(request.body)}")) as server:
        recorded = twice(tmp_path, HEAD + UPLOADS, server, alone=False)
        sent = [request.body for request in server.requests]
    assert [effect.body for effect in recorded.log.effects] == sent
    assert recorded.log.effects[0].body == b"one two two two "
    assert all(effect.body_complete for effect in recorded.log.effects)


S3 = """
import botocore.session
from botocore.config import Config
client = botocore.session.get_session().create_client(
    "s3", endpoint_url=BASE, region_name="eu-west-1", aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
    aws_secret_access_key="wJalrXUtnFEMIsecretKEYEXAMPLE",
    config=Config(s3={"addressing_style": "path"}, retries={"mode": "standard", "max_attempts": 2}),
)
told(client.put_object(Bucket="b", Key="k", Body=b"content")["ETag"])
got = client.get_object(Bucket="b", Key="k")
told(got["Body"].read(3), list(got["Body"].iter_lines()))
try:
    client.get_object(Bucket="b", Key="missing")
except Exception as fault:
    told(type(fault).__name__, fault)
"""


def s3_script(request: Request) -> Behaviour:
    if request.path.endswith("missing"):
        return plain(b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", status=404)
    if request.method == "PUT":
        return plain(headers={"ETag": '"abc"'})
    return plain(b"one\ntwo\nthree\n")


def test_a_client_of_botocore_signs_again_and_is_answered(tmp_path: Path) -> None:
    with ScriptedServer(s3_script) as server:
        recorded = twice(tmp_path, HEAD + S3, server, alone=False)
        assert server.requests[0].header("expect") == "100-continue"
    assert "NoSuchKey" in recorded.out
    assert list(marked_files(tmp_path / "spool1", [b"wJalrXUtnFEMI"])) == []
    assert recorded.log.effects[0].body_complete
    values = [value for effect in recorded.log.effects for name, value in effect.headers if name == b"Authorization"]
    assert len(values) == 3
    assert not any(b"AKIAIOSFODNN7EXAMPLE" in value for value in values)


# --- readers ----------------------------------------------------------------------------------------------------------

READERS = """
import requests, time
def get(path):
    return requests.get(BASE + path, stream=True)
told(list(get("/s").iter_lines(chunk_size=3)))
told(list(get("/s").iter_content(5)))
told(list(get("/s").iter_content(None)))
told(list(get("/s").raw.stream(4, decode_content=True)))
told([get("/s").raw.readline() for _ in range(2)])
told(get("/s").raw.read(9), "and left")
for part in get("/s").iter_content(None):
    time.sleep(0.01)
    told("slow", part)
c = http.client.HTTPConnection(HOST)
def ask(path):
    c.request("GET", path)
    return c.getresponse()
with ask("/s") as r: told(r.read(2), r.peek(3)[:3], r.read1(4), r.read())
with ask("/s") as r: told(list(r))
with ask("/l") as r:
    room = bytearray(6)
    told(r.readinto(room), room, r.readline(), r.read1(), r.read())
with ask("/s") as r: told(r.read(1))
c.close()
with urllib.request.urlopen(BASE + "/e") as r: told(r.read1(3), r.readlines())
"""


def test_each_reader_sees_its_own_borders_again(tmp_path: Path) -> None:
    def script(request: Request) -> Behaviour:
        framing = {"/s": "chunked", "/l": "content_length", "/e": "until_close"}[request.path]
        return stream([b"one\ntwo", b"\nthree", b"\n\nfour\n", b"five"], borders="reads", framing=framing)  # type: ignore[arg-type]

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, HEAD + READERS, server)
    assert {effect.ended for effect in recorded.log.effects if effect.kind == "http"} <= {"eof", "closed_early"}


# --- redirects, retries, proxies, credentials -------------------------------------------------------------------------

AROUND = """
import requests, urllib3
from requests.adapters import HTTPAdapter
session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=urllib3.Retry(3, status_forcelist=[503], backoff_factor=0)))
r = session.get(BASE + "/from", headers={"Authorization": "Bearer sk-topsecretvalue"})
told(r.url, r.text, [one.status_code for one in r.history], dict(session.cookies))
told(session.get(BASE + "/busy").text)
told(requests.get("http://example.invalid/through?a=1", proxies={"http": BASE}).text)
told(urllib.request.build_opener(urllib.request.ProxyHandler({"http": BASE})).open("http://other.invalid/p").read())
told(requests.get(BASE + "/coded").text)
import xmlrpc.client
told(xmlrpc.client.ServerProxy(BASE + "/rpc").add(1, 2))
"""


def test_redirects_retries_and_proxies_are_effects_each_and_credentials_stay_out(tmp_path: Path) -> None:
    def script(request: Request) -> Behaviour:
        if request.path == "/from":
            made = redirect("/to", status=302)
            return Reply(status=302, headers=(*made.headers, ("Set-Cookie", "sid=cookiesecretvalue; Path=/")))
        if request.path == "/busy":
            return plain(b"", status=503) if request.number % 3 else plain(b"calm")
        if request.path == "/coded":
            return encoded("grüße ".encode() * 50, coding="gzip")
        if request.path == "/rpc":
            return plain(
                b"<methodResponse><params><param><value><int>3</int></value></param></params></methodResponse>"
            )
        return plain(request.target)

    with ScriptedServer(script) as server:
        source = (HEAD + AROUND).replace(", dict(session.cookies)", "")
        recorded = twice(tmp_path, source, server, alone=False)
    urls = [effect.url.removeprefix(server.url) for effect in recorded.log.effects]
    assert urls[:2] == ["/from", "/to"]
    assert "http://example.invalid/through?a=1" in urls
    assert "http://other.invalid/p" in urls
    frames = b"".join(frame.payload for frame in recorded.frames)
    assert b"topsecretvalue" not in frames
    assert b"cookiesecretvalue" not in frames


# --- several at once --------------------------------------------------------------------------------------------------

THREADS = """
import requests
from concurrent.futures import ThreadPoolExecutor
session = requests.Session()
session.mount("http://", requests.adapters.HTTPAdapter(pool_connections=5, pool_maxsize=20))
first = []
def late(n):
    first.append(session.get(BASE + f"/late/{n}").text)
threads = [threading.Thread(target=late, args=(n,)) for n in range(4)]
for one in threads: one.start()
for one in threads: one.join()
told(sorted(first))
with ThreadPoolExecutor(20) as pool:
    told(sorted(pool.map(lambda n: session.get(BASE + f"/{n}").text, range(60))))
"""


def test_threads_that_share_a_session_are_answered_each_with_its_own(tmp_path: Path) -> None:
    def script(request: Request) -> Behaviour:
        late = request.path.startswith("/late")
        return Reply(chunks=(request.path.encode(),), delay=0.4 - int(request.path[-1]) * 0.1 if late else 0.0)

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, HEAD + THREADS, server)
    assert "['/late/0', '/late/1', '/late/2', '/late/3']" in recorded.out


TOO_LARGE = """
import requests, time
def gen(): return (b"y" * 100000 for _ in range(400))
tried(lambda: requests.post(BASE + "/requests", data=gen(), timeout=5).status_code)
c = http.client.HTTPConnection(HOST, timeout=5)
tried(lambda: c.request("POST", "/http.client", gen()))
"""


def test_a_request_whose_sending_failed_fails_behind_the_same_bytes_with_the_same_error(tmp_path: Path) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedServer([]) as server:

        def refuse() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(refusal)
                    time.sleep(0.1)

        accepting = threading.Thread(target=refuse)
        accepting.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        source = HEAD + TOO_LARGE.replace("\ndef gen", f"\nBASE = {url!r}\nHOST = BASE[7:]\ndef gen")
        recorded = twice(tmp_path, source, server, alone=False)
        accepting.join()
    assert "gave 413" in recorded.out
    assert "raised" in recorded.out
    assert [effect.body_complete for effect in recorded.log.effects] == [False, False]


DROPPED = """
import requests, time
session = requests.Session()
told(session.get(BASE + "/a").text)
time.sleep(0.1)
tried(session.get, BASE + "/b")
c = http.client.HTTPConnection(HOST)
for _ in range(2):
    c.request("GET", "/two"); told(c.getresponse().read())
"""


def test_two_answers_in_one_read_and_connections_that_are_dropped_between_two_requests(tmp_path: Path) -> None:
    two = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo"

    def script(request: Request) -> Behaviour:
        if request.path == "/a":
            return Raw(chunks=(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",))  # and closes, without a word
        if request.path == "/two":
            return Raw(chunks=(two,), ending="hang") if request.number % 2 else plain(b"again")
        return plain(b"b")

    source = HEAD + DROPPED.replace("for _ in range(2)", "for _ in range(1)")
    with ScriptedServer(script) as server:
        twice(tmp_path, source, server, alone=False)


MADE = """
class Mixin:
    def connect(self):
        self.seen = "mixin"
        super().connect()
class Own(Mixin, http.client.HTTPConnection):
    pass
class Deeper(Own):
    def connect(self):
        super().connect()
        self.deep = isinstance(self.sock, socket.socket)
for kind in (Own, Deeper):
    c = kind(HOST)
    c.request("GET", "/x")
    told(c.getresponse().read(), isinstance(c.sock, socket.socket), c.sock.gettimeout())
"""


def test_classes_made_later_and_mixins_are_watched_and_only_the_outermost_connect_counts(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain(b"x")) as server:
        recorded = twice(tmp_path, HEAD + MADE, server)
    assert [effect.url for effect in recorded.log.effects] == [f"{server.url}/x"] * 2


TUNNEL = """
import requests
c = http.client.HTTPConnection(HOST)
c.set_tunnel("inner.invalid", 80)
tried(lambda: (c.request("GET", "/in"), c.getresponse().read())[1])
tried(lambda: requests.get("https://inner.invalid/", proxies={"https": BASE}))
"""


def test_behind_a_tunnel_the_endpoint_is_the_one_at_its_end_and_a_refused_tunnel_is_an_effect(tmp_path: Path) -> None:
    def script(request: Request) -> Behaviour:
        return plain(b"no", status=407)

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, HEAD + TUNNEL, server)
    assert [effect.url for effect in recorded.log.effects] == ["http://inner.invalid/", "https://inner.invalid/"]
    assert recorded.out.count("407") >= 2


# --- what is no effect, and what stands before us ---------------------------------------------------------------------

OWN = """
import requests
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = requests.get(BASE + "/inner" + self.path).content
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
inside = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=inside.serve_forever, daemon=True).start()
told(requests.get(f"http://127.0.0.1:{inside.server_port}/x").text)
told(urllib.request.urlopen(f"http://127.0.0.1:{inside.server_port}/y").read())
"""


def test_calls_to_the_programs_own_server_stay_inside_and_what_its_handlers_call_is_played(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = twice(tmp_path, HEAD + OWN, server, alone=False)
    assert [effect.url.removeprefix(server.url) for effect in recorded.log.effects] == ["/inner/x", "/inner/y"]


LATE = """
import json, os, sys
given = json.loads(sys.argv[1])
import http.client
c = http.client.HTTPConnection(sys.argv[2].split("//")[1])
c.request("GET", "/before")
print(c.getresponse().read())
from tachograph.capture.install import start
start(given)
c.request("GET", "/after")
print(c.getresponse().read(), flush=True)
"""


def test_a_connection_that_stood_before_anybody_listened_is_watched_from_its_next_request_on(tmp_path: Path) -> None:
    with ScriptedServer(lambda request: plain(request.path)) as server:
        recorded = Session(tmp_path, LATE).record_itself(server.url)
    assert recorded.out == "b'/before'\nb'/after'\n"
    assert [effect.url for effect in recorded.log.effects] == [f"{server.url}/after"]


GONE = """
import requests, time
session = requests.Session()
told(session.get(BASE + "/a").text, session.get(BASE + "/die").text)
time.sleep(0.3)
tried(session.get, BASE + "/b")
tried(session.get, BASE + "/c")
"""


def test_a_kept_connection_whose_server_has_gone_is_dropped_again_and_the_next_is_refused(tmp_path: Path) -> None:
    servers: list[ScriptedServer] = []

    def script(request: Request) -> Behaviour:
        if request.path == "/die":
            threading.Timer(0.05, servers[0].stop).start()
        return plain(request.path)

    with ScriptedServer(script) as server:
        servers.append(server)
        recorded = twice(tmp_path, HEAD + GONE, server, alone=False)
    assert recorded.out.count("Connection refused") >= 2
    assert [effect.method for effect in recorded.log.effects if effect.method] == ["GET", "GET", "CONNECT", "CONNECT"]


UPGRADED = """
c = http.client.HTTPConnection(HOST)
c.request("GET", "/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade"})
told(c.getresponse().status)
c.sock.sendall(b"\\x81\\x02hi")
"""


def test_a_protocol_that_a_connection_is_switched_to_counts_as_bypassed(tmp_path: Path) -> None:
    switched = Raw(chunks=(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",), ending="hang")
    with ScriptedServer([], then=switched) as server:
        recorded = Session(tmp_path, HEAD + UPGRADED).record(server.url)
        replayed = recorded.replay()
    assert "101" in recorded.out
    assert recorded.notes() == [("socket.connect", f"{server.url} (no HTTP/1.x)")]
    assert [one["what"] for one in replayed.attempts] == ["socket.connect"]


TRUST = """
import requests, warnings
warnings.simplefilter("always")
for verify in (CA, False):
    with warnings.catch_warnings(record=True) as seen:
        session = requests.Session()
        told(session.get(BASE + "/x", verify=verify).text, [one.category.__name__ for one in seen])
"""


def test_urllib3_warns_of_what_it_did_not_verify_and_of_nothing_else(tmp_path: Path) -> None:
    with TlsServer.under(certificate(tmp_path), lambda request: plain(request.path)) as server:
        recorded = twice(tmp_path, HEAD + TRUST, server)
    assert recorded.out == "/x []\n/x ['InsecureRequestWarning']\n"


WAITS = """
import select
c = http.client.HTTPConnection(HOST)
c.request("GET", "/s")
r = c.getresponse()
while True:
    ready, part = bool(select.select([r], [], [], 5)[0]), r.read1()
    told(ready, part)
    if not part:
        break
c.close()
told(c.sock)
"""


def test_a_program_that_waits_by_select_is_told_that_an_answer_is_there(tmp_path: Path) -> None:
    answer = stream([b"one", b"two"], borders="reads", framing="until_close")
    with ScriptedServer([], then=answer) as server:
        twice(tmp_path, HEAD + WAITS, server)


ASKS_THE_SOCKET = """
c = http.client.HTTPConnection(HOST)
c.request("GET", "/a")
told(c.getresponse().read(), c.sock.gettimeout())
told(c.sock.getpeername()[0])
"""


def test_what_a_record_cannot_say_of_a_connection_is_refused_and_told(tmp_path: Path) -> None:
    with ScriptedServer([], then=plain(b"a")) as server:
        recorded = Session(tmp_path, HEAD + ASKS_THE_SOCKET).record(server.url)
        replayed = recorded.replay()
    assert recorded.out.endswith("127.0.0.1\n")
    assert "PermissionError" in replayed.ended.err
    assert [one["what"] for one in replayed.attempts] == ["socket.getpeername"]


DIES = """
import requests
for part in requests.get(BASE, stream=True).iter_content(None):
    os.kill(os.getpid(), 9)
"""


def test_what_a_read_returned_is_in_the_spool_before_the_program_has_it(tmp_path: Path) -> None:
    with ScriptedServer([], then=stream([b"first", 0.2, b"second"], borders="reads")) as server:
        recorded = Session(tmp_path, HEAD + DIES).record(server.url)
    assert recorded.ended.status == -9
    (effect,) = recorded.log.effects
    assert (effect.chunks, effect.ended) == ([b"first"], "open_at_end")

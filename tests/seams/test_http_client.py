"""http.client and what stands on it: the program sees what it would have seen, and all of it comes back in a replay.

Real clients against a real server on loopback. A program is written once, over `call(method, path, body, headers)` and
`parts(path)`, and runs with each client in turn.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.testing.scripted import (
    Behaviour,
    Hangup,
    Raw,
    Reply,
    Request,
    ScriptedServer,
    Silence,
    encoded,
    head_then_hang,
    plain,
    redirect,
    stream,
)
from tests.seams.driver import Recorded, Session, marked_files
from tests.seams.tls import TlsServer, certificate

HEAD = """
import http.client, json, os, socket, ssl, sys, threading, urllib.request
BASE, CA = sys.argv[1], os.environ.get("CA")
HOST = BASE.split("//")[1]
def told(*words):
    print(*words, flush=True)
def links(fault):
    names = []
    while fault is not None:
        names.append(f"{type(fault).__module__}.{type(fault).__name__}: {fault}".split("object at")[0])
        fault = fault.__cause__ or next((a for a in fault.args if isinstance(a, BaseException)), None)
    return names
def tried(what, *args):
    try:
        told("gave", what(*args))
    except Exception as fault:
        told("raised", links(fault))
"""
CLIENTS = {
    "http.client": """
context = ssl.create_default_context(cafile=CA) if CA else None
def opened():
    if CA:
        return http.client.HTTPSConnection(HOST, timeout=LIMIT, context=context)
    return http.client.HTTPConnection(HOST, timeout=LIMIT)
kept = opened()
def asked(method, path, body=None, headers={}):
    global kept
    kept.request(method, path, body, headers)
    return kept.getresponse()
def call(*given):
    try:
        r = asked(*given)
        return r.status, r.reason, r.getheaders(), r.read(), r.isclosed()
    except Exception:
        kept.close()
        raise
def parts(path):
    r, found = asked("GET", path), []
    while part := r.read1(65536):
        found.append(part)
    r.close()
    return found
""",
    "urllib": """
context = ssl.create_default_context(cafile=CA) if CA else None
def asked(method, path, body=None, headers={}):
    return urllib.request.urlopen(
        urllib.request.Request(BASE + path, body, headers, method=method), timeout=LIMIT, context=context
    )
def call(*given):
    with asked(*given) as r:
        return r.status, r.reason, r.getheaders(), r.read(), r.url
def parts(path):
    with asked("GET", path) as r:
        return list(r)
""",
    "urllib3": """
import urllib3
pool = urllib3.PoolManager(timeout=LIMIT, retries=False, ca_certs=CA)
def call(method, path, body=None, headers={}):
    r = pool.request(method, BASE + path, body=body, headers=headers)
    return r.status, r.reason, list(r.headers.items()), r.data
def parts(path):
    r = pool.request("GET", BASE + path, preload_content=False)
    found = list(r.stream(65536))
    r.release_conn()
    return found
""",
    "requests": """
import requests
session = requests.Session()
def call(method, path, body=None, headers={}):
    r = session.request(method, BASE + path, data=body, headers=headers, timeout=LIMIT, verify=CA or True)
    return r.status_code, r.reason, list(r.headers.items()), r.content, r.url, len(r.history)
def parts(path):
    with session.get(BASE + path, stream=True, timeout=LIMIT) as r:
        return list(r.iter_content(None))
""",
    "botocore": """
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
aws = URLLib3Session(verify=CA or True, timeout=LIMIT)
def asked(method, path, body=None, headers={}, stream=False):
    request = AWSRequest(method=method, url=BASE + path, data=body, headers=headers, stream_output=stream)
    return aws.send(request.prepare())
def call(*given):
    r = asked(*given)
    return r.status_code, list(r.headers.items()), r.content
def parts(path):
    return list(asked("GET", path, stream=True).raw.stream(65536))
""",
}
each_client = pytest.mark.parametrize("client", list(CLIENTS))


def written(body: str, client: str, limit: float = 10) -> str:
    """A program that does `body` with this client."""
    return HEAD + f"LIMIT = {limit}\n" + CLIENTS[client] + textwrap.dedent(body)


def twice(folder: Path, source: str, server: ScriptedServer, *args: str, alone: bool = True) -> Recorded:
    """Run without us, record, replay: the same words each time, and not one connection in the replay."""
    session = Session(folder, source)
    environment = {"CA": str(server.authority)} if isinstance(server, TlsServer) else {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        without = session.plain(server.url, *args) if alone else None
        recorded = session.record(server.url, *args)
        if without is not None:
            assert without.status == 0, without.err
            assert recorded.out == without.out
        assert recorded.notes() == []
        before = server.hits, server.connections
        replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (server.hits, server.connections) == before
    assert replayed.clean, (replayed.misses, replayed.attempts, replayed.said(fr.UNORDERED), replayed.said(fr.CHUNK))
    assert replayed.drift == []
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    return recorded


# --- requests and answers ---------------------------------------------------------------------------------------------

ASKS = """
told(call("POST", "/v1?x=1&y=%20", b'{"a": 1}', {"Content-Type": "application/json", "X-Two": "1"}))
told(call("GET", "/binary"))
told(call("DELETE", "/none"))
told(call("HEAD", "/head"))
told(call("GET", "/chunked"))
told(call("GET", "/old"))
told(call("GET", "/close"))
told(call("GET", "/empty"))
told(call("PUT", "/none", b""))
told(call("GET", "/interim"))
told(call("GET", "/large"))
told(call("GET", "/trailer"))
"""
LARGE = bytes(range(256)) * 6000


def asks_script(request: Request) -> Behaviour:
    many = (("X-Many", "one"), ("x-many", "two"), ("X-Empty", ""), ("content-type", "application/json"))
    trailer = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nwith\r\n0\r\nX-Trailer: one\r\n\r\n",)
    return {
        "/v1": Reply(status=201, reason="Made", headers=many, chunks=(b'{"b":2}',)),
        "/binary": plain(b"\x00\xff\r\n\r\n"), "/none": Reply(status=204), "/head": plain(b"never sent"),
        "/chunked": stream([b"one", b"two"]), "/old": Raw(chunks=(b"HTTP/1.0 200 Fine\r\nX-A: b\r\n\r\nall of it",)),
        "/close": stream([b"to the end"], framing="until_close"), "/empty": plain(b""), "/large": plain(LARGE),
        "/interim": Reply(interim=((100, ()),), chunks=(b"after it",)), "/trailer": Raw(chunks=trailer),
    }[request.path]  # fmt: skip


@each_client
def test_requests_and_answers_come_back_whole(tmp_path: Path, client: str) -> None:
    with ScriptedServer(asks_script) as server:
        recorded = twice(tmp_path, written(ASKS, client), server)
        sent = server.requests[len(server.requests) // 2]
    effects = recorded.log.effects
    first = effects[0]
    assert (first.library, first.method) == ("http.client", "POST")
    assert first.url == f"http://{sent.header('host')}/v1?x=1&y=%20"
    assert first.body == sent.body == b'{"a": 1}'
    assert [(name.decode(), value.decode()) for name, value in first.headers] == list(sent.headers)
    assert (first.status, first.reason, first.version, first.answer) == (201, b"Made", b"HTTP/1.1", b'{"b":2}')
    assert (b"X-Many", b"one") in first.response_headers, "names as sent"
    assert {effect.ended for effect in effects} == {"eof"}
    assert effects[10].answer == LARGE
    assert (effects[9].status, effects[9].answer, effects[11].answer) == (200, b"after it", b"with")
    assert all(effect.body_complete for effect in effects)


@each_client
def test_a_connection_over_tls_is_recorded_above_it_and_its_replay_makes_no_handshake(
    tmp_path: Path, client: str
) -> None:
    authority = certificate(tmp_path)
    body = """
    told(call("GET", "/chunked"))
    told(call("POST", "/v1", b"{}"))
    """
    with TlsServer.under(authority, asks_script) as server:
        recorded = twice(tmp_path, written(body, client), server)
    assert [effect.url.split(":")[0] for effect in recorded.log.effects] == ["https"] * 2
    assert recorded.log.effects[0].answer == b"onetwo"


@each_client
def test_a_certificate_that_is_not_trusted_fails_in_the_same_way(tmp_path: Path, client: str) -> None:
    (tmp_path / "other").mkdir()
    authority, other = certificate(tmp_path), certificate(tmp_path / "other")
    with TlsServer.under(authority, asks_script) as server:
        server.authority = other
        session = Session(tmp_path, written('tried(call, "GET", "/v1")', client))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CA", str(authority))
            recorded = session.record(server.url)
            assert "CERTIFICATE_VERIFY_FAILED" in recorded.out
            before = server.connections
            replayed = recorded.replay()
        assert server.connections == before
    assert replayed.out == recorded.out
    assert replayed.clean, (replayed.misses, replayed.attempts)
    (effect,) = recorded.log.effects
    assert (effect.method, effect.url, effect.ended) == ("CONNECT", f"{server.url}/", "error")


STREAMS = 'told(parts("/stream"), parts("/lines"))'
EVENTS = 'data: {"text": "grüße"}\n\ndata: {"text": "\u2028 end"}\n\ndata: [DONE]\n\n'.encode()
CUT = [EVENTS[at : at + 7] for at in range(0, len(EVENTS), 7)]


@each_client
def test_a_stream_keeps_its_borders_wherever_it_is_cut(tmp_path: Path, client: str) -> None:
    def script(request: Request) -> Behaviour:
        return stream(CUT, borders="reads", framing="chunked" if request.path == "/stream" else "until_close")

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, written(STREAMS, client), server)
    assert [effect.chunks for effect in recorded.log.effects] == [CUT, CUT]


# --- what breaks ------------------------------------------------------------------------------------------------------

BREAKS = """
for path in ("/refuse", "/reset", "/cut", "/hang", "/half", "/length", "/malformed", "/nothing"):
    tried(call, "GET", path)
told(call("GET", "/well")[0])
"""
BROKEN: dict[str, Behaviour] = {
    "/refuse": Hangup(), "/reset": Hangup(ending="reset"), "/hang": Silence(),
    "/cut": stream([b"one", b"two"], ending="cut", cut_after=4, borders="reads"),
    "/half": stream([b"one", b"two"], ending="reset", borders="reads"),
    "/length": stream([b"one", b"two"], framing="content_length", ending="cut", cut_after=4, borders="reads"),
    "/malformed": Raw(chunks=(b"HTP/1.1 two hundred fine\r\n\r\n",)), "/nothing": head_then_hang(),
    "/well": plain(b"well"),
}  # fmt: skip


@each_client
def test_what_breaks_breaks_again_in_the_same_way(tmp_path: Path, client: str) -> None:
    with ScriptedServer(lambda request: BROKEN[request.path]) as server:
        recorded = twice(tmp_path, written(BREAKS, client, limit=0.4), server)
    assert recorded.out.count("raised") >= 5
    assert recorded.log.effects[-1].ended == "eof"


@each_client
def test_a_refused_connection_is_an_effect_and_its_error_is_built_again_by_the_client(
    tmp_path: Path, client: str
) -> None:
    body = """
    BASE = "http://127.0.0.1:1"
    kept = HOST = "127.0.0.1:1"
    if "opened" in globals(): kept = opened()
    tried(call, "GET", "/x")
    tried(call, "GET", "/x")
    """
    with ScriptedServer([]) as server:
        recorded = twice(tmp_path, written(body, client), server)
    assert recorded.out.count("EndpointConnectionError" if client == "botocore" else "Connection refused") >= 2
    for effect in recorded.log.effects:
        assert (effect.method, effect.url, effect.ended) == ("CONNECT", "http://127.0.0.1:1/", "error")


def test_the_clients_own_error_stands_on_the_recorded_one(tmp_path: Path) -> None:
    body = """
    import requests
    for host in ("127.0.0.1:1", "no-such-host.invalid"):
        try:
            requests.get(f"http://{host}/")
        except requests.ConnectionError as fault:
            reason = fault.args[0].reason
            told(type(reason).__name__, type(reason.__cause__).__name__, reason.__cause__.errno, reason.args[0])
    """
    with ScriptedServer([]) as server:
        recorded = twice(tmp_path, HEAD + textwrap.dedent(body), server)
    assert "NewConnectionError ConnectionRefusedError 111" in recorded.out
    assert "NameResolutionError gaierror" in recorded.out


def test_a_miss_comes_out_of_the_call_and_nothing_is_sent(tmp_path: Path) -> None:
    source = written('tried(call, "GET", sys.argv[2])', "requests")
    with ScriptedServer([], then=plain(b"a")) as server:
        recorded = Session(tmp_path, source).record(server.url, "/a")
        before = server.hits, server.connections
        replayed = recorded.replay(server.url, "/b")
        assert (server.hits, server.connections) == before
    assert "EffectMissed" in replayed.ended.err
    (miss,) = replayed.misses
    assert miss["firstDifference"]["path"] == "/url/path" or "path" in miss["firstDifference"]["path"]


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
    assert {effect.ended for effect in recorded.log.effects} <= {"eof", "closed_early"}


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
told(first)
with ThreadPoolExecutor(20) as pool:
    told(sorted(pool.map(lambda n: session.get(BASE + f"/{n}").text, range(60))))
"""


def test_threads_that_share_a_session_are_answered_each_with_its_own_in_the_recorded_order(tmp_path: Path) -> None:
    def script(request: Request) -> Behaviour:
        late = request.path.startswith("/late")
        return Reply(chunks=(request.path.encode(),), delay=0.4 - int(request.path[-1]) * 0.1 if late else 0.0)

    with ScriptedServer(script) as server:
        recorded = twice(tmp_path, HEAD + THREADS, server)
    assert "['/late/3', '/late/2', '/late/1', '/late/0']" in recorded.out


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

"""Played connections of aiohttp: they end, break, are given up, refuse and hang as the recorded ones did."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tachograph.testing.scripted import (
    Behaviour,
    Hangup,
    Reply,
    Request,
    ScriptedServer,
    Silence,
    plain,
    refused_port,
    stream,
)
from tests.gauntlet.harness import held_port
from tests.seams.driver import Session
from tests.seams.test_aiohttp_transport import recorded_and_replayed, written

# --- ends -------------------------------------------------------------------------------------------------------------

BREAKS = """
for path in ("/reset", "/cut", "/short", "/hangup", "/gone", "/bad", "/until", "/after"):
    try:
        async with session.get(BASE + path) as r:
            told(path, r.status)
            async for piece in r.content.iter_any():
                told(piece)
            told("end", r.content.exception())
    except Exception as e:
        fault(e)
"""


def break_script(request: Request) -> Behaviour:
    return {
        "/reset": stream((b"half", b"half"), ending="reset", borders="reads"),
        "/cut": stream((b"half", b"half"), ending="cut", cut_after=6, borders="reads"),
        "/short": stream((b"half", b"half"), framing="content_length", ending="cut", cut_after=6, borders="reads"),
        "/hangup": Hangup(ending="cut"),
        "/gone": Hangup(ending="reset"),
        "/bad": Reply(chunks=(b"x",), headers=(("transfer-encoding", "chunked"), ("content-length", "1"))),
        "/until": stream((b"one", b"two"), framing="until_close", borders="reads"),
        "/after": plain(b"calm"),
    }[request.path]


def test_a_connection_that_breaks_gives_the_same_bytes_and_the_same_fault(tmp_path: Path) -> None:
    with ScriptedServer(break_script) as server:
        recorded = recorded_and_replayed(tmp_path, BREAKS, server, moves=True)
    ended = {effect.url.rsplit("/", 1)[1]: effect.ended for effect in recorded.log.effects}
    assert {name for name, how in ended.items() if how == "eof"} >= {"until", "after"}
    assert all(ended[name] == "error" for name in ("reset", "cut", "short", "hangup", "gone", "bad"))


LIMITS = """
async def get(path, **options):
    try:
        async with session.get(BASE + path, **options) as r:
            told(path, r.status)
            async for piece in r.content.iter_any():
                told(piece)
    except BaseException as e:
        fault(e)
await get("/silence", timeout=aiohttp.ClientTimeout(total=0.3))
await get("/silence", timeout=aiohttp.ClientTimeout(sock_read=0.2))
await get("/hang", timeout=aiohttp.ClientTimeout(total=0.3))
await get("/hang", timeout=aiohttp.ClientTimeout(sock_read=0.2))
for path in ("/silence", "/hang"):
    task = asyncio.create_task(get(path))
    await asyncio.sleep(0.2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
try:
    async with session.get(BASE + "/hang") as r:
        await asyncio.wait_for(r.content.read(99), 0.2)
        await asyncio.wait_for(r.content.read(99), 0.2)
except BaseException as e:
    fault(e)
async with session.get(BASE + "/hang") as r:
    told(await r.content.readany())
async with session.get(BASE + "/after") as r:
    told(await r.text())
"""


def test_answers_that_the_program_gives_up_are_given_up_again_and_never_completed(tmp_path: Path) -> None:
    def answer(request: Request) -> Behaviour:
        never: dict[str, Behaviour] = {"/silence": Silence(), "/hang": stream([b"one"], ending="hang")}
        return never.get(request.path) or plain(b"calm")

    with ScriptedServer(answer) as server:
        recorded = recorded_and_replayed(tmp_path, LIMITS, server)
    effects = [effect for effect in recorded.log.effects if effect.kind == "http"]
    ended = [effect.ended for effect in effects]
    assert ended == ["cut_off", "error", "cut_off", "error", "cut_off", "cut_off", "cut_off", "closed_early", "eof"]
    assert b"Socket" in effects[1].error


REFUSED = """
import socket
async def get(url):
    try:
        async with session.get(url) as r:
            told(r.status, await r.text(), r.headers.get("connection"))
    except aiohttp.ClientConnectorError as e:
        fault(e)
        told(e.host, e.port, e.os_error)
await get(BASE + "/once")
await get(sys.argv[2])
await get(BASE + "/once")
await get("http://nowhere.invalid/")
"""


def test_a_connection_that_fails_is_an_effect_of_its_own_in_its_place(tmp_path: Path) -> None:
    once = Reply(chunks=(b"calm",), headers=(("connection", "close"),))
    with ScriptedServer(lambda _: once) as server, refused_port() as port:
        recorded = recorded_and_replayed(tmp_path, REFUSED, server, f"http://127.0.0.1:{port}/")
    assert [effect.method for effect in recorded.log.effects] == ["GET", "CONNECT", "GET", "CONNECT"]
    failed = recorded.log.effects[1]
    assert (failed.url, failed.ended, failed.status) == (f"http://127.0.0.1:{port}/", "error", 0)


RETRIED = """
from pathlib import Path
for _ in range(4):
    try:
        async with session.get(BASE + "/") as r:
            told(r.status, await r.text())
    except aiohttp.ClientConnectorError as e:
        fault(e)
        Path("refused").touch()
        while not Path("listening").exists():
            await asyncio.sleep(0.01)
"""


def test_of_several_attempts_to_connect_to_one_server_the_one_that_failed_fails_again(tmp_path: Path) -> None:
    once = Reply(chunks=(b"calm",), headers=(("connection", "close"),))
    with held_port() as port:
        late = ScriptedServer(lambda _: once, port=port)
        session = Session(tmp_path, written(RETRIED))

        def listen() -> None:
            while not (tmp_path / "refused").exists():
                threading.Event().wait(0.01)
            late.start()
            (tmp_path / "listening").touch()

        thread = threading.Thread(target=listen)
        thread.start()
        recorded = session.record(f"http://127.0.0.1:{port}")
        thread.join()
        late.stop()
    assert [effect.method for effect in recorded.log.effects if effect.method] == ["CONNECT", "GET", "GET", "GET"]
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean


EARLY = """
for _ in range(2):
    async with session.get(BASE + "/") as r:
        told(r.status, await r.text())
"""


def test_an_answer_that_comes_before_its_request_is_its_answer(tmp_path: Path) -> None:
    with busy_server() as url:
        recorded = Session(tmp_path, written(EARLY)).record(url)
        assert recorded.out == "503 busy\n" * 2
    replayed = recorded.replay()
    assert (replayed.out, replayed.clean) == (recorded.out, True)
    assert [(effect.answer, effect.ended) for effect in recorded.log.effects] == [(b"busy", "eof")] * 2


@contextmanager
def busy_server(context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that answers whoever connects before it has read anything, and closes."""
    loop = asyncio.new_event_loop()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy")
        await writer.drain()
        if context is None:
            await asyncio.sleep(0.1)
        else:
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    scheme = "http" if context is None else "https"
    try:
        yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()


TLS = """
import ssl
context = ssl.create_default_context(cafile=sys.argv[2])
async with session.get(BASE + "/", ssl=context) as r:
    told(r.status, await r.text())
async with session.get(BASE + "/", ssl=False) as r:
    told(r.status, await r.text())
try:
    async with session.get(BASE + "/") as r:
        told(r.status)
except aiohttp.ClientConnectorCertificateError as e:
    told(type(e).__name__, e.certificate_error.verify_code, e.host)
"""


def test_tls_is_recorded_in_plain_and_replayed_without_a_handshake(tmp_path: Path) -> None:
    context, certificate = certified(tmp_path)
    with busy_server(context) as url:
        recorded = Session(tmp_path, written(TLS)).record(url, str(certificate))
        assert recorded.out.startswith("503 busy\n503 busy\nClientConnectorCertificateError")
    replayed = recorded.replay()
    assert (replayed.out, replayed.misses, replayed.attempts) == (recorded.out, [], [])


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's context under a certificate for 127.0.0.1 that is nobody's but its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    path, secret = folder / "certificate.pem", folder / "key.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, secret)
    return context, path


EXPECTING = """
async with session.post(BASE + "/", data=b"never sent", expect100=True) as r:
    told(r.status, await r.text())
"""


def test_a_body_that_the_server_did_not_ask_for_is_not_sent_in_a_replay_either(tmp_path: Path) -> None:
    with busy_server() as url:
        recorded = Session(tmp_path, written(EXPECTING)).record(url)
    assert recorded.out == "503 busy\n"
    (effect,) = recorded.log.effects
    assert (effect.body, effect.body_complete, effect.ended) == (b"", False, "eof")
    replayed = recorded.replay()
    assert (replayed.out, replayed.misses, replayed.clean) == (recorded.out, [], True)

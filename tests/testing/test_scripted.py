"""The door and the command: real clients meet every behaviour, and another process can serve a script."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import httpx2
import openai
import pytest
from hypothesis import given, settings

from tachograph.testing import strategies
from tachograph.testing.scripted import (
    Hangup,
    ScriptedServer,
    Silence,
    encoded,
    head_then_hang,
    json_reply,
    malformed_status_line,
    plain,
    refused_port,
    stream,
    too_many_requests,
)

CLIENTS = pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
}


@CLIENTS
def test_chunks_reach_iter_raw_with_their_borders(client: ModuleType) -> None:
    cut = [b"data: \xf0\x9f", b"\x98", b'\x80 {"a', b'": 1}\n\n']
    with ScriptedServer([stream(cut), stream(cut, framing="until_close", borders="reads")]) as server:
        for _ in range(2):
            with client.stream("GET", server.url) as answer:
                assert list(answer.iter_raw()) == cut


@CLIENTS
def test_chunks_reach_an_async_client_with_their_borders(client: ModuleType) -> None:
    cut = [b"\xc3", b"\xa9", b"x" * 5000]

    async def read(url: str) -> list[bytes]:
        async with client.AsyncClient() as opened, opened.stream("GET", url) as answer:
            return [chunk async for chunk in answer.aiter_raw()]

    with ScriptedServer([stream(cut, borders="reads")]) as server:
        assert asyncio.run(read(server.url)) == cut


@CLIENTS
def test_an_async_client_gets_every_byte_before_a_reset(client: ModuleType) -> None:
    chunks: list[bytes] = []

    async def read(url: str) -> None:
        async with client.AsyncClient() as opened, opened.stream("GET", url) as answer:
            async for chunk in answer.aiter_raw():
                chunks.append(chunk)

    with ScriptedServer([stream([b"ab", b"cd"], ending="reset")]) as server, pytest.raises(client.ReadError):
        asyncio.run(read(server.url))
    assert b"".join(chunks) == b"abcd"


@CLIENTS
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_encoded_answers_are_decoded(client: ModuleType, coding: str) -> None:
    with ScriptedServer([json_reply({"é": [1]}, coding=coding)]) as server:
        answer = client.get(server.url)
    assert answer.headers["content-encoding"] == coding
    assert answer.json() == {"é": [1]}


@CLIENTS
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (stream([b"ab"], ending="reset"), "ReadError"),
        (stream([b"ab"], ending="cut"), "RemoteProtocolError"),
        (Hangup(), "RemoteProtocolError"),
        (Hangup(ending="reset"), "ReadError"),
        (Silence(), "ReadTimeout"),
        (head_then_hang(), "ReadTimeout"),
        (malformed_status_line(), "RemoteProtocolError"),
    ],
)
def test_each_break_is_the_error_that_a_client_has_for_it(client: ModuleType, behaviour: object, error: str) -> None:
    with ScriptedServer([behaviour]) as server, pytest.raises(client.TransportError) as raised:  # type: ignore[list-item]
        client.get(server.url, timeout=0.3)
    assert type(raised.value).__name__ == error


@CLIENTS
def test_a_head_of_gzip_without_a_body_stays_empty(client: ModuleType) -> None:
    with ScriptedServer([plain(headers={"content-encoding": "gzip"})] * 2) as server:
        assert client.head(server.url).content == b""
        assert client.get(server.url).content == b""


@CLIENTS
def test_a_refused_port_refuses(client: ModuleType) -> None:
    with refused_port() as port:
        with pytest.raises(client.ConnectError):
            client.get(f"http://127.0.0.1:{port}")
        with pytest.raises(OSError, match="in use"), socket.socket() as other:
            other.bind(("127.0.0.1", port))


def test_the_openai_sdk_retries_a_429_by_its_header() -> None:
    with ScriptedServer([too_many_requests(retry_after="0.01"), json_reply(COMPLETION)]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=1)
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "hello"
    assert server.hits == 2
    assert server.requests[0].body == server.requests[1].body


def test_the_openai_sdk_retries_a_hangup() -> None:
    with ScriptedServer([Hangup(ending="reset"), json_reply(COMPLETION)]) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=1)
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert server.hits == 2


@given(sent=strategies.headers(), body=strategies.json_bodies())
@settings(max_examples=20)
def test_any_header_and_body_arrives_as_it_was_sent(sent: tuple[tuple[str, str], ...], body: bytes) -> None:
    with ScriptedServer([plain()]) as server:
        raw = [(name.encode(), value.encode("latin-1")) for name, value in sent]
        httpx.post(server.url, content=body, headers=raw)
    request = server.requests[0]
    assert request.body == body
    kept = [pair for pair in request.headers if pair in sent]
    assert kept == [pair for pair in sent if pair in request.headers]
    assert set(sent) <= set(request.headers)


@given(drawn=strategies.chunked_streams())
@settings(max_examples=20)
def test_any_stream_comes_back_with_its_borders(drawn: strategies.ChunkedStream) -> None:
    with ScriptedServer([stream(drawn.chunks)]) as server, httpx.stream("GET", server.url) as answer:
        assert tuple(answer.iter_raw()) == drawn.chunks


def test_a_request_body_in_chunks_keeps_them() -> None:
    def parts() -> Iterator[bytes]:
        yield from (b"one", b"two", b"three")

    with ScriptedServer([plain()]) as server:
        httpx.post(server.url, content=parts())
    assert server.requests[0].chunks == (b"one", b"two", b"three")


@contextlib.contextmanager
def command(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    words = [sys.executable, "-m", "tachograph.testing.scripted", *map(str, arguments)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            yield process, f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def test_another_process_serves_a_script_and_writes_down_what_it_was_asked(tmp_path: Path) -> None:
    script, asked = tmp_path / "script.json", tmp_path / "requests.jsonl"
    script.write_text(json.dumps([{"json": {"n": 1}}]))
    with command(script, "--requests", asked) as (process, url):
        assert httpx.post(f"{url}/a", content=b"\xff").json() == {"n": 1}
        assert httpx.get(url).status_code == 410
    lines = [json.loads(line) for line in asked.read_text().splitlines()]
    assert [(line["number"], line["method"], line["target"]) for line in lines] == [(0, "POST", "/a"), (1, "GET", "/")]
    assert base64.b64decode(lines[0]["body_base64"]) == b"\xff"
    assert process.returncode == 0


def test_another_process_serves_the_scripted_model() -> None:
    with command("--chat") as (_, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        answer = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "You said: hi"


@pytest.mark.parametrize("text", ["{", '[{"kind": "sulk"}]'])
def test_a_script_that_cannot_be_used_ends_the_command(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tachograph.testing.scripted", script], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("scripted: ")
    assert "Traceback" not in done.stderr


def test_binary_bodies_come_back_exactly() -> None:
    body = bytes(range(256)) * 8 + b"\x00\xff\n"
    assert len(body) == 2051
    with ScriptedServer([plain(body), encoded(body, coding="zstd")]) as server:
        assert httpx.get(server.url).content == body
        assert httpx.get(server.url).content == body

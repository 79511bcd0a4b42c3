"""Row 2: what the agent waits for, seam to seam, encryption included.

A 100 KB request and a 2 KB unstreamed answer through the real httpx2 transport (its connection pool answers from
memory, so that the network's noise does not drown what is measured), recorder on and off in turn. Baseline: one bare
write of 100 KB to a file of the same file system. Each of the three comes 2 ms after what was before it, so that all
find the processor as an agent's call does: after a pause, its caches cold. Also streamed chunks, draws, and growth over
200 calls.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from time import perf_counter, sleep  # as they were before the draws are watched
from typing import Any

import httpcore2
import httpx2

from bench.measure import percentile, row
from tachograph.capture.recorder import Recorder
from tachograph.seams import port, transports
from tachograph.store import sealedbox

BODY = b'{"messages":[' + b'{"role":"user","content":"%s"},' % (b"x" * 2000) * 49 + b"0]}"
ANSWER = b'{"choices":[{"message":{"content":"' + b"y" * 1950 + b'"}}]}'
HEADERS = [(b"content-type", b"application/json"), (b"x-request-id", b"req_0123456789"), (b"date", b"now")]
CALLS = 1000
PAUSE_S = 0.002


class _Memory(httpcore2.ConnectionPool):
    """A connection pool that answers at once."""

    def handle_request(self, request: httpcore2.Request) -> httpcore2.Response:
        for _ in request.stream:  # type: ignore[union-attr]
            pass
        return httpcore2.Response(200, headers=HEADERS, content=ANSWER, extensions={"http_version": b"HTTP/1.1"})


def _recorder(folder: str) -> Recorder:
    public = sealedbox._new_private().public_key().public_bytes_raw()
    return Recorder(folder, run_id="run_01ARZ3NDEKTSV4RRFFQ69G5FAV", public=public, tag_key=bytes(32), facts={})


def _call(transport: httpx2.HTTPTransport, request: httpx2.Request) -> float:
    began = perf_counter()
    response = transport.handle_request(request)
    for _ in response.stream:  # type: ignore[union-attr]
        pass
    response.close()
    return perf_counter() - began


def _us(seconds: float) -> float:
    return seconds * 1e6


def run() -> list[dict[str, Any]]:
    """Measure calls, chunks, draws and growth."""
    transports.install()
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        recorder = _recorder(folder)
        results = [*_calls(recorder, folder), *_chunks(recorder, folder), *_draws(recorder)]
        port.listen(None)
        recorder.finish()
        return results


def _calls(recorder: Recorder, folder: str) -> list[dict[str, Any]]:
    transport = httpx2.HTTPTransport()
    transport._pool = _Memory()
    headers = {"authorization": "Bearer sk-test", "user-agent": "bench", "accept": "application/json"}
    request = httpx2.Request("POST", "http://127.0.0.1/v1/chat/completions", content=BODY, headers=headers)
    fd = os.open(f"{folder}/bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    added, bare = [], []
    for number in range(CALLS + 50):
        port.listen(None)
        sleep(PAUSE_S)
        off = _call(transport, request)
        port.listen(recorder)
        sleep(PAUSE_S)
        on = _call(transport, request)
        sleep(PAUSE_S)
        began = perf_counter()
        os.write(fd, BODY)
        wrote = perf_counter() - began
        if number >= 50:  # the first ones fill caches and name paths
            added.append(on - off)
            bare.append(wrote)
    os.close(fd)
    p50, p99 = percentile(added, 0.5), percentile(added, 0.99)
    bare50, bare99 = percentile(bare, 0.5), percentile(bare, 0.99)
    growth = percentile(added[190:200], 0.5) / percentile(added[0:10], 0.5)
    return [
        row(2, "added per call, p50", value=_us(p50), unit="us", baseline=_us(bare50), reach="<= 3x",
            met=p50 <= 3 * bare50),
        row(2, "added per call, p99", value=_us(p99), unit="us", baseline=_us(bare99), reach="<= bare p99 + 250 us",
            met=_us(p99) <= _us(bare99) + 250),
        row(2, "calls 191-200 against 1-10, p50", value=growth, unit="x", baseline=1, reach="<= 1.2x",
            met=growth <= 1.2),
    ]  # fmt: skip


def _chunks(recorder: Recorder, folder: str) -> list[dict[str, Any]]:
    exchange = recorder.call("bench", "POST", "http://127.0.0.1/", [], b"")
    chunk = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n' * 2
    fd = os.open(f"{folder}/bare-chunks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ours, bare = [], []
    for _ in range(5000):
        began = perf_counter()
        exchange.chunk(chunk)
        ours.append(perf_counter() - began)
        began = perf_counter()
        os.write(fd, chunk)
        bare.append(perf_counter() - began)
    os.close(fd)
    p50, p99, base = percentile(ours, 0.5), percentile(ours, 0.99), percentile(bare, 0.5)
    met = p50 <= 5 * base or _us(p50) <= 10
    return [
        row(2, "a chunk, p50", value=_us(p50), unit="us", baseline=_us(base), reach="<= 5x or 10 us", met=met),
        row(2, "a chunk, p99", value=_us(p99), unit="us", baseline=_us(percentile(bare, 0.99)), reach="<= 100 us",
            met=_us(p99) <= 100),
    ]  # fmt: skip


def _draws(recorder: Recorder) -> list[dict[str, Any]]:
    source = "def loop(n, clock):\n    for _ in range(n):\n        clock()\n"
    space: dict[str, Any] = {}
    exec(compile(source, f"{os.getcwd()}/an_agent.py", "exec"), space)
    loop: Callable[[int, Any], None] = space["loop"]
    count = 20_000
    port.listen(None)
    off = min(_timed(loop, count) for _ in range(5))
    port.listen(recorder)
    on = min(_timed(loop, count) for _ in range(5))
    added = _us(on - off) / count
    return [
        row(2, "a draw (time.time), added, its writing included", value=added, unit="us", baseline=_us(off) / count,
            reach="<= 1.5 us", met=added <= 1.5),
    ]  # fmt: skip


def _timed(loop: Callable[[int, Any], None], count: int) -> float:
    began = perf_counter()
    loop(count, time.time)
    return perf_counter() - began


if __name__ == "__main__":
    for result in run():
        print(result)
    sys.exit(0)

"""Sizes: what a recording, its sealing and its replay hold in memory, and whether the last call costs as the first.

Row 3: sealing real spools of three shapes in a process of its own: one decision of 10,000 calls of 100 KB, the same
that is never closed, 10,000 decisions of distinct sessions that interleave. Then real programs against a real server,
bare, recorded and replayed: 10,000 calls; 200 MB in a request and 200 MB in an answer; 200 calls at once (tasks,
threads); 50 processes. Of each the peak of the program over bare, of `tacho run` (which seals), of `tacho replay`, of
the replayed program; and of the 10,000 calls the time per call of the last 100 against the first. A peak is VmHWM, read
by the process itself at its end or from outside every 5 ms; of 50 processes it is that of the first.

SIZES_SCALE=0.1 does a tenth of the calls and bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import environment, row
from tachograph.testing.scripted import Reply, Request, ScriptedServer, json_reply, stream

SCALE = float(os.environ.get("SIZES_SCALE", "1"))
INTAKE_MB = 300
FLAT = 1.2
LARGE = int((200 << 20) * SCALE)
CALLS = int(10_000 * SCALE)
AT_ONCE, PROCESSES = 200, 50

_COMMON = """
import json, sys, time
import httpx2
url, count = sys.argv[1], int(sys.argv[2])
times = []
def clock():
    return time.clock_gettime(time.CLOCK_MONOTONIC)  # no draw: a replay has its own
def say():
    def middle(some):
        return sorted(some)[len(some) // 2] * 1e6 if some else 0
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    print(json.dumps({"first": middle(times[:100]), "last": middle(times[-100:]), "peakMb": peak}), file=sys.stderr)
"""
PROGRAMS = {
    "calls": """
with httpx2.Client() as client:
    for number in range(count):
        began = clock()
        client.post(url, json={"n": number, "pad": "x" * 2000}).json()
        times.append(clock() - began)
say()
""",
    "tools": """
import tachograph
client = httpx2.Client()
@tachograph.tool
def look(number):
    time.time()
    return client.post(url, json={"n": number}).json()
for number in range(count):
    began = clock()
    look(number)
    times.append(clock() - began)
say()
""",
    "body": """
def pieces():
    for at in range(0, count, 1 << 16):
        yield b"%08d" % at + bytes((1 << 16) - 8)
with httpx2.Client(timeout=60) as client:
    print(client.post(url, content=pieces(), headers={"content-type": "application/octet-stream"}).json())
    with client.stream("GET", url + f"/{count}") as answer:
        print(sum(map(len, answer.iter_raw())))
say()
""",
    "tasks": """
import asyncio
async def main():
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=60) as client:
        async def one(number):
            return (await client.post(url, json={"n": number})).json()["n"]
        print(sum(await asyncio.gather(*map(one, range(count)))))
asyncio.run(main())
say()
""",
    "threads": """
from concurrent.futures import ThreadPoolExecutor
with httpx2.Client(limits=httpx2.Limits(max_connections=None), timeout=60) as client:
    with ThreadPoolExecutor(count) as pool:
        print(sum(pool.map(lambda number: client.post(url, json={"n": number}).json()["n"], range(count))))
say()
""",
    "processes": """
import subprocess
if count == 0:
    print(httpx2.post(url, json={"n": int(sys.argv[3])}, timeout=60).json()["n"])
else:
    words = [[sys.executable, __file__, url, "0", str(number)] for number in range(count)]
    running = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in words]
    print(sum(int(one.communicate()[0]) for one in running))
    say()
""",
}


class Ran(NamedTuple):
    """A command that has ended: its own peak, and what the program in it said of itself."""

    peak_mb: float
    program: dict[str, Any]
    stdout: str


def answer(request: Request) -> Reply:
    """What the server says: how large the request was, its number, or as many bytes as the path asks for."""
    wanted = request.path.rpartition("/")[2]
    if wanted.isdigit():
        piece = bytes(1 << 16)
        return stream([piece] * (int(wanted) >> 16), content_type="application/octet-stream")
    if len(request.body) > 1 << 16:
        return json_reply({"bytes": len(request.body)})
    return json_reply({"n": json.loads(request.body)["n"], "said": "y" * 500})


def _hwm(pid: int) -> float:
    with contextlib.suppress(OSError, StopIteration), open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    return 0.0


def watched(words: list[str], env: dict[str, str], cwd: str) -> tuple[float, str, str]:
    """Run a command; return its peak memory in MB and its two streams. Raises AssertionError where it fails."""
    process = subprocess.Popen(words, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    peak, over = 0.0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not over.wait(0.005):
            peak = max(peak, _hwm(process.pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    out, err = process.communicate()
    over.set()
    watcher.join()
    if process.returncode != 0:
        raise AssertionError(f"{words}: {process.returncode}: {out[-2000:]} {err[-2000:]}")
    return peak, out, err


class World:
    """A folder with a store, and a server."""

    def __init__(self, folder: str, server: ScriptedServer) -> None:
        self.folder = folder
        self.url = server.url
        self.env = environment(XDG_CONFIG_HOME=f"{folder}/config", TACHO_STORE=f"{folder}/store")

    def program(self, name: str, count: int) -> list[str]:
        """The words that start a program."""
        path = Path(self.folder, f"{name}.py")
        path.write_text(_COMMON + PROGRAMS[name])
        return [sys.executable, str(path), self.url, str(count)]

    def tacho(self, *words: str) -> tuple[float, str, str]:
        """Run `tacho`."""
        return watched([sys.executable, "-m", "tachograph", *words], self.env, self.folder)

    def thrice(self, name: str, count: int) -> tuple[Ran, Ran, Ran]:
        """Run a program bare, record it, replay it. Raises AssertionError where the replay is not equivalent."""
        words = self.program(name, count)
        bare = _ran(*watched(words, self.env, self.folder))
        recorded = _ran(*self.tacho("run", "--", *words))
        peak, out, _ = self.tacho("replay", "last", "--json")
        said = json.loads(out)
        if not said["equivalent"]:
            raise AssertionError(f"{name}: not equivalent: {out[:2000]}")
        return bare, recorded, _ran(peak, said["outcome"]["stdout"], said["outcome"]["stderr"])


def _ran(peak: float, out: str, err: str) -> Ran:
    said = [json.loads(line) for line in err.splitlines() if line.startswith('{"first"')]
    return Ran(peak, said[0], out)


def run() -> Iterator[dict[str, Any]]:
    """Measure the shapes, each in a store of its own."""
    for shape, what in (
        ("window", f"intake of one decision of {CALLS:,} calls of 100 KB"),
        ("unclosed", f"intake of {CALLS:,} calls of 100 KB in a decision that is never closed"),
        ("many", f"intake of {CALLS:,} decisions of distinct sessions, 50 at a time"),
    ):
        yield _intake(shape, what)
    for name, count, what in (
        ("calls", CALLS, f"{CALLS:,} calls"),
        ("tools", CALLS, f"{CALLS:,} tools that each call"),
        ("body", LARGE, f"{LARGE >> 20} MB in a request and in an answer"),
        ("tasks", AT_ONCE, f"{AT_ONCE} calls at once, tasks"),
        ("threads", AT_ONCE, f"{AT_ONCE} calls at once, threads"),
        ("processes", PROCESSES, f"{PROCESSES} processes that each call"),
    ):
        with _world() as world:
            yield from _end_to_end(world, name, count, what)


@contextlib.contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder, ScriptedServer(answer) as server:
        yield World(folder, server)


def _intake(shape: str, what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        env = environment(XDG_CONFIG_HOME=f"{folder}/config", TACHO_STORE=f"{folder}/store")
        words = [sys.executable, "-m", "bench.spooled"]
        written = json.loads(watched([*words, "write", shape, str(CALLS)], env, os.getcwd())[1])
        sealed = json.loads(watched([*words, "seal"], env, os.getcwd())[1])
    return row(
        3, f"{what}, peak", value=sealed["peakMb"], unit="MB", baseline=sealed["loadedMb"], reach=f"< {INTAKE_MB} MB",
        met=sealed["peakMb"] < INTAKE_MB and not sealed["left"], spoolMb=round(written["spoolMb"]),
        recorderMb=round(written["peakMb"]), seconds=round(sealed["seconds"], 1),
    )  # fmt: skip


def _end_to_end(world: World, name: str, count: int, what: str) -> Iterator[dict[str, Any]]:
    bare, recorded, replayed = world.thrice(name, count)
    base = bare.program["peakMb"]
    added = recorded.program["peakMb"] - base
    yield row(3, f"{what}: the recorded program, over bare", value=added, unit="MB", baseline=base,
              reach="<= 20 MB", met=added <= 20)  # fmt: skip
    yield row(3, f"{what}: tacho run", value=recorded.peak_mb, unit="MB", baseline=base, reach=f"< {INTAKE_MB} MB",
              met=recorded.peak_mb < INTAKE_MB)  # fmt: skip
    yield row(3, f"{what}: tacho replay", value=replayed.peak_mb, unit="MB", baseline=base,
              reach=f"< {INTAKE_MB} MB", met=replayed.peak_mb < INTAKE_MB)  # fmt: skip
    inside = replayed.program["peakMb"] - base
    yield row(3, f"{what}: the replayed program, over bare", value=inside, unit="MB", baseline=base,
              reach=f"< {INTAKE_MB} MB", met=inside < INTAKE_MB)  # fmt: skip
    if recorded.program["first"]:
        for number, verb, ran in ((2, "recorded", recorded), (6, "replayed", replayed)):
            first, last = ran.program["first"], ran.program["last"]
            yield row(number, f"{what}, {verb}: the last 100 against the first", value=last, unit="us",
                      baseline=first, reach=f"<= {FLAT}x", met=last <= FLAT * first)  # fmt: skip


if __name__ == "__main__":
    for result in run():
        print(json.dumps(result), flush=True)

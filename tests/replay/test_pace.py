"""A replay at the recorded pace waits as long as the recorded program did; nothing else about it changes."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tachograph.model.effect import CHUNK, END, HTTP, SLEEP, SUBPROCESS, Arrival, Effect
from tachograph.replay.ledger import Ledger
from tachograph.replay.pace import Pace, lasted_s, steps_of
from tachograph.testing.scripted import Behaviour, Request, ScriptedServer, stream
from tests.gauntlet.harness import record, replay, same, tacho
from tests.seams.driver import Session

CLOCK = """
import asyncio, subprocess, sys, threading, time
def clock(): return time.clock_gettime(time.CLOCK_MONOTONIC)
"""
WAYS = {
    "sleep": "time.sleep(0.6)",
    "wait": "threading.Event().wait(0.6)",
    "join": "t = threading.Thread(target=time.sleep, args=(0.9,)); t.start(); t.join(0.6); t.join()",
    "timer": "asyncio.run(asyncio.sleep(0.6))",
    "in tasks": """
async def main():
    await asyncio.gather(*[asyncio.sleep(at) for at in (0.6, 0.2, 0.4)])
asyncio.run(main())
""",
    "program": "subprocess.run(['sleep', '0.6'])",
    "its output": "subprocess.run(['sh', '-c', 'echo a; sleep 0.4; echo b; sleep 0.2'], stdout=-1)",
    "its time-out": """
p = subprocess.Popen(["sleep", "60"])
try: p.wait(0.6)
except subprocess.TimeoutExpired: p.kill()
p.wait()
""",
    "a child": "subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.6)'])",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_took_its_time_takes_it_again(tmp_path: Path, way: str) -> None:
    recorded = Session(
        tmp_path, f"{CLOCK}\nbegan = clock()\n{WAYS[way]}\nsys.stderr.write(str(clock() - began))"
    ).record()
    assert float(recorded.ended.err) >= 0.6
    at_pace = recorded.replay(pace=True)
    assert float(at_pace.ended.err) >= 0.6
    assert (at_pace.clean, at_pace.drift) == (True, [])
    assert sorted(at_pace.served) == [effect.index for effect in recorded.log.effects]


def test_a_wait_that_somebody_ends_meanwhile_is_not_held(tmp_path: Path) -> None:
    session = Session(tmp_path, f"""{CLOCK}
flag = threading.Event()
def work():
    until = clock() + 0.3
    while clock() < until: pass
    if len(sys.argv) > 1: flag.set()
threading.Thread(target=work).start()
print(flag.wait(20 if len(sys.argv) > 1 else 1))
""")  # fmt: skip
    recorded = session.record()
    assert recorded.out == "False\n"
    assert recorded.replay("x", pace=True).ended.out == "True\n"


def test_who_is_held_back_is_no_standstill(tmp_path: Path) -> None:
    """One thread sleeps; the other's programs, which it starts sooner than it did, end after that sleep."""
    recorded = Session(tmp_path, f"""{CLOCK}
said = []
def sleeper():
    time.sleep(1.2)
    said.append("slept")
thread = threading.Thread(target=sleeper)
thread.start()
until = clock() + 1
while clock() < until and len(sys.argv) == 1: pass
time.sleep(0.4)
said.append("woken")
thread.join()
print(said)
""").record()  # fmt: skip
    replayed = recorded.replay("x", pace=True)
    assert recorded.out == replayed.ended.out == "['slept', 'woken']\n"


@pytest.mark.parametrize("client", ["sync", "async", "urllib3", "aiohttp"])
def test_arrivals_are_held_to_the_recorded_gaps(tmp_path: Path, client: str) -> None:
    def answer(_: Request) -> Behaviour:
        return stream((0.3, b"one", 0.4, b"two", 0.3, b"three"), borders="reads")

    source = """
import sys, time, json
began = time.clock_gettime(time.CLOCK_MONOTONIC)
def at(): return round(time.clock_gettime(time.CLOCK_MONOTONIC) - began, 3)
url, client, seen, said = sys.argv[1], sys.argv[2], [], []
def take(data): seen.append(at()); said.append(data.decode())
if client == "sync":
    import httpx
    with httpx.stream("GET", url) as r:
        for part in r.iter_raw(): take(part)
elif client == "async":
    import asyncio, httpx
    async def main():
        async with httpx.AsyncClient() as c, c.stream("GET", url) as r:
            async for part in r.aiter_raw(): take(part)
    asyncio.run(main())
elif client == "aiohttp":
    import asyncio, aiohttp
    async def main():
        async with aiohttp.ClientSession() as s, s.get(url) as r:
            async for part in r.content.iter_any(): take(part)
    asyncio.run(main())
else:
    import urllib3
    for part in urllib3.PoolManager().request("GET", url, preload_content=False).stream(5): take(part)
print("".join(said))
sys.stderr.write(json.dumps(seen))
"""
    with ScriptedServer(answer) as server:
        recorded = Session(tmp_path, source).record(server.url, client)
    assert recorded.out == "onetwothree\n"
    replayed = recorded.replay(pace=True)
    assert (replayed.out, replayed.clean) == (recorded.out, True)
    (first, *_, last), (begun, *_, ended) = json.loads(recorded.ended.err), json.loads(replayed.ended.err)
    assert ended - begun >= (last - first) - 0.2
    assert ended - begun > 0.5


def test_the_command_line_waits_and_answers_as_ever(tmp_path: Path) -> None:
    recorded = record(tmp_path, "naps.py", seconds=0.4)
    timeline = recorded.shown()["timeline"]
    slept = max(one["startedMs"] + one["durationMs"] for one in timeline if one["durationMs"] is not None)
    replayed = replay(recorded, "--pace")
    same(recorded, replayed)
    first = min(one["startedMs"] for one in timeline)
    assert replayed["timings"]["totalMs"] > slept - first
    every = tacho(recorded.world, "replay", "--all", "--pace", "--json")
    assert (every.exit_code, every.json()[0]["timings"]["totalMs"] > slept - first) == (0, True)


def made(kind: str, *arrivals: Arrival) -> Effect:
    effect = Effect(kind, index=1, path="0", decision=0, parent=0, at_ns=1_000_000_000)
    effect.arrivals = list(arrivals)
    return effect


def test_what_a_program_wrote_within_ten_milliseconds_is_one_step() -> None:
    at = 1_000_000_000
    parts = [(0, b"a", 1), (9_000_000, b"bc", 1), (9_500_000, b"x", 2), (12_000_000, b"d", 1), (500_000_000, b"e", 1)]
    effect = made(SUBPROCESS, *[Arrival(CHUNK, at + after, data, stream) for after, data, stream in parts],
                  Arrival(END, at + 700_000_000))  # fmt: skip
    assert steps_of(effect) == ([(1, 0.0, 3), (1, 0.012, 1), (1, 0.5, 1), (2, 0.0095, 1)], 0.7)
    assert steps_of(made(SUBPROCESS)) == ([], 0)


def test_the_first_arrival_s_gap_begins_when_the_request_had_been_sent_whole() -> None:
    effect = made(HTTP)
    effect.sent_at_ns = effect.at_ns + 60_000_000_000
    ledger = Ledger([])
    Pace(ledger, effect).wait(effect.sent_at_ns + 1_000_000)
    assert 0 < ledger.held < monotonic() + 30


def test_a_sleep_lasted_from_its_start_to_its_end_and_a_lapse_what_it_says() -> None:
    effect: Any = made(SLEEP, Arrival(END, 1_250_000_000))
    assert lasted_s(effect) == 0.25
    effect.lasted_ns = 3_000_000_000
    assert lasted_s(effect) == 3
    assert lasted_s(made(SLEEP)) == 0

"""Timers of event loops: what fired fires again in its turn, without waiting; what was cancelled left nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.model.effect import SLEEP, Effect
from tachograph.testing.replies import Silence, plain
from tachograph.testing.scripted import ScriptedServer
from tests.seams.driver import Recorded, Session

LOOPS = ("asyncio.run", "uvloop.run")
HEAD = "import asyncio, time, uvloop\n"


def sleeps(recorded: Recorded) -> list[Effect]:
    return [effect for effect in recorded.log.effects if effect.kind == SLEEP]


def program(body: str, run: str) -> str:
    return HEAD + "async def main():\n" + "".join(f"    {line}\n" for line in body.splitlines()) + f"{run}(main())\n"


@pytest.mark.parametrize("run", LOOPS)
def test_tasks_wake_in_the_recorded_order(tmp_path: Path, run: str) -> None:
    body = """async def one(name, seconds):
    await asyncio.sleep(seconds)
    print(name)
    await asyncio.sleep(0)
    print(name, "again")
await asyncio.gather(one("a", 0.4), one("b", 0.1), one("c", 0.25))
await asyncio.gather(asyncio.sleep(0.2), asyncio.sleep(0.1))"""
    recorded = Session(tmp_path, program(body, run)).record()
    replayed = recorded.replay()
    assert recorded.out == replayed.out == "b\nb again\nc\nc again\na\na again\n"
    assert [effect.ended for effect in sleeps(recorded)] == ["returned"] * 5
    assert (replayed.served, replayed.clean, replayed.drift) == ([1, 2, 3, 4, 5], True, [])


def test_timers_that_fired_in_one_go_fire_in_one_go(tmp_path: Path) -> None:
    body = """loop, fired = asyncio.get_running_loop(), []
def fire(name):
    fired.append(name)
    loop.call_soon(fired.append, name + " later")
when = loop.time() + 0.2
for place, name in enumerate("abc"): loop.call_at(when + place * 1e-6, fire, name)
await asyncio.sleep(0.4)
print(fired)"""
    recorded = Session(tmp_path, program(body, "asyncio.run")).record()
    assert recorded.out == recorded.replay().out == "['a', 'b', 'c', 'a later', 'b later', 'c later']\n"


@pytest.mark.parametrize("run", LOOPS)
def test_a_time_out_expires_again_and_another_does_not(tmp_path: Path, run: str) -> None:
    body = """for seconds in (0.2, 30):
    try:
        print(await asyncio.wait_for(asyncio.sleep(1.0, "slept"), seconds))
    except asyncio.TimeoutError:
        print("timed out")
try:
    async with asyncio.timeout(0.2):
        await asyncio.Event().wait()
except TimeoutError:
    print("timed out")"""
    recorded = Session(tmp_path, program(body, run)).record()
    replayed = recorded.replay()
    assert recorded.out == replayed.out == "timed out\nslept\ntimed out\n"
    assert (len(sleeps(recorded)), replayed.clean, replayed.drift) == (3, True, [])


def test_anyio_s_deadlines_pass_on_the_loop_s_clock(tmp_path: Path) -> None:
    body = """import anyio
with anyio.move_on_after(0.3) as scope:
    await anyio.sleep(30)
print(scope.cancelled_caught)
try:
    with anyio.fail_after(0.3):
        await anyio.sleep_forever()
except TimeoutError:
    print("timed out")"""
    recorded = Session(tmp_path, program(body, "asyncio.run")).record()
    replayed = recorded.replay()
    assert recorded.out == replayed.out == "True\ntimed out\n"
    assert replayed.drift == []


@pytest.mark.parametrize("run", LOOPS)
def test_a_replay_does_not_wait(tmp_path: Path, run: str) -> None:
    body = """import sys
began = time.clock_gettime(time.CLOCK_MONOTONIC)
await asyncio.sleep(1.5)
sys.stderr.write(str(time.clock_gettime(time.CLOCK_MONOTONIC) - began))"""
    recorded = Session(tmp_path, program(body, run)).record()
    assert float(recorded.ended.err) >= 1.49
    assert float(recorded.replay().ended.err) < 0.75


def test_a_cancelled_timer_leaves_nothing(tmp_path: Path) -> None:
    body = "for _ in range(50): asyncio.get_running_loop().call_later(30, print).cancel()"
    assert sleeps(Session(tmp_path, program(body, "asyncio.run")).record()) == []


def test_what_works_beside_a_sleep_is_done_when_it_ends(tmp_path: Path) -> None:
    body = """done = []
async def work():
    for _ in range(20):
        done.append(sum(range(10_000)))
        await asyncio.sleep(0)
def heavy():
    done.append(sum(number * number for number in range(300_000)))
task, other = asyncio.create_task(work()), asyncio.create_task(asyncio.to_thread(heavy))
await asyncio.sleep(1.0)
print(len(done))"""
    recorded = Session(tmp_path, program(body, "asyncio.run")).record()
    assert recorded.out == recorded.replay().out == "21\n"


@pytest.mark.parametrize("run", LOOPS)
def test_a_call_that_a_time_out_cut_off_is_cut_off_again(tmp_path: Path, run: str) -> None:
    body = """import httpx, sys
async with httpx.AsyncClient() as client:
    try:
        await asyncio.wait_for(client.get(sys.argv[1]), 0.4)
    except asyncio.TimeoutError:
        print("cut off")
    print((await client.get(sys.argv[1])).text)"""
    with ScriptedServer([Silence(), plain("second")]) as server:
        recorded = Session(tmp_path, program(body, run)).record(server.url)
        hits = server.hits
        replayed = recorded.replay()
        assert server.hits == hits
    assert recorded.out == replayed.out == "cut off\nsecond\n"
    assert [(effect.kind, effect.ended) for effect in recorded.log.effects] == [
        ("http", "cut_off"), ("sleep", "returned"), ("http", "eof"),
    ]  # fmt: skip
    assert (replayed.clean, replayed.drift) == (True, [])


def test_a_client_s_own_time_outs_are_no_timers_of_the_program(tmp_path: Path) -> None:
    body = """import httpx, sys
async with httpx.AsyncClient(timeout=0.4) as client:
    try:
        await client.get(sys.argv[1])
    except httpx.ReadTimeout as fault:
        print(type(fault).__name__)"""
    with ScriptedServer([Silence()]) as server:
        recorded = Session(tmp_path, program(body, "asyncio.run")).record(server.url)
        replayed = recorded.replay()
    assert recorded.out == replayed.out == "ReadTimeout\n"
    assert [effect.kind for effect in recorded.log.effects] == ["http"]


def test_a_loop_that_is_recorded_keeps_its_own_clock(tmp_path: Path) -> None:
    """A recorder ends no timer early: only a replay needs another clock, and every turn of a loop asks for the time."""
    session = Session(tmp_path, "import asyncio\nprint(asyncio.BaseEventLoop.time.__module__)\n")
    assert session.record().out == session.plain().out

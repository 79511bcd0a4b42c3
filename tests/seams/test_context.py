"""Task paths follow the program's own structure: tasks, threads, executor items, whatever thread works them off.

Each program prints the path at which its parts ran, as `context.here()` says; the recorder writes the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.seams.driver import Session

HEAD = """
import asyncio, contextvars, json, threading, time
from concurrent.futures import ThreadPoolExecutor, as_completed
from tachograph.seams import context
said = {}
def here():
    return context.here().path
"""
TAIL = """
print(json.dumps(said, sort_keys=True))
"""


def said(folder: Path, source: str) -> dict[str, Any]:
    """What a recorded program found, and that it finds the same in a replay."""
    session = Session(folder, HEAD + source + TAIL)
    recorded = session.record()
    assert recorded.replay().out == recorded.out
    found = json.loads(recorded.out)
    assert isinstance(found, dict)
    return found


def test_gathered_tasks_have_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    found = said(tmp_path, """
async def one(number, wait):
    await asyncio.sleep(wait)
    said[str(number)] = here()
    if number == 1:
        await asyncio.gather(nested("x"), nested("y"))
async def nested(name):
    await asyncio.sleep(0)
    said[name] = here()
async def main():
    said["main"] = here()
    await asyncio.gather(*[one(number, wait) for number, wait in enumerate([0.03, 0.02, 0.0])])
    await asyncio.create_task(nested("later"))
asyncio.run(main())
said["after"] = here()
""")  # fmt: skip
    assert found == {
        "main": "0/a1", "0": "0/a1/a1", "1": "0/a1/a2", "2": "0/a1/a3", "x": "0/a1/a2/a1", "y": "0/a1/a2/a2",
        "later": "0/a1/a4", "after": "0",
    }  # fmt: skip


def test_every_way_to_start_a_task_counts(tmp_path: Path) -> None:
    found = said(tmp_path, """
async def one(name):
    said[name] = here()
async def main():
    loop = asyncio.get_running_loop()
    await asyncio.ensure_future(one("ensure_future"))
    await loop.create_task(one("loop"))
    async with asyncio.TaskGroup() as group:
        group.create_task(one("group 1"))
        group.create_task(one("group 2"))
    await asyncio.wait_for(one("wait_for"), 5)
    await asyncio.shield(one("shield"))
    await asyncio.Task(one("directly"))
    await one("awaited")
with asyncio.Runner() as runner:
    runner.run(main())
    runner.run(one("second run"))
""")  # fmt: skip
    directly = found.pop("directly")
    assert found == {
        "ensure_future": "0/a1/a1", "loop": "0/a1/a2", "group 1": "0/a1/a3", "group 2": "0/a1/a4",
        "wait_for": "0/a1/a5", "shield": "0/a1/a6", "awaited": "0/a1", "second run": "0/a2",
    }  # fmt: skip
    assert directly == "0/a1", "a task made past its loop stands where it was made"


def test_threads_have_the_order_in_which_their_parent_started_them(tmp_path: Path) -> None:
    found = said(tmp_path, """
def work(name, wait):
    time.sleep(wait)
    said[name] = here()
    if name == "one":
        thread = threading.Thread(target=work, args=("inner", 0)); thread.start(); thread.join()
class Own(threading.Thread):
    def run(self):
        said["own"] = here()
threads = [threading.Thread(target=work, args=a, name="same name") for a in (("one", 0.02), ("two", 0.0))]
threads.append(Own())
timer = threading.Timer(0.001, work, ("timer", 0))
for thread in threads + [timer]: thread.start()
for thread in threads + [timer]: thread.join()
""")  # fmt: skip
    assert found == {"one": "0/t1", "two": "0/t2", "own": "0/t3", "timer": "0/t4", "inner": "0/t1/t1"}


def test_items_of_a_pool_have_their_own_order_whichever_thread_takes_them(tmp_path: Path) -> None:
    found = said(tmp_path, """
def work(number):
    time.sleep(0.001 * (number % 3))
    said[str(number)] = here()
with ThreadPoolExecutor(2) as pool:
    list(pool.map(work, range(6)))
    for done in as_completed([pool.submit(work, number) for number in (6, 7)]): done.result()
""")  # fmt: skip
    assert found == {str(number): f"0/e{number + 1}" for number in range(8)}


def test_a_thread_that_is_started_after_a_pool_has_the_same_number_however_many_workers_the_pool_had(
    tmp_path: Path,
) -> None:
    found = said(tmp_path, """
def work(name):
    said[name] = here()
with ThreadPoolExecutor(8) as pool:
    list(pool.map(time.sleep, [0.01] * 5))
thread = threading.Thread(target=work, args=("thread",)); thread.start(); thread.join()
""")  # fmt: skip
    assert found == {"thread": "0/t1"}


def test_work_handed_from_a_task_to_a_thread_keeps_the_task_as_its_parent(tmp_path: Path) -> None:
    found = said(tmp_path, """
def work(name):
    said[name] = here()
async def one(name):
    await asyncio.to_thread(work, name + " to_thread")
    await asyncio.get_running_loop().run_in_executor(None, work, name + " executor")
async def main():
    await asyncio.gather(one("first"), one("second"))
asyncio.run(main())
""")  # fmt: skip
    assert found == {
        "first to_thread": "0/a1/a1", "second to_thread": "0/a1/a2",  # it runs in the task's own context
        "first executor": "0/a1/a1/e2", "second executor": "0/a1/a2/e2",
    }  # fmt: skip


def test_a_loop_in_a_thread_stands_below_that_thread(tmp_path: Path) -> None:
    found = said(tmp_path, """
async def one(name):
    said[name] = here()
def work(name):
    asyncio.run(one(name))
threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")  # fmt: skip
    assert found == {"a": "0/t1/a1", "b": "0/t2/a1"}


def test_a_forked_process_stands_below_whatever_forked_it(tmp_path: Path) -> None:
    found = said(tmp_path, """
import os
def forked(name):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, here().encode())
        os._exit(0)
    os.waitpid(child, 0)
    said[name] = [os.read(read, 99).decode(), here()]
forked("first"); forked("second")
thread = threading.Thread(target=forked, args=("in a thread",)); thread.start(); thread.join()
""")  # fmt: skip
    assert found == {"first": ["0/p1", "0"], "second": ["0/p2", "0"], "in a thread": ["0/t1/p1", "0/t1"]}


def test_coroutines_handed_to_another_threads_loop_are_tasks_of_it(tmp_path: Path) -> None:
    found = said(tmp_path, """
async def one(name):
    said[name] = here()
loop = asyncio.new_event_loop()
thread = threading.Thread(target=loop.run_forever); thread.start()
for name in "ab":
    asyncio.run_coroutine_threadsafe(one(name), loop).result()
loop.call_soon_threadsafe(loop.stop); thread.join()
""")  # fmt: skip
    assert len(set(found.values())) == 2
    assert set(found) == {"a", "b"}


def test_an_explicit_context_is_used_and_keeps_the_programs_variables(tmp_path: Path) -> None:
    found = said(tmp_path, """
colour = contextvars.ContextVar("colour", default="none")
async def one(name):
    said[name] = [here(), colour.get()]
async def main():
    context_of_ours = contextvars.copy_context()
    context_of_ours.run(colour.set, "red")
    await asyncio.create_task(one("explicit"), context=context_of_ours)
    await asyncio.create_task(one("plain"))
    said["inside"] = [here(), colour.get()]
asyncio.run(main())
""")  # fmt: skip
    assert found == {"explicit": ["0/a1/a1", "red"], "plain": ["0/a1/a2", "none"], "inside": ["0/a1", "none"]}


def test_a_task_started_in_the_context_that_runs_right_now_is_started_as_without_us(tmp_path: Path) -> None:
    found = said(tmp_path, """
colour = contextvars.ContextVar("colour", default="none")
async def inner():
    colour.set("set inside")
    said["inner"] = here()
async def main(shared):
    await asyncio.create_task(inner(), context=shared)
    said["colour"] = colour.get()
shared = contextvars.copy_context()
with asyncio.Runner() as runner:
    runner.run(main(shared), context=shared)
""")  # fmt: skip
    assert found == {"inner": "0/a1", "colour": "set inside"}


CONTEXTVARS = """
import asyncio, contextvars, json, threading
from concurrent.futures import ThreadPoolExecutor
colour = contextvars.ContextVar("colour", default="none")
said = {}
def read(name):
    said[name] = colour.get()
    colour.set("set by " + name)
async def task(name):
    read(name)
async def main():
    colour.set("main")
    await asyncio.create_task(task("task"))
    await asyncio.gather(task("gathered"), task("too"))
    await asyncio.to_thread(read, "to_thread")
    await asyncio.get_running_loop().run_in_executor(None, read, "executor")
    said["after"] = colour.get()
colour.set("outside")
thread = threading.Thread(target=read, args=("thread",)); thread.start(); thread.join()
with ThreadPoolExecutor(1) as pool:
    for name in ("pool 1", "pool 2"): pool.submit(read, name).result()
asyncio.run(main())
said["outside"] = colour.get()
said["names"] = [each.name for each in contextvars.copy_context() if not each.name.startswith("tachograph")]
print(json.dumps(said))
"""


def test_the_programs_own_context_variables_are_what_they_would_be_without_us(tmp_path: Path) -> None:
    session = Session(tmp_path, CONTEXTVARS)
    without = session.plain()
    assert without.status == 0, without.err
    assert session.record().out == without.out


SIGNATURES = """
import asyncio, concurrent.futures, threading, inspect, json
async def nothing(): return 7
async def main():
    loop = asyncio.get_running_loop()
    task = loop.create_task(nothing(), name="a name")
    said = [task.get_name(), await task]
    try:
        loop.create_task(nothing(), unknown=1)
    except TypeError as fault:
        said.append("TypeError")
    loop.set_task_factory(lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options))
    said.append(await loop.create_task(nothing()))
    return said
said = asyncio.run(main())
thread = threading.Thread(target=lambda: None)
try:
    thread.start(); thread.start()
except RuntimeError as fault:
    said.append(str(fault))
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    future = pool.submit(lambda a, b=0: a / b, 1, b=0)
    said += [type(future.exception()).__name__, pool.submit(pow, 2, 5).result()]
try:
    pool.submit(print)
except RuntimeError as fault:
    said.append(str(fault))
print(json.dumps(said))
"""


@pytest.mark.filterwarnings("ignore")
def test_starting_tasks_threads_and_items_fails_and_succeeds_as_without_us(tmp_path: Path) -> None:
    session = Session(tmp_path, SIGNATURES)
    without = session.plain()
    assert without.status == 0, without.err
    assert session.record().out == without.out


def test_a_decision_and_an_enclosing_effect_reach_into_everything_started_inside(tmp_path: Path) -> None:
    found = said(tmp_path, """
import tachograph
def look(name):
    said[name] = [context.decision.get(), context.enclosing.get() > 0]
@tachograph.tool
def outer():
    thread = threading.Thread(target=look, args=("thread in effect",)); thread.start(); thread.join()
    if not said.get("replayed"):
        look("in effect")
async def task(name):
    look(name)
async def main():
    await asyncio.gather(task("task"), asyncio.to_thread(look, "to_thread"))
with tachograph.decision(agent="a"):
    look("in decision")
    thread = threading.Thread(target=look, args=("thread",)); thread.start(); thread.join()
    with ThreadPoolExecutor(1) as pool: pool.submit(look, "pool").result()
    asyncio.run(main())
look("outside")
with tachograph.decision(agent="b"):
    look("second")
""")  # fmt: skip
    assert found == {
        "in decision": [1, False], "thread": [1, False], "pool": [1, False], "task": [1, False],
        "to_thread": [1, False], "outside": [0, False], "second": [2, False],
    }  # fmt: skip


def test_an_effect_inside_another_knows_it_in_every_thread(tmp_path: Path) -> None:
    session = Session(tmp_path, """
        import threading, tachograph
        from concurrent.futures import ThreadPoolExecutor
        @tachograph.tool
        def inner(name):
            return name
        @tachograph.tool
        def outer():
            inner("same thread")
            thread = threading.Thread(target=inner, args=("thread",)); thread.start(); thread.join()
            with ThreadPoolExecutor(1) as pool: pool.submit(inner, "pool").result()
        outer()
        inner("after")
    """)  # fmt: skip
    log = session.record().log
    assert [(effect.name, effect.parent, effect.path) for effect in log.effects] == [
        ("outer", 0, "0"), ("inner", 1, "0"), ("inner", 1, "0/t1"), ("inner", 1, "0/e1"), ("inner", 0, "0"),
    ]  # fmt: skip


def test_the_path_of_a_program_that_was_started_is_taken_from_its_environment(tmp_path: Path) -> None:
    session = Session(tmp_path, "from tachograph.seams import context; print(context.here().path)")
    assert session.record(settings={"PATH": "0/a2/p1"}).out == "0/a2/p1\n"


LEFT = """
import asyncio, gc, sys, uuid
async def numbers():
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0)
async def draws():
    return str(uuid.uuid4())
class Client:
    def __init__(self, start):
        self.itself, self.start = self, start
    def __del__(self):
        self.start(draws())
async def main():
    loop = asyncio.get_running_loop()
    gc.disable()
    for number in range(3):
        async for _ in numbers():
            break
        Client(asyncio.create_task if number else loop.create_task)
        if "--collect" in sys.argv:
            gc.collect()
            await asyncio.sleep(0.01)
        print(await asyncio.create_task(draws()))
asyncio.run(main())
"""


def test_a_generator_that_is_collected_sooner_or_later_shifts_no_task_path(tmp_path: Path) -> None:
    recorded = Session(tmp_path, LEFT).record("--collect")
    replayed = recorded.replay("--late")
    assert recorded.out.count("\n") == 3
    assert replayed.out == recorded.out

"""Items of pools stand on paths of their own, whichever worker took them, and a pool behaves as it does without us."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.testing.scripted import Request, ScriptedServer, plain
from tests.seams.driver import Session

MAKING = """
import multiprocessing, multiprocessing.pool, re, sys, time, traceback, uuid
from concurrent.futures import ProcessPoolExecutor

def executor(start, workers, *rest):
    return ProcessPoolExecutor(workers, multiprocessing.get_context(start), *rest)
"""


def _back(request: Request) -> object:
    return plain(request.body)


PLAINLY = (
    MAKING
    + """
class Unpicklable(Exception):
    def __reduce__(self): raise TypeError("not me")

def fail(what):
    if what == "unpicklable": raise Unpicklable(what)
    raise LookupError(what) from ZeroDivisionError("before")

def shown(get):
    try:
        return get()
    except BaseException as fault:
        return "".join(traceback.format_exception_only(fault)), repr(fault.__cause__), getattr(fault, "__notes__", None)

def name(function): return function.__module__, function.__qualname__, type(function).__name__
def framed(): return [frame.name for frame in traceback.extract_stack()][-2:]

if __name__ == "__main__":
    said = []
    with executor("fork", 1) as pool:
        for call in ((fail, "x"), (fail, "unpicklable"), (len, lambda: 0), (lambda: 0,), (name, name), (framed,)):
            said.append(shown(pool.submit(*call).result))
        said.append(shown(lambda: list(pool.map(fail, ["a", "b"], chunksize=2))))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        calls = [(fail, ("x",)), (fail, ("unpicklable",)), (len, (lambda: 0,)), ((lambda: 0), ()), (name, (name,))]
        for call in [*calls, (framed, ())]:
            said.append(shown(pool.apply_async(*call).get))
        said.append(shown(lambda: pool.map(fail, ["a", "b"], 2)))
        said.append(shown(lambda: list(pool.imap(name, (1 / number for number in (1, 0))))))
        said.append((type(pool._inqueue).__name__, pool.map(name, [])))
    for one in said: print(re.sub("0x[0-9a-f]+", "0x", str(one)))
"""
)


def test_what_a_pool_shows_of_errors_and_functions_is_what_it_shows_without_us(tmp_path: Path) -> None:
    session = Session(tmp_path, PLAINLY)
    plainly, recorded = session.plain(), session.record()
    assert plainly.status == 0, plainly.err
    assert recorded.out == plainly.out
    assert recorded.replay().out == plainly.out


def test_a_worker_that_does_not_have_us_runs_the_items_all_the_same(tmp_path: Path) -> None:
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    wrapper.chmod(0o755)
    recorded = Session(
        tmp_path,
        MAKING
        + f"""
def known(_): return any(name.startswith("tachograph") for name in sys.modules)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    context.set_executable({str(wrapper)!r})
    with executor("spawn", 1) as one, context.Pool(1) as other:
        print(one.submit(known, 0).result(), list(one.map(abs, [-1, -2])))
        print(other.map(known, [0, 1]), other.apply(abs, (-3,)))
    """,
    ).record()
    assert recorded.out == "False [1, 2]\n[False, False] 3\n"


@pytest.mark.parametrize(
    "make", ["executor('fork', 2)", "multiprocessing.Pool(2)", "multiprocessing.pool.ThreadPool(2)"]
)
def test_what_was_drawn_for_an_item_is_kept_before_its_worker_can_be_killed(tmp_path: Path, make: str) -> None:
    recorded = Session(
        tmp_path,
        MAKING
        + f"""
def draw(number): return number, uuid.uuid4().hex

if __name__ == "__main__":
    with {make} as pool:
        print(sorted(pool.map(draw, range(5), chunksize=1)))
    """,
    ).record()
    under = "0/e{}" if "executor" in make else "0/e1/e{}"
    assert sorted({draw.path for draw in recorded.log.draws if draw.path.startswith("0/e")}) == [
        under.format(number) for number in range(1, 6)
    ]
    replayed = recorded.replay()
    assert (replayed.out, replayed.clean) == (recorded.out, True)
    assert [one for one in replayed.drift if one["site"][0] == "uuid.uuid4"] == []


GROWING = (
    MAKING
    + """
import httpx
def ask(number):
    time.sleep(0.1)
    return httpx.post(sys.argv[1], content=str(number)).text

def told(number): print(ask(number), flush=True)

if __name__ == "__main__":
    with executor("spawn", int(sys.argv[2])) as pool:
        print([one.result() for one in [pool.submit(ask, number) for number in range(3)]], flush=True)
    alone = multiprocessing.get_context("fork").Process(target=told, args=(7,))
    alone.start()
    alone.join()
    print(alone.exitcode)
"""
)


def test_how_many_workers_a_pool_starts_is_its_own_affair_and_moves_no_other_process(tmp_path: Path) -> None:
    with ScriptedServer(_back) as server:
        recorded = Session(tmp_path, GROWING).record(server.url, "1")
        assert recorded.out == "['0', '1', '2']\n7\n0\n"
        replayed = recorded.replay(server.url, "3")
        assert server.hits == 4
    assert [effect.path for effect in recorded.log.effects if effect.kind == "http"] == ["0/e1", "0/e2", "0/e3", "0/p1"]
    assert (replayed.out, replayed.attempts, replayed.misses) == (recorded.out, [], [])
    assert {said.get("path") for effect, said in replayed.said(fr.SERVED)} == {"0/e1", "0/e2", "0/e3", "0/p1"}


def test_a_module_that_another_worker_imports_draws_what_it_drew(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("import uuid\nTOKEN = uuid.uuid4().hex\n")
    session = Session(
        tmp_path,
        MAKING
        + """
import os
def token(number):
    open(f"{sys.argv[1]}.{number}", "w").close()
    while sys.argv[2] == "2" and not os.path.exists(f"{sys.argv[1]}.{3 - number}"): time.sleep(0.01)
    import late
    return late.TOKEN

if __name__ == "__main__":
    with executor("fork", int(sys.argv[2])) as pool:
        print(set(pool.map(token, (1, 2))))
    """,
    )
    recorded = session.record(str(tmp_path / "one"), "1")
    assert recorded.replay(str(tmp_path / "two"), "2").out == recorded.out


DECIDING = (
    MAKING
    + """
import httpx, tachograph
def ask(number): return httpx.post(sys.argv[1], content=str(number)).text

if __name__ == "__main__":
    with executor("fork", 1) as one, multiprocessing.Pool(1) as other:
        one.submit(abs, 1).result()
        for number in range(2):
            with tachograph.decision(agent="agent"):
                print(one.submit(ask, number).result(), other.apply(ask, (number + 10,)))
"""
)


def test_an_item_belongs_to_the_decision_that_gave_it_to_the_pool(tmp_path: Path) -> None:
    with ScriptedServer(_back) as server:
        recorded = Session(tmp_path, DECIDING).record(server.url)
        assert recorded.out == "0 10\n1 11\n"
        replayed = recorded.replay()
        assert server.hits == 4
    calls = [(effect.body, effect.decision) for effect in recorded.log.effects if effect.kind == "http"]
    first, second = sorted({decision for _, decision in calls})
    assert calls == [(b"0", first), (b"10", first), (b"1", second), (b"11", second)]
    assert (replayed.out, replayed.clean) == (recorded.out, True)


def test_what_a_worker_does_for_itself_stands_on_its_own_path(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path,
        MAKING
        + """
import multiprocessing.util
def draw(what): print(what, uuid.uuid4(), flush=True)
def prepare():
    draw("begins")
    multiprocessing.util.Finalize(None, draw, ("ends",), exitpriority=1)

if __name__ == "__main__":
    with executor("fork", 1, prepare) as pool:
        pool.submit(draw, "item").result()
    """,
    ).record()
    assert [draw.path for draw in recorded.log.draws if draw.site[0] == "uuid.uuid4"] == ["0/pw1", "0/e1", "0/pw1"]
    replayed = recorded.replay()
    assert (replayed.out, replayed.drift) == (recorded.out, [])

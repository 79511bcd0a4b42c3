"""Processes of one replay agree: an effect is claimed once, an arrival given once and in its turn, whoever asks."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.model.effect import CHUNK, HTTP, Arrival, Effect
from tachograph.replay.ledger import MOST_LISTENERS, Ledger, place_behind, size_for
from tachograph.testing.scripted import Reply, Request, ScriptedServer, plain
from tests.seams.driver import Session

FORK = multiprocessing.get_context("fork")


def effects(count: int) -> list[Effect]:
    made = []
    for index in range(1, count + 1):
        one = Effect(HTTP, index=index, path="0", decision=0, parent=0, at_ns=index)
        one.arrivals = [Arrival(CHUNK, index * 1000)]
        made.append(one)
    return made


@pytest.fixture
def shared() -> Iterator[tuple[int, list[Effect]]]:
    listed = effects(2000)
    fd = os.memfd_create("ledger", 0)
    os.ftruncate(fd, 4096 + size_for(listed))
    yield fd, listed
    os.close(fd)


def mapped(fd: int, listed: list[Effect]) -> memoryview:
    return memoryview(mmap.mmap(fd, size_for(listed), offset=4096))


def _claims(fd: int, listed: list[Effect], go: str) -> int:
    while not os.path.exists(go):
        time.sleep(0.001)
    ledger = Ledger(listed, fd=fd, memory=mapped(fd, listed))
    taken = 0
    for effect in listed:
        with ledger:
            taken += ledger.claim(effect)
    return taken


def _say(fd: int, listed: list[Effect], go: str, pipe: int) -> None:
    os.write(pipe, b"%d\n" % _claims(fd, listed, go))


def test_an_effect_is_claimed_once_over_all_processes(shared: tuple[int, list[Effect]], tmp_path: Path) -> None:
    fd, listed = shared
    mine = Ledger(listed, fd=fd, memory=mapped(fd, listed))
    mine.joined()  # so that nobody thinks to be alone
    go, (reader, writer) = str(tmp_path / "go"), os.pipe()
    workers = [FORK.Process(target=_say, args=(fd, listed, go, writer)) for _ in range(3)]
    for worker in workers:
        worker.start()
    os.close(writer)
    Path(go).touch()
    with open(reader) as said:
        taken = [int(line) for line in said]
    for worker in workers:
        worker.join()
    assert len(taken) == 3
    assert sum(taken) == len(listed)


def test_a_process_that_is_alone_takes_no_record_lock(shared: tuple[int, list[Effect]]) -> None:
    fd, listed = shared
    ledger = Ledger(listed, fd=fd, memory=mapped(fd, listed))
    with ledger:
        assert not ledger._locked
    ledger.joined()
    with ledger, ledger:
        assert ledger._locked
    assert not ledger._locked
    ledger.left()
    with ledger:
        assert not ledger._locked


def test_a_lock_taken_while_another_lived_is_given_back_when_it_has_left(shared: tuple[int, list[Effect]]) -> None:
    fd, listed = shared
    ledger = Ledger(listed, fd=fd, memory=mapped(fd, listed))
    ledger.joined()
    with ledger:
        ledger.left()
    assert not ledger._locked


def test_listeners_are_known_to_every_process_and_nothing_else_is(shared: tuple[int, list[Effect]]) -> None:
    fd, listed = shared
    one, other = Ledger(listed, fd=fd, memory=mapped(fd, listed)), Ledger(listed, fd=fd, memory=mapped(fd, listed))
    assert one.listeners() == other.listeners() == one.names() == frozenset()
    assert one.add_listener(1 << 40, 0)
    assert other.add_listener(7, 1 << 63)
    assert one.listeners() == other.listeners() == {1 << 40, 7}
    assert one.names() == other.names() == {1 << 63}


def test_a_full_table_says_so_takes_nobody_in_and_has_room_when_others_have_closed() -> None:
    ledger = Ledger(effects(1))
    assert all(ledger.add_listener(inode, inode + 1) for inode in range(MOST_LISTENERS))
    assert not ledger.add_listener(9999, 5)
    assert ledger.listeners() == set(range(MOST_LISTENERS))
    ledger.keep_listeners({3, 200, 9999})
    assert ledger.add_listener(9999, 5)
    assert (ledger.listeners(), ledger.names()) == ({3, 200, 9999}, {4, 201, 5})


def test_tape_ledger_and_report_do_not_overlap() -> None:
    for size in (1, 4095, 4096, 4097, 100_000):
        at = place_behind(size)
        assert at >= size
        assert at % 4096 == 0
    ledger = Ledger(effects(3))
    assert len(ledger.effects) == 4
    assert len(ledger.slots) == 3
    ledger.effects[3] = ledger.slots[0] = 1
    ledger.front = 7
    assert list(ledger.effects) == [0, 0, 0, 1]
    assert list(ledger.slots) == [1, 0, 0]
    assert size_for(effects(3)) == 64 + MOST_LISTENERS * 16 + 4 + 3


FORKED = """
import os, sys, httpx

reader, writer = os.pipe()
for name in ("a", "b", "c"):
    if not os.fork():
        httpx.post(sys.argv[1], content=name.encode()).read()
        os.write(writer, name.encode())
        os._exit(0)
for _ in range(3):
    os.wait()
print(os.read(reader, 10).decode())
"""

SAME = """
import os, sys, httpx

reader, writer = os.pipe()
for number in range(6):
    if not os.fork():
        os.write(writer, httpx.post(sys.argv[1], content=b"same").content)
        os._exit(0)
for _ in range(6):
    os.wait()
print("".join(sorted(os.read(reader, 10).decode())))
"""


def test_completion_order_between_processes_is_imposed_again(tmp_path: Path) -> None:
    wait = {b"a": 0.6, b"b": 0.3, b"c": 0.0}

    def paced(request: Request) -> Reply:
        time.sleep(wait[request.body])
        return plain(request.body)

    with ScriptedServer(paced) as server:
        recorded = Session(tmp_path, FORKED).record(server.url)
        assert recorded.out == "cba\n"
        # Each has its answer in the recorded order; which of them writes first is the machine's affair, milliseconds
        # later. Without the order they would write as they were forked.
        orders = []
        for _ in range(12):  # about every second one on a machine at work
            replayed = recorded.replay()
            assert not replayed.misses
            assert sorted(replayed.served) == [1, 2, 3]
            if replayed.said(fr.UNORDERED):
                continue  # a machine at work: one process was kept waiting for longer than the patience
            orders.append(replayed.out)
            if replayed.out == "cba\n":
                break
        assert server.hits == 3
    assert "cba\n" in orders


def test_the_same_call_from_six_processes_gets_each_recording_once(tmp_path: Path) -> None:
    numbers = iter("012345")

    with ScriptedServer(lambda request: plain(next(numbers).encode())) as server:
        recorded = Session(tmp_path, SAME).record(server.url)
        assert recorded.out == "012345\n"
        replayed = recorded.replay()
        assert server.hits == 6
    assert replayed.out == "012345\n"
    assert sorted(replayed.served) == [1, 2, 3, 4, 5, 6]


KILLED = """
import _thread, os, signal, sys, time, httpx

if not os.fork():
    signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))  # SIGALRM ends it
    httpx.post(sys.argv[1], content=b"late")
    time.sleep(60)
gate = _thread.allocate_lock()
gate.acquire()
gate.acquire(timeout=0.6)  # in a replay too: a native wait is not seen
print(httpx.post(sys.argv[1], content=b"early").text)
os.wait()
print(httpx.post(sys.argv[1], content=b"after").text)
"""


def test_a_process_that_is_killed_while_it_waits_holds_up_nobody(tmp_path: Path) -> None:
    def late(request: Request) -> Reply:
        time.sleep(1.0 if request.body == b"late" else 0.0)
        return plain(request.body)

    with ScriptedServer(late) as server:
        recorded = Session(tmp_path, KILLED).record(server.url, "1.4")
        assert recorded.out == "early\nafter\n"
        replayed = recorded.replay(server.url, "0.3", limit_s=20)
    assert replayed.out == "early\nafter\n"
    assert not replayed.misses
    assert [effect for effect, _ in replayed.said(fr.UNORDERED)] == [1]

"""Arrivals are given in their recorded order to tasks and threads; where that cannot be, nothing hangs and it is said.

Patience is 50 ms and twice the recorded gap: where a test must not run out of it on a loaded machine, the recorded gaps
are seconds; where it must, they are none.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tachograph.formats import frame as fr
from tachograph.model.effect import CHUNK, END, HEAD, HTTP, SLEEP, Arrival, Effect
from tachograph.replay.ordering import Order
from tachograph.testing.scripted import Behaviour, Reply, Request, ScriptedServer
from tests.seams.driver import Recorded, Session

SECOND = 1_000_000_000
LIMIT_S = 30


def effect(index: int, *, issued: float, arrivals: list[float], ended: str = "eof") -> Effect:
    """A recorded call: issued at that second, a head, chunks and an end at these seconds."""
    made = Effect(HTTP, index=index, path="0", decision=0, parent=0, at_ns=int(issued * SECOND))
    kinds = [HEAD, *[CHUNK] * (len(arrivals) - 2), END][: len(arrivals)]
    made.arrivals = [Arrival(kind, int(at * SECOND)) for kind, at in zip(kinds, arrivals, strict=True)]
    made.ended = ended
    return made


class Kept:
    """An order, the effects that it let go, and what was given, in the order in which it was given."""

    def __init__(self, effects: list[Effect]) -> None:
        self.let_go: list[int] = []
        self.given: list[tuple[int, int]] = []
        self.effects = effects
        self.order = Order(effects, let_go=lambda one: self.let_go.append(one.index))

    async def read(self, one: Effect, *, first: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Issue a call and read all of it, as a task would."""
        if first is not None:
            await first()
        self.order.issued(one)
        for at in range(len(one.arrivals)):
            await self.order.wait_async(one, at)
            self.given.append((one.index, at))

    def recorded(self) -> list[tuple[int, int]]:
        places = [(arrival.at_ns, one.index, at) for one in self.effects for at, arrival in enumerate(one.arrivals)]
        return [(index, at) for _, index, at in sorted(places)]


def within(work: Awaitable[None]) -> None:
    async def main() -> None:
        await asyncio.wait_for(work, LIMIT_S)

    asyncio.run(main())


def run_threads(*work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "it hangs"


# --- tasks ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.permutations([1, 1, 1, 2, 2, 3, 3, 3, 3, 4]), st.permutations([0, 1, 2, 3]))
def test_tasks_are_given_what_arrived_in_the_recorded_order_however_they_start(
    turns: list[int], starts: list[int]
) -> None:
    arrivals: dict[int, list[float]] = {}
    for second, index in enumerate(turns, 10):
        arrivals.setdefault(index, []).append(second)
    kept = Kept([effect(index, issued=index, arrivals=arrivals[index]) for index in sorted(arrivals)])

    async def work() -> None:
        await asyncio.gather(*[kept.read(kept.effects[number]) for number in starts])

    within(work())
    assert kept.given == kept.recorded()
    assert kept.let_go == []


def test_a_call_that_is_issued_late_is_waited_for_as_long_as_the_recording_waited() -> None:
    kept = Kept([effect(1, issued=5, arrivals=[6, 7]), effect(2, issued=1, arrivals=[8, 9])])

    async def work() -> None:
        await asyncio.gather(kept.read(kept.effects[0], first=lambda: asyncio.sleep(0.3)), kept.read(kept.effects[1]))

    within(work())
    assert kept.given == kept.recorded()
    assert kept.let_go == []


def test_behind_a_semaphore_of_two_in_another_order_nothing_hangs_and_it_is_said() -> None:
    kept = Kept([effect(index, issued=1, arrivals=[1 + index / 1000, 2 + index / 1000]) for index in range(1, 6)])

    async def work() -> None:
        two = asyncio.Semaphore(2)

        async def one(made: Effect) -> None:
            async with two:
                await kept.read(made)

        await asyncio.gather(*[one(made) for made in reversed(kept.effects)])

    within(work())
    assert sorted(kept.given) == sorted(kept.recorded()), "each arrival once"
    assert set(kept.let_go) >= {1, 2, 3}
    assert len(kept.let_go) == len(set(kept.let_go)), "each is said once"


def test_a_program_that_is_busy_beside_an_open_call_is_no_standstill() -> None:
    kept = Kept([effect(1, issued=1, arrivals=[1.001, 1.002]), effect(2, issued=1, arrivals=[1.003, 1.004])])

    async def busy() -> None:
        await asyncio.sleep(0)
        time.sleep(0.4)  # the loop stands still, the program does not
        for _ in range(3):
            await asyncio.sleep(0)  # the waiting task's timer is overdue and fires before the call is made

    async def work() -> None:
        await asyncio.gather(kept.read(kept.effects[1]), kept.read(kept.effects[0], first=busy))

    within(work())
    assert kept.given == kept.recorded()
    assert kept.let_go == []


def test_a_call_that_is_never_made_holds_up_the_others_only_for_a_while() -> None:
    kept = Kept([effect(1, issued=1, arrivals=[1.1, 1.2]), effect(2, issued=1, arrivals=[1.3, 1.4])])
    within(kept.read(kept.effects[1]))
    assert kept.given == [(2, 0), (2, 1)]
    assert kept.let_go == [1]


def test_a_timer_that_is_not_set_again_costs_only_its_own_place() -> None:
    timer = Effect(SLEEP, index=1, path="0", decision=0, parent=0, at_ns=SECOND // 10)
    timer.arrivals, timer.ended, timer.nth = [Arrival(END, SECOND // 10)], "returned", 2
    # Recorded seconds apart: the patience for the call outlasts a loaded machine. The tick waits from the start.
    late, tick = effect(2, issued=4, arrivals=[4.01, 4.02]), effect(3, issued=0, arrivals=[4.05, 4.06])
    kept = Kept([timer, late, tick])

    async def main() -> None:
        waiting = asyncio.create_task(kept.read(tick))
        await asyncio.sleep(0.5)
        assert kept.let_go == [1]
        await kept.read(late)
        await waiting

    within(main())
    assert kept.let_go == [1]
    assert kept.given == [(2, 0), (2, 1), (3, 0), (3, 1)]


def test_a_waiter_that_is_cancelled_and_closed_holds_nobody_up() -> None:
    kept = Kept([effect(index, issued=10 - index, arrivals=[10 + index, 20 + index]) for index in (1, 2, 3)])
    one, two, three = kept.effects

    async def work() -> None:
        second = asyncio.create_task(kept.read(two))
        third = asyncio.create_task(kept.read(three))
        await asyncio.sleep(0.02)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        kept.order.release(two)
        await asyncio.gather(third, kept.read(one))

    within(work())
    assert kept.given == [(1, 0), (3, 0), (1, 1), (3, 1)]
    assert kept.let_go == []


def test_a_waiter_that_is_cancelled_and_never_closed_does_not_hang_the_others() -> None:
    kept = Kept([effect(index, issued=1, arrivals=[1 + index / 1000, 2 + index / 1000]) for index in (1, 2, 3)])
    one, two, three = kept.effects

    async def work() -> None:
        second = asyncio.create_task(kept.read(two))
        third = asyncio.create_task(kept.read(three))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(third, kept.read(one), return_exceptions=True)

    within(work())
    assert {index for index, _ in kept.given} == {1, 3}


def test_what_was_released_waits_for_nobody_and_is_never_waited_for() -> None:
    kept = Kept([effect(1, issued=1, arrivals=[50, 60]), effect(2, issued=2, arrivals=[70, 80])])
    one, two = kept.effects
    kept.order.release(one)

    async def work() -> None:
        await kept.read(two)
        await kept.read(one)

    within(work())
    assert kept.given == [(2, 0), (2, 1), (1, 0), (1, 1)]
    assert kept.let_go == []


@pytest.mark.parametrize("ended", ["closed_early", "cut_off", "open_at_end"])
def test_an_end_that_the_program_made_itself_is_not_given_to_it_and_not_waited_for(ended: str) -> None:
    kept = Kept([effect(1, issued=1, arrivals=[2, 3, 4], ended=ended), effect(2, issued=1, arrivals=[5, 6])])
    one, two = kept.effects

    async def work() -> None:
        kept.order.issued(one)
        for at in (0, 1):
            await kept.order.wait_async(one, at)
        await kept.read(two)

    within(work())
    assert kept.let_go == []


# --- threads ----------------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.permutations([1, 1, 2, 2, 3, 3]))
def test_threads_are_given_an_arrival_only_after_the_earlier_ones_were_asked_for(turns: list[int]) -> None:
    arrivals: dict[int, list[float]] = {}
    for second, index in enumerate(turns, 10):
        arrivals.setdefault(index, []).append(second)
    kept = Kept([effect(index, issued=index, arrivals=arrivals[index]) for index in (1, 2, 3)])
    asked: dict[tuple[int, int], float] = {}
    given_at: dict[tuple[int, int], float] = {}

    together = threading.Barrier(3)

    def read(one: Effect) -> None:
        kept.order.issued(one)
        together.wait(LIMIT_S)
        for at in range(2):
            asked[one.index, at] = time.monotonic()
            kept.order.wait(one, at)
            given_at[one.index, at] = time.monotonic()

    run_threads(*[lambda one=one: read(one) for one in kept.effects])  # type: ignore[misc]
    order = kept.recorded()
    for number, place in enumerate(order):
        assert all(asked[earlier] <= given_at[place] for earlier in order[:number])
    assert kept.let_go == []


def test_a_thread_waits_for_a_task_and_a_task_for_a_thread() -> None:
    kept = Kept([effect(1, issued=1, arrivals=[10, 12]), effect(2, issued=1, arrivals=[11, 13])])
    one, two = kept.effects
    kept.order.issued(one)

    def thread() -> None:
        for at in (0, 1):
            kept.order.wait(one, at)
            kept.given.append((1, at))

    async def work() -> None:
        await asyncio.gather(asyncio.to_thread(thread), kept.read(two))

    within(work())
    assert sorted(kept.given) == sorted(kept.recorded())
    assert kept.let_go == []


def test_threads_behind_a_semaphore_in_another_order_do_not_hang() -> None:
    kept = Kept([effect(index, issued=1, arrivals=[1 + index / 1000, 2 + index / 1000]) for index in range(1, 5)])
    one_at_a_time = threading.Lock()

    def read(made: Effect) -> None:
        with one_at_a_time:
            kept.order.issued(made)
            for at in range(2):
                kept.order.wait(made, at)
                kept.given.append((made.index, at))

    run_threads(*[lambda made=made: read(made) for made in reversed(kept.effects)])  # type: ignore[misc]
    assert sorted(kept.given) == sorted(kept.recorded())
    assert kept.let_go != []


# --- real clients -----------------------------------------------------------------------------------------------------

PROMPTS = """
import asyncio, json, sys, httpx
BASE, order, limit = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
finished, answers = [], {}
async def ask(client, number, prompt, two):
    async with two:
        r = await client.post(BASE, json={"prompt": prompt, "number": number if prompt else None})
    finished.append(number)
    answers[number] = r.json()
async def main():
    two = asyncio.Semaphore(limit)
    async with httpx.AsyncClient() as client:
        await asyncio.gather(*[ask(client, number, SAME or f"prompt {number}", two) for number in order])
asyncio.run(main())
print(json.dumps([finished, sorted(answers.items())]))
"""


def prompts(folder: Path, *, same: str) -> Recorded:
    """Five prompts at once, answered once all are there, the last one first, each with another answer."""

    def script(request: Request) -> Behaviour:
        asked = json.loads(request.body)["number"]
        assert server.wait_for_hits(5)
        assert server.wait_for_deliveries(4 - (request.number if asked is None else asked))
        answer = json.dumps({"answer": request.number, "to": request.json()}).encode()
        return Reply(chunks=(answer,), borders="reads")  # the next one goes out when the client has read this

    with ScriptedServer(script) as server:
        session = Session(folder, PROMPTS.replace("SAME", repr(same)))
        recorded = session.record(server.url, json.dumps([0, 1, 2, 3, 4]), "5")
    assert recorded.out
    return recorded


def test_five_prompts_at_once_have_each_its_own_answer_in_the_recorded_order(tmp_path: Path) -> None:
    recorded = prompts(tmp_path, same="")
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean


def test_five_prompts_issued_in_another_order_have_each_its_own_answer(tmp_path: Path) -> None:
    recorded = prompts(tmp_path, same="")
    url = recorded.args[0]
    replayed = recorded.replay(url, json.dumps([3, 0, 4, 2, 1]), "5")
    finished, answers = json.loads(replayed.out)
    assert (finished, answers) == tuple(json.loads(recorded.out)), "and completes as it did"
    assert replayed.misses == []


def test_five_prompts_behind_a_semaphore_in_another_order_are_answered_and_it_is_said(tmp_path: Path) -> None:
    recorded = prompts(tmp_path, same="")
    replayed = recorded.replay(recorded.args[0], json.dumps([0, 1, 2, 3, 4]), "2", limit_s=40)
    assert json.loads(replayed.out)[1] == json.loads(recorded.out)[1]
    assert replayed.misses == []
    assert replayed.said(fr.UNORDERED) != []


def test_identical_prompts_at_once_give_each_task_its_own_recorded_answer(tmp_path: Path) -> None:
    recorded = prompts(tmp_path, same="the same")
    assert len({json.dumps(answer) for _, answer in json.loads(recorded.out)[1]}) == 5
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean

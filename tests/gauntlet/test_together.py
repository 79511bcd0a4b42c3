"""Row 4: several calls at once: each its own answer, completed in the recorded order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer
from tests.gauntlet.answers import completion, prompt_of
from tests.gauntlet.harness import Recorded, record, replay, same
from tests.gauntlet.test_calls import AWAITED

PROMPTS = ["alpha", "bravo", "charlie", "delta", "echo"]
# Seconds after which each is answered: they complete in another order than they are issued in.
DELAYS = {"alpha": 0.20, "bravo": 0.05, "charlie": 0.15, "delta": 0.10, "echo": 0.0}
OTHER = ["echo", "charlie", "alpha", "delta", "bravo"]


def answer(request: Request) -> Reply:
    """Each prompt its own answer, after its own delay."""
    prompt = prompt_of(request)
    made = completion(f"re: {prompt}", number=request.number)
    return Reply(headers=made.headers, chunks=made.chunks, delay=DELAYS[prompt])


def in_order(recorded: Recorded, prompts: list[str]) -> tuple[str, ...]:
    """`-- CMD`, the prompts issued in another order."""
    python, program, settings = recorded.command
    changed: dict[str, Any] = {**json.loads(settings), "prompts": prompts}
    return ("--", python, program, json.dumps(changed))


def own_answers(stdout: str) -> list[str]:
    """The lines that say which prompt was answered how."""
    return [line for line in stdout.splitlines() if "->" in line]


EXPECTED = [f"{prompt} -> re: {prompt}" for prompt in PROMPTS]


@pytest.mark.parametrize("library", AWAITED)
def test_five_prompts_at_once_complete_in_the_recorded_order_whatever_order_they_are_issued_in(
    tmp_path: Path, library: str
) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "together.py", library=library, url=server.url, prompts=PROMPTS, tell_order=True)
        assert own_answers(recorded.stdout.decode()) == EXPECTED
        assert b"completed echo bravo delta charlie alpha" in recorded.stdout
        same(recorded, replay(recorded, server=server))
        again = replay(recorded, *in_order(recorded, OTHER), server=server)
    assert own_answers(again.stdout) == EXPECTED
    same(recorded, again)


@pytest.mark.parametrize("library", ["httpx2", "openai"])
def test_behind_a_semaphore_of_two_each_prompt_gets_its_own_answer_in_another_order_too(
    tmp_path: Path, library: str
) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "together.py", library=library, url=server.url, prompts=PROMPTS, at_once=2)
        same(recorded, replay(recorded, server=server))
        again = replay(recorded, *in_order(recorded, OTHER), server=server)
    assert own_answers(again.stdout) == EXPECTED
    assert (again["misses"], again["unconsumed"]) == ([], [])
    same(recorded, again)
    assert any(one["what"] == "orderNotReimposed" for one in again["drift"])


@pytest.mark.parametrize("library", ["httpx", "openai"])
def test_a_program_that_is_busy_beside_its_open_calls_loses_no_order(tmp_path: Path, library: str) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "together.py", library=library, url=server.url, prompts=PROMPTS, busy=0.3, tell_order=True
        )
        replayed = replay(recorded, server=server)
        again = replay(recorded, *in_order(recorded, OTHER), server=server)
    same(recorded, replayed)
    assert replayed["drift"] == []
    assert own_answers(again.stdout) == EXPECTED
    same(recorded, again)


def test_an_answer_that_came_between_a_timer_and_the_block_after_it_is_taken_there_again(tmp_path: Path) -> None:
    def soon(request: Request) -> Reply:
        made = answer(request)
        return Reply(headers=made.headers, chunks=made.chunks, delay=0.02)

    with ScriptedServer(soon) as server:
        # When the computation is over, timer and answers are due at once: the loop serves the sockets first.
        recorded = record(
            tmp_path, "together.py", library="httpx2", url=server.url, prompts=PROMPTS, busy=0.05, at_work=400_000,
            tell_order=True,
        )  # fmt: skip
        replayed = replay(recorded, server=server)
    same(recorded, replayed)
    assert replayed["drift"] == []


def test_a_changed_program_that_blocks_its_loop_under_open_calls_is_answered_and_the_lost_order_said(
    tmp_path: Path,
) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(
            tmp_path, "together.py", library="httpx2", url=server.url, prompts=PROMPTS, busy=0.1, after_answers=5
        )
        python, program, settings = recorded.command
        changed = {**json.loads(settings), "after_answers": 0}
        replayed = replay(recorded, "--", python, program, json.dumps(changed), server=server)
    assert own_answers(replayed.stdout) == EXPECTED
    same(recorded, replayed)
    assert {one["what"] for one in replayed["drift"]} == {"orderNotReimposed"}


@pytest.mark.parametrize(
    ("library", "threads"), [("httpx", False), ("httpx2", False), ("openai", False), ("httpx2", True)]
)
def test_r10_four_identical_prompts_at_once_give_each_its_own_answer_in_the_recorded_order(
    tmp_path: Path, library: str, threads: bool
) -> None:
    delays = [0.15, 0.05, 0.20, 0.10]

    def one_of_four(request: Request) -> Reply:
        made = completion(f"answer {request.number}", number=request.number)
        return Reply(headers=made.headers, chunks=made.chunks, delay=delays[request.number])

    with ScriptedServer(one_of_four) as server:
        recorded = record(
            tmp_path, "together.py", library=library, url=server.url, prompts=["same"] * 4, numbered=True,
            tell_order=not threads, threads=threads,  # which of two threads goes on first is the kernel's affair
        )  # fmt: skip
        assert len(set(own_answers(recorded.stdout.decode()))) == 4
        same(recorded, replay(recorded, server=server))


@pytest.mark.parametrize("library", ["httpx", "requests", "urllib", "botocore"])
def test_threads_that_ask_at_once_get_their_own_answers_in_another_order_too(tmp_path: Path, library: str) -> None:
    with ScriptedServer(answer) as server:
        recorded = record(tmp_path, "together.py", library=library, url=server.url, prompts=PROMPTS, threads=True)
        same(recorded, replay(recorded, server=server))
        again = replay(recorded, *in_order(recorded, OTHER), server=server)
    assert own_answers(again.stdout) == EXPECTED
    same(recorded, again)

"""Ranges give every piece back byte for byte, and what was there before is not kept twice."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.store.rope import Rope
from tests.store.kept import texts


@given(st.lists(st.lists(texts, min_size=1, max_size=4), max_size=6))
def test_every_piece_comes_back_exactly(batches: list[list[bytes]]) -> None:
    rope = Rope()
    kept = [(b"".join(pieces), rope.add(pieces)) for pieces in batches]
    for whole, ranges in kept:
        assert rope.take(ranges) == whole
        assert all(length > 0 for _, length in ranges)
    again = Rope(rope.data)
    for whole, ranges in kept:
        assert again.take(ranges) == whole
        assert again.take(again.add([whole])) == whole


WORDS = [
    "refund", "order", "policy", "customer", "asked", "returned", "within", "days", "because", "shipment", "delayed",
    "amount", "credited", "manager", "approved", "exception", "warranty", "receipt", "unopened", "damaged",
]  # fmt: skip


def text(seed: int, length: int) -> str:
    chance = random.Random(seed)
    return " ".join(chance.choice(WORDS) + str(chance.randrange(1000)) for _ in range(length // 11))


def requests(mode: str, turns: int = 40) -> list[bytes]:
    """The request bodies of a conversation of one of the shapes that each defeat one simple scheme."""
    tools, history, bodies = [{"name": f"t{n}", "description": text(n, 400)} for n in range(10)], [], []
    for turn in range(turns):
        history.append({"role": "user", "content": text(1000 + turn, 1000)})
        prompt = text(1, 4000)
        if mode == "timestamp":
            prompt = f"{prompt[:2000]} now 2026-11-30T12:00:{turn:02}.{turn * 7919 % 1000:03} {prompt[2000:]}"
        messages = [{"role": "system", "content": prompt}, *(history[-20:] if mode == "window" else history)]
        if mode == "one string":
            joined = "\nObservation: ".join(message["content"] for message in history)
            messages = [{"role": "user", "content": prompt + joined}]
        if mode == "one line":  # nothing at which an element or a line begins
            told = " ".join(message["content"] for message in history)
            bodies.append(f"{prompt[:3000]} now {turn} {prompt[3000:]} {told} and these tools".encode())
            history.append({"role": "assistant", "content": text(5000 + turn, 1000)})
            continue
        if mode == "moving marker":
            messages[-1] = {**messages[-1], "cache_control": {"type": "ephemeral"}}
        if mode == "two conversations" and turn % 2:
            messages[0] = {"role": "system", "content": text(2, 4000)}
            messages[1:] = [{"role": "user", "content": text(2000 + n, 1000)} for n in range(turn)]
        bodies.append(json.dumps({"model": "m", "messages": messages, "tools": tools}).encode())
        history.append({"role": "assistant", "content": text(5000 + turn, 1000)})
    return bodies


@pytest.mark.parametrize("mode", ["growing", "timestamp", "window", "one string", "one line", "moving marker"])
def test_a_resent_history_adds_only_what_is_new(mode: str) -> None:
    bodies = requests(mode)
    rope = Rope()
    kept = [(body, rope.add([body])) for body in bodies]
    assert all(rope.take(ranges) == body for body, ranges in kept)
    distinct = len(bodies[0]) + 39 * 2100  # the first request, then a question and an answer a turn
    assert len(rope.data) < 1.15 * distinct
    assert max(len(ranges) for _, ranges in kept) < 200


def test_two_conversations_in_turn_find_each_its_own_parent() -> None:
    bodies = requests("two conversations")
    rope = Rope()
    for body in bodies:
        rope.add([body])
    assert len(rope.data) < 1.2 * (len(bodies[38]) + len(bodies[39]))


def test_one_log_with_all_requests_is_no_larger_than_many() -> None:
    one, many = Rope(), Rope()
    one.add(requests("growing"))
    for body in requests("growing"):
        many.add([body])
    assert len(one.data) == len(many.data)


def test_a_rope_that_is_gone_on_with_still_knows_what_it_holds() -> None:
    bodies = requests("growing")
    rope = Rope()
    for body in bodies[:-1]:
        rope.add([body])
    again = Rope(rope.data)  # no parents: by its anchors alone
    again.add([bodies[-1]])
    assert len(again.data) - len(rope.data) < 2600


def test_what_is_shared_in_too_few_bytes_is_taken_as_new() -> None:
    rope = Rope()
    start = b'{"role":"user","content":"Dear shop, my order is late'
    for seed in range(20):
        body = b"".join(start + random.Random(seed * 100 + n).randbytes(200) for n in range(20))
        assert len(rope.add([body])) == 1


def test_memory_is_counted_and_bounded_for_parents() -> None:
    rope = Rope()
    for seed in range(12):
        rope.add([text(seed, 400_000).encode()])
    assert len(rope.data) < rope.memory < 3 * len(rope.data)
    assert rope._parent_bytes <= 1 << 20

"""Tools, retrievals, externals and agents: plain functions unrecorded, effects while recording, answers in a replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import tachograph
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.seams import port
from tests.seams.driver import Recorded, Session

# Each function leaves a mark when it really runs; in a replay none may.
HEAD = """
import asyncio, sys, tachograph
from tachograph import Entry
def ran(*words):
    open("ran", "a").write(" ".join(map(str, words)) + "\\n")
"""


def both(folder: Path, source: str) -> Recorded:
    """Record and replay: the same output, every effect consumed, and no function run a second time."""
    session = Session(folder, HEAD + source)
    recorded = session.record()
    assert recorded.out
    (folder / "ran").touch()
    marks = (folder / "ran").read_text()
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert (folder / "ran").read_text() == marks, "a declared function ran in the replay"
    assert replayed.clean
    assert sorted(replayed.served) == [effect.index for effect in recorded.log.effects]
    return recorded


# --- unrecorded: just the function ------------------------------------------------------------------------------------


@tachograph.tool
def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


@tachograph.tool(determinism="deterministic")
async def add_later(a: int, b: int = 2) -> int:
    """Adds, later."""
    return a + b


@tachograph.retrieval(configuration={"k": 3}, corpus="c1", determinism="deterministic")
def look_up(query: str) -> Any:
    return query


@tachograph.agent(name="named")
def turn(word: str) -> str:
    return word.upper()


@tachograph.agent
async def later(word: str) -> str:
    return word.upper()


def test_unrecorded_a_declared_function_is_just_the_function() -> None:
    assert port.current is None
    assert (add(1), add(1, b=5), look_up("anything"), turn("w")) == (3, 6, "anything", "W")
    assert asyncio.run(add_later(2)) == 4
    assert asyncio.run(later("w")) == "W"
    assert tachograph.external("key", lambda: 7) == 7
    assert tachograph.observe("key", 1) is None
    with pytest.raises(TypeError):
        add()
    with pytest.raises(ZeroDivisionError):
        tachograph.external("key", lambda: 1 // 0)


def test_an_async_external_is_awaited_unrecorded_too() -> None:
    async def fetch() -> int:
        return 5

    async def main() -> int:
        return await tachograph.external("key", fetch)

    assert asyncio.run(main()) == 5


def test_a_declared_function_keeps_its_name_and_its_words() -> None:
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Adds.", __name__)
    assert add.__wrapped__(1) == 3
    assert add.__annotations__ == add.__wrapped__.__annotations__
    assert asyncio.iscoroutinefunction(add_later)
    assert not asyncio.iscoroutinefunction(add)


def generates() -> Any:
    yield 1


async def generates_later() -> Any:
    yield 1


@pytest.mark.parametrize("fn", [generates, generates_later])
@pytest.mark.parametrize("declare", [tachograph.tool, tachograph.retrieval, tachograph.agent])
def test_generator_functions_are_refused_where_they_are_declared(declare: Any, fn: Any) -> None:
    with pytest.raises(TypeError, match="generator function"):
        declare(fn)


# --- recorded and answered --------------------------------------------------------------------------------------------


def test_tools_are_recorded_with_inputs_and_outcome_and_answered_from_the_record(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
@tachograph.tool(determinism="nondeterministic")
def tool(a, b=None):
    ran("tool", a); return {"a": a, "b": (b, {1, 2}), "bytes": b"\\xff"}
class Desk:
    @tachograph.tool
    def refund(self, order):
        ran("refund", order); return order * 2
    @staticmethod
    @tachograph.tool
    def fixed(x):
        ran("fixed"); return x
@tachograph.tool
async def later(x):
    await asyncio.sleep(0.001); ran("later", x); return [x]
print(tool(1), tool(1, b="x"), tool(b="x", a=2), Desk().refund(21), Desk.fixed("s"))
async def main():
    print(await later(1), await asyncio.gather(later(2), later(3)))
asyncio.run(main())
""")  # fmt: skip
    first = recorded.log.effects[0]
    assert (first.kind, first.name, first.spec, first.ended) == (
        "tool",
        "tool",
        {"determinism": "nondeterministic"},
        "returned",
    )
    assert values.decode(first.inputs) == {"a": 1}
    assert values.decode(first.value) == {"a": 1, "b": (None, {1, 2}), "bytes": b"\xff"}
    assert [effect.name for effect in recorded.log.effects[3:5]] == ["Desk.refund", "Desk.fixed"]
    assert {effect.path for effect in recorded.log.effects[-2:]} == {"0/a1/a1", "0/a1/a2"}


def test_retrievals_give_entries_back_as_they_were(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
@tachograph.retrieval(configuration={"k": 2}, corpus="policies-7", determinism="deterministic")
def search(query):
    ran("search")
    return [Entry(id="p1", text="refunds", score=0.5, method="bm25", position=0, provenance={"writerId": "w"}),
            {"id": "p2", "text": "returns", "own": (1, 2)}]
@tachograph.retrieval
async def later(query):
    ran("later"); return (Entry(id="p3", text="x"),)
print(search("q"), type(search("q")[0]).__name__, search("q")[0].provenance)
print(asyncio.run(later("q")))
""")  # fmt: skip
    first = recorded.log.effects[0]
    assert (first.kind, first.spec) == (
        "retrieval", {"configuration": {"k": 2}, "corpus": "policies-7", "determinism": "deterministic"},
    )  # fmt: skip
    assert [entry["id"] for entry in values.decode(first.value)["entries"]] == ["p1", "p2"]


def test_a_retrieval_that_returns_something_else_works_recorded_as_it_does_unrecorded(tmp_path: Path) -> None:
    both(tmp_path, """
@tachograph.retrieval
def search(query):
    ran("search"); return {"hits": [query]} if query == "mapping" else None if query == "none" else [1, "two"]
print(search("mapping"), search("none"), search("list"))
""")  # fmt: skip


def test_external_values_and_what_was_observed(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
def fetch():
    ran("fetch"); return 42
async def fetch_later():
    ran("later"); return "async"
def fails():
    ran("fails"); raise LookupError("no such rate")
print(tachograph.external("rate", fetch, source="https://rates"), tachograph.external("rate", lambda: ran("x") or 7))
async def main():
    print(await tachograph.external("later", fetch_later))
asyncio.run(main())
try:
    tachograph.external("broken", fails)
except LookupError as fault:
    print(type(fault), fault)
tachograph.observe("seen", {"a": 1})
""")  # fmt: skip
    assert [(effect.kind, effect.name) for effect in recorded.log.effects] == [
        ("external", "rate"), ("external", "rate"), ("external", "later"), ("external", "broken"),
    ]  # fmt: skip
    assert recorded.log.effects[0].spec["source"] == "https://rates"
    assert recorded.log.first(fr.OBSERVE) == {"key": "seen", "value": {"a": 1}, "source": None}


def test_errors_are_raised_again_with_their_class_and_what_they_carry(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
class Declined(Exception):
    def __init__(self, order, why):
        super().__init__(f"{order}: {why}")
        self.order, self.why = order, why
@tachograph.tool
def refund(order):
    ran("refund")
    try:
        raise KeyError(order)
    except KeyError as fault:
        raise Declined(order, "too late") from fault
@tachograph.tool
async def later():
    ran("later"); raise ValueError(1, 2)
try:
    refund("o1")
except Declined as fault:
    print(type(fault) is Declined, fault, fault.order, fault.why, repr(fault.__cause__))
try:
    asyncio.run(later())
except ValueError as fault:
    print(fault.args)
try:
    refund("o1")
except Exception as fault:
    print(isinstance(fault, Declined))
""")  # fmt: skip
    assert [effect.ended for effect in recorded.log.effects] == ["error"] * 3


def test_a_program_that_ends_inside_a_tool_ends_there_again(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + "@tachograph.tool\ndef leave(): sys.exit(5)\nleave()\n")
    recorded = session.record()
    replayed = recorded.replay(limit_s=20)
    assert (recorded.ended.status, replayed.ended.status) == (5, 5)
    assert replayed.clean


def test_what_happens_inside_a_served_effect_is_consumed_with_it(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
import subprocess
@tachograph.tool
def inner(x):
    ran("inner"); return x
@tachograph.retrieval
def search(q):
    inner("in search"); return [{"id": "1", "text": subprocess.check_output(["echo", q], text=True)}]
@tachograph.tool
def outer():
    ran("outer"); return inner("in outer"), search("q"), tachograph.external("k", lambda: inner("in external"))
print(outer(), inner("after"))
""")  # fmt: skip
    names = [(effect.name or effect.kind, effect.parent) for effect in recorded.log.effects]
    assert names == [
        ("outer", 0), ("inner", 1), ("search", 1), ("inner", 3), ("subprocess", 3), ("k", 1), ("inner", 6),
        ("inner", 0),
    ]  # fmt: skip


def test_each_call_of_an_agent_is_a_decision(tmp_path: Path) -> None:
    recorded = both(tmp_path, """
@tachograph.agent(name="desk")
def desk(question, *, polite=False):
    return question.upper()
@tachograph.agent
async def later(n):
    return n + 1
@tachograph.agent
def said(q):
    return {"not": "text"}
print(desk("why", polite=True), asyncio.run(later(1)), said("x"))
""")  # fmt: skip
    opened = [fact.said for fact in recorded.log.of(fr.OPEN)]
    assert [facts["agent"] for facts in opened] == ["desk", "__main__:later", "__main__:said"]
    assert opened[0]["request"] == {"args": ["why"], "kwargs": {"polite": True}}
    assert [fact.said["text"] for fact in recorded.log.of(fr.OUTPUT)] == ["WHY"]
    assert [fact.said["value"] for fact in recorded.log.of(fr.CLOSE)] == ["WHY", 2, {"not": "text"}]


# --- what a replay refuses --------------------------------------------------------------------------------------------

ASKS = (
    HEAD
    + """
@tachograph.tool
def refund(order, amount):
    return order
print(refund("o1", {"eur": 5, "cents": [1, 2]}))
"""
)


def test_other_inputs_are_a_miss_that_names_where_they_differ(tmp_path: Path) -> None:
    session = Session(tmp_path, ASKS)
    recorded = session.record()
    session.rewrite(ASKS.replace("[1, 2]", "[1, 3]"))
    replayed = recorded.replay()
    (miss,) = replayed.misses
    assert miss["call"] == {"kind": "tool", "endpoint": "refund"}
    assert miss["firstDifference"] == {"path": "/inputs/amount/cents/1", "recorded": 2, "replayed": 3}
    assert replayed.ended.out == ""
    assert "EffectMissed" in replayed.ended.err
    assert replayed.served == []


@pytest.mark.parametrize("edit", [("def refund", "def reverse"), ("@tachograph.tool", "@tachograph.retrieval")])
def test_another_name_or_kind_is_a_miss(tmp_path: Path, edit: tuple[str, str]) -> None:
    session = Session(tmp_path, ASKS)
    recorded = session.record()
    session.rewrite(
        ASKS.replace(*edit).replace("print(refund(", f"print({'reverse' if 'reverse' in edit[1] else 'refund'}(")
    )
    assert len(recorded.replay().misses) == 1


def test_a_value_that_cannot_be_made_again_is_refused_and_not_replaced_by_something_like_it(tmp_path: Path) -> None:
    session = Session(tmp_path, HEAD + """
@tachograph.tool
def opens():
    return {"file": open(__file__), "n": 1}
print(type(opens()["file"]).__name__)
""")  # fmt: skip
    recorded = session.record()
    assert recorded.out == "TextIOWrapper\n", "while recording the program gets the real one"
    replayed = recorded.replay()
    assert replayed.ended.out == ""
    (miss,) = replayed.misses
    assert miss["firstDifference"]["path"] == "/output"
    assert "TextIOWrapper" in str(miss["firstDifference"]["recorded"])


def test_installing_where_we_are_already_changes_nothing(tmp_path: Path) -> None:
    recorded = Session(tmp_path, HEAD + """
ran("x"); tachograph.install(); tachograph.install(store="/nowhere")
@tachograph.tool
def tool(): return 1
print(tool())
""").record()  # fmt: skip
    assert recorded.out == "1\n"
    assert recorded.ended.err == ""
    assert recorded.replay().out == "1\n"

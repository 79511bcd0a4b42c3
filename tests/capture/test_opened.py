"""A decision holds what is said of it and all that is done inside, in every thread and task."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tachograph.capture.opened import Decision, decision
from tachograph.formats import frame as fr
from tests.seams.driver import Recorded, Session

PROGRAM = """
import asyncio, threading, tachograph
@tachograph.tool
def tool(name): return name
with tachograph.decision(agent="a", user="u", session="s", request={"q": 1}, tenant="t") as d:
    print(d.id is not None and d.id.startswith("dec_"))
    d.configure(system_prompt_version="v3", tool_schema_version="v4")
    tool("inside")
    thread = threading.Thread(target=tool, args=("thread",)); thread.start(); thread.join()
    asyncio.run(asyncio.to_thread(tool, "to_thread"))
    d.output("the text", stop_reason="max_tokens")
    with tachograph.decision(agent="inner") as inner:
        tool("in the inner one")
        inner.fail("a reason")
    tool("in the outer one again")
tool("outside")
async def turn(name):
    async with tachograph.decision(agent=name) as d:
        await asyncio.sleep(0.001)
        tool("in " + name)
        d.output(name)
async def turns():
    await asyncio.gather(turn("x"), turn("y"))
asyncio.run(turns())
try:
    with tachograph.decision(agent="raises"):
        raise KeyError("out of it")
except KeyError as fault:
    print("passed on", fault)
tachograph.observe("seen", [1, 2], source="somewhere")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    done = Session(tmp_path_factory.mktemp("decisions"), PROGRAM).record()
    assert done.out == "True\npassed on 'out of it'\n"
    return done


def said(recorded: Recorded, kind: int) -> list[tuple[int, dict[str, object]]]:
    return [(fact.decision, fact.said) for fact in recorded.log.of(kind)]


def test_a_decision_is_opened_with_what_is_known_of_it(recorded: Recorded) -> None:
    opened = said(recorded, fr.OPEN)
    assert [facts["agent"] for _, facts in opened] == ["a", "inner", "x", "y", "raises"]
    first = opened[0][1]
    assert {**first, "id": ""} == {
        "agent": "a", "user": "u", "session": "s", "tenant": "t", "request": {"q": 1}, "id": "",
    }  # fmt: skip
    assert len({facts["id"] for _, facts in opened}) == 5
    assert recorded.log.of(fr.OPEN)[1].parent == 1, "the inner one knows the outer"


def test_what_is_done_inside_belongs_to_it_in_every_thread_and_task(recorded: Recorded) -> None:
    agents = {number: facts["agent"] for number, facts in said(recorded, fr.OPEN)}
    inputs = [(agents.get(effect.decision), effect.value) for effect in recorded.log.effects if effect.kind != "sleep"]
    belonging = [(agent, value[3:].decode()) for agent, value in inputs]
    assert belonging[:6] == [
        ("a", "inside"), ("a", "thread"), ("a", "to_thread"), ("inner", "in the inner one"),
        ("a", "in the outer one again"), (None, "outside"),
    ]  # fmt: skip
    assert sorted(belonging[6:]) == [("x", "in x"), ("y", "in y")]


def test_what_is_said_of_it_is_kept_in_its_log(recorded: Recorded) -> None:
    assert said(recorded, fr.CONFIGURE) == [(1, {"systemPromptVersion": "v3", "toolSchemaVersion": "v4"})]
    assert said(recorded, fr.OUTPUT)[0] == (1, {"text": "the text", "stopReason": "max_tokens"})
    assert said(recorded, fr.FAIL) == [(2, {"reason": "a reason"})]
    assert said(recorded, fr.OBSERVE) == [(0, {"key": "seen", "value": [1, 2], "source": "somewhere"})]
    assert len(recorded.logs) == 6


def test_an_exception_passes_and_is_named_at_its_end(recorded: Recorded) -> None:
    closed = said(recorded, fr.CLOSE)
    assert len(closed) == 5
    assert closed[-1][1] == {"raised": "builtins.KeyError"}
    assert [facts for _, facts in closed[:-1]] == [{}, {}, {}, {}]


def test_a_replay_opens_the_same_decisions_with_the_same_ids(recorded: Recorded) -> None:
    replayed = recorded.replay()
    assert replayed.out == recorded.out
    assert replayed.clean
    opened = [(number, facts["agent"]) for number, facts in replayed.said(fr.OPEN)]
    assert sorted(opened) == sorted((number, facts["agent"]) for number, facts in said(recorded, fr.OPEN))
    assert replayed.said(fr.OUTPUT)[0] == (1, {"text": "the text", "stopReason": "max_tokens"})


def test_ids_are_minted_anew_in_each_recording(tmp_path: Path) -> None:
    session = Session(tmp_path, "import tachograph\nwith tachograph.decision() as d: print(d.id)\n")
    one = session.record()
    assert one.replay().out == one.out
    assert session.record().out != one.out


def test_a_decision_closed_in_another_context_is_closed_and_breaks_nothing(tmp_path: Path) -> None:
    """As a web framework does with a dependency that yields: entered in one copied context, left in another."""
    recorded = Session(tmp_path, """
        import contextvars, tachograph
        opened = tachograph.decision(agent="a")
        contextvars.copy_context().run(opened.__enter__)
        contextvars.copy_context().run(opened.__exit__, None, None, None)
        print("went on")
    """).record()  # fmt: skip
    assert recorded.out == "went on\n"
    assert [fact.kind for fact in recorded.log.of(fr.OPEN, fr.CLOSE)] == [fr.OPEN, fr.CLOSE]


# --- where nothing records --------------------------------------------------------------------------------------------


def test_unrecorded_a_decision_has_no_id_and_says_nothing() -> None:
    with decision(agent="a") as one:
        one.output("text")
        one.configure(system_prompt_version="1")
        one.fail("reason")
        assert one.returned(7) == 7
    assert isinstance(one, Decision)
    assert one.id is None


def test_unrecorded_it_passes_exceptions_and_works_as_async_too() -> None:
    async def turn() -> str | None:
        async with decision() as one:
            one.output("x")
            return one.id

    assert asyncio.run(turn()) is None
    with pytest.raises(ZeroDivisionError), decision():
        raise ZeroDivisionError


def test_an_unknown_stop_reason_is_refused_recorded_or_not() -> None:
    with decision() as one, pytest.raises(ValueError, match="stop_reason is one of"):
        one.output("text", stop_reason="stop")

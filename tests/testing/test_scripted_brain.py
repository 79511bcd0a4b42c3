"""The scripted brain: rules first, then what the request itself asks for; the same question, the same answer."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tachograph.testing.answers import call, say
from tachograph.testing.model_request import Message, ModelRequest, Tool, Unanswerable
from tachograph.testing.scripted_brain import Rule, ScriptedBrain

WEATHER = Tool(name="weather", parameters={"type": "object", "properties": {"days": {"type": "integer"}}})


def asked(*texts: str, **more: object) -> ModelRequest:
    return ModelRequest(model="m", messages=tuple(Message(role="user", text=text) for text in texts), **more)  # type: ignore[arg-type]


def test_the_first_fitting_rule_answers() -> None:
    brain = ScriptedBrain(
        [Rule(when="tide", say="high"), Rule(when="(?i)wind (in|at) (?P<place>\\w+)", say=r"calm \1 \g<place>")]
    )
    assert brain(asked("the tide in Dover")) == say("high")
    assert brain(asked("Wind at Lyme?")) == say("calm at Lyme")
    assert brain(asked("rain")) == say("You said: rain")


def test_a_rule_may_look_at_the_whole_conversation_or_the_system_text() -> None:
    request = dataclasses.replace(
        asked("first", "second"), messages=(Message(role="system", text="pirate"), *asked("first", "second").messages)
    )
    assert ScriptedBrain([Rule(when="first", say="x")])(request) == say("You said: second")
    assert ScriptedBrain([Rule(when="first", where="conversation", say="x")])(request) == say("x")
    assert ScriptedBrain([Rule(when="pirate", where="system", say="arr")])(request) == say("arr")


def test_a_rule_calls_a_tool_with_arguments_from_the_text() -> None:
    rule = Rule(
        when=r"(\d+) days in (\w+)", call="weather", arguments={"days": r"\1", "city": r"\2", "note": r"in \2", "n": 1}
    )
    brain = ScriptedBrain([rule])
    request = asked("3 days in Bern", tools=(WEATHER,))
    assert brain(request) == call("weather", {"days": 3, "city": "Bern", "note": "in Bern", "n": 1})
    assert brain(dataclasses.replace(request, tools=())) == say("You said: 3 days in Bern")
    assert brain(dataclasses.replace(request, tool_choice="none")) == say("You said: 3 days in Bern")


def test_an_offered_tool_is_called_once_and_its_result_is_told() -> None:
    brain = ScriptedBrain()
    request = asked("the next 3 days", tools=(WEATHER,))
    assert brain(request) == call("weather", {"days": 3})
    after = dataclasses.replace(request, messages=(*request.messages, Message(role="tool", text="sun")))
    assert brain(after) == say("The tool says: sun")
    assert brain(dataclasses.replace(after, tool_choice="required")) == call("weather", {"days": 3})


def test_an_answer_schema_is_filled() -> None:
    answer = ScriptedBrain()(asked("7 of them", answer_schema={"properties": {"n": {"type": "integer"}}}))
    assert json.loads(answer.text) == {"n": 7}


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(Unanswerable, match="no tool is offered"):
        ScriptedBrain()(asked("hi", tool_choice="required"))
    with pytest.raises(Unanswerable, match="no message"):
        ScriptedBrain()(asked())

"""`ScriptedBrain`: a model of a few rules, deterministic, for where no real one is at hand.

- Rules are tried in order; the first whose pattern is found answers. What it says and calls is a template over the
  pattern's groups.
- Without a fitting rule: a tool is called where one is offered and the newest message is no tool result (arguments
  filled from the conversation, see `instances`); an answer schema is filled; otherwise it repeats what it was told.
- A pure function of the request: no state, no clock, no chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tachograph.testing.answers import Answer, call, say
from tachograph.testing.instances import instance_of
from tachograph.testing.model_request import ModelRequest, Tool, Unanswerable

Where = Literal["last", "system", "conversation"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    r"""One rule: where `when` (a regular expression) is found, `say` the text or `call` the tool.

    `say` and the strings among `arguments` may refer to the pattern's groups: `\1`, `\g<city>`. An argument that is
    nothing but one group becomes a number where it looks like one.
    """

    when: str
    where: Where = "last"
    say: str = ""
    call: str = ""
    arguments: Mapping[str, object] = field(default_factory=dict)

    def answer(self, request: ModelRequest) -> Answer | None:
        """The rule's answer, or None where it does not apply."""
        found = re.search(self.when, self._searched(request), re.DOTALL)
        if found is None:
            return None
        if not self.call:
            return say(found.expand(self.say))
        if self.call not in {tool.name for tool in request.tools} or request.tool_choice == "none":
            return None
        return call(self.call, {name: _filled(found, value) for name, value in self.arguments.items()})

    def _searched(self, request: ModelRequest) -> str:
        match self.where:
            case "last":
                return request.last.text
            case "system":
                return request.system
            case "conversation":
                return request.text


class ScriptedBrain:
    """A brain of rules; see the module's promise. Call it with a request."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self._rules = tuple(rules)

    def __call__(self, request: ModelRequest) -> Answer:
        """The answer. Raises `Unanswerable` for a request without messages."""
        for rule in self._rules:
            answer = rule.answer(request)
            if answer is not None:
                return answer
        if self._calls(request):
            return _call_of(request.tools[0], request)
        if request.answer_schema is not None:
            return say(json.dumps(instance_of(request.answer_schema, _texts(request)), ensure_ascii=False))
        if request.last.role == "tool":
            return say(f"The tool says: {request.last.text}")
        return say(f"You said: {request.last.text}")

    @staticmethod
    def _calls(request: ModelRequest) -> bool:
        if request.tool_choice == "required" and not request.tools:
            raise Unanswerable("a tool call is required and no tool is offered")
        if not request.tools or request.tool_choice == "none":
            return False
        return request.tool_choice == "required" or request.last.role != "tool"


def _call_of(tool: Tool, request: ModelRequest) -> Answer:
    arguments: Any = instance_of(tool.parameters, _texts(request))
    return call(tool.name, arguments if isinstance(arguments, Mapping) else {})


def _texts(request: ModelRequest) -> list[str]:
    """What was retrieved and instructed tells more than the question, which goes last."""
    return [request.system, *(message.text for message in request.messages if message.role == "user")]


def _filled(found: re.Match[str], value: object) -> object:
    if not isinstance(value, str):
        return value
    text = found.expand(value)
    alone = re.fullmatch(r"\\(\d+|g<\w+>)", value) is not None
    return json.loads(text) if alone and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", text) else text

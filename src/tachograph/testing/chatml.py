"""A conversation as the prompt of a ChatML model, and the grammar that keeps its tool calls valid.

A model of 135 million parameters calls no tool on its own, so a serving policy does what its training does not:

- tools are described in the system text, and a JSON schema forces `{"tool": ..., "args": ...}` for one of them, or
  `{"answer": ...}` where the choice is `auto`;
- after a tool result, with one tool offered and the choice `auto`, plain text is asked for, since tiny models loop.

Whoever shows results of such a model should say that its calls were forced by grammar. Pure: text in, text out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tachograph.testing.model_request import Message, ModelRequest, Tool, Unanswerable

STOP = "<|im_end|>"
# They say nothing about the form, and each token of a prompt costs a small model some of its attention.
_ANNOTATIONS = frozenset({"title", "$schema", "default", "strict"})


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """What goes to the engine: the text, the JSON schema that its answer must fit (None: free text), and whether that
    schema is the envelope of tool calls, which the brain has to open again.
    """

    text: str
    schema: Mapping[str, Any] | None
    enveloped: bool


def prompt_of(request: ModelRequest) -> Prompt:
    """The prompt of a request. Raises `Unanswerable` where a call is required and no tool is offered."""
    calls = _may_call(request)
    if calls:
        return Prompt(text=_rendered(request, request.tools), schema=_envelope(request), enveloped=True)
    schema = None if request.answer_schema is None else _plain(request.answer_schema)
    return Prompt(text=_rendered(request, ()), schema=schema, enveloped=False)


def _may_call(request: ModelRequest) -> bool:
    if request.tool_choice == "required":
        if not request.tools:
            raise Unanswerable("a tool call is required and no tool is offered")
        return True
    answered = request.last.role == "tool" and len(request.tools) == 1
    return bool(request.tools) and request.tool_choice == "auto" and not answered


def _envelope(request: ModelRequest) -> dict[str, Any]:
    alternatives = [_call_schema(tool) for tool in request.tools]
    if request.tool_choice == "auto":
        answer = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
        alternatives.append({**answer, "additionalProperties": False})
    return {"anyOf": alternatives}


def _call_schema(tool: Tool) -> dict[str, Any]:
    arguments = {**_plain(tool.parameters), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "args": arguments},
        "required": ["tool", "args"],
        "additionalProperties": False,
    }


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without annotations; a property that is called like one stays."""
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _ANNOTATIONS:
            continue
        if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            found[name] = {key: _plain(inner) for key, inner in value.items()}
        elif isinstance(value, Mapping):
            found[name] = _plain(value)
        elif isinstance(value, list) and name in ("anyOf", "oneOf", "allOf"):
            found[name] = [_plain(inner) for inner in value]
        else:
            found[name] = value
    return found


def _rendered(request: ModelRequest, tools: tuple[Tool, ...]) -> str:
    system = request.system + _instructions(tools) if tools else request.system
    said = [("system", system)] if system else []
    said += [_line(message) for message in request.messages if message.role != "system"]
    return "".join(f"<|im_start|>{role}\n{text}{STOP}\n" for role, text in said) + "<|im_start|>assistant\n"


def _line(message: Message) -> tuple[str, str]:
    if message.role == "tool":
        return "user", f"Tool result: {message.text}"
    if message.tool_calls:
        return "assistant", "\n".join(_written(message))
    return message.role, message.text


def _written(message: Message) -> Iterator[str]:
    if message.text:
        yield message.text
    for call in message.tool_calls:
        yield json.dumps({"tool": call.name, "args": json.loads(call.arguments or "{}")}, ensure_ascii=False)


def _instructions(tools: tuple[Tool, ...]) -> str:
    lines = [
        f"- {tool.name}: {tool.description} args={json.dumps(_plain(tool.parameters).get('properties', {}))}"
        for tool in tools
    ]
    asked = 'Reply with JSON: {"tool": name, "args": {...}} to call a tool, or {"answer": "..."} to answer.'
    return "\n\nTools:\n" + "\n".join(lines) + "\n\n" + asked

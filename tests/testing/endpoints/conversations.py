"""What the endpoint tests share: one conversation with a tool, an answer of every kind of piece, events read back."""

from __future__ import annotations

import json
from typing import Any

from tachograph.testing.answers import Answer, Reason, Usage
from tachograph.testing.model_request import Message, ModelRequest, Sampling, Tool, ToolCall

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = Tool(name="weather", description="The weather.", parameters=SCHEMA)
# What each protocol's form of this conversation must be read as.
ASKED = ModelRequest(
    model="m",
    messages=(
        Message(role="system", text="Be brief."),
        Message(role="user", text="Weather in Zürich?"),
        Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="weather", arguments='{"city": "Zürich"}'),)),
        Message(role="tool", text="sun", answers="call_1"),
    ),
    tools=(TOOL,),
    tool_choice="required",
    sampling=Sampling(temperature=0.5, top_p=0.9, max_tokens=50, stop=("END",)),
)
# Text, then two calls at once: the form on which readers of streams fall over.
ANSWER = Answer(
    text="Both, then. 😀",
    tool_calls=(
        ToolCall(name="weather", arguments='{"city": "Bern"}'),
        ToolCall(name="weather", arguments='{"city": "Zürich"}'),
    ),
    usage=Usage(prompt=11, completion=7),
)


def ended(reason: Reason) -> Answer:
    """A short answer that ended for a reason."""
    return Answer(text="So", reason=reason, usage=Usage(prompt=1, completion=1))


def events(stream: bytes) -> list[tuple[str, Any]]:
    """Name and data of each event; the name is empty where none was sent, the data text where it is no JSON."""
    found = []
    for block in stream.replace(b"\r\n", b"\n").decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines:
            data = lines["data"]
            found.append((lines.get("event", ""), json.loads(data) if data.startswith("{") else data))
    return found

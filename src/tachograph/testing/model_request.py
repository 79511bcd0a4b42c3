"""What a model is asked, whatever provider's protocol it came in: the one thing that a brain sees.

Equal questions in two protocols give equal values. Parts that are no text (images, files) stand as `[image_url]`, by
the name of their type, so that they are seen and not read. `nth` tells identical requests apart: how many with the
same bytes the server answered before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tachograph.errors import TachographError

Role = Literal["system", "user", "assistant", "tool"]
ToolChoice = Literal["auto", "none", "required"]


class Unanswerable(TachographError):
    """A request that a brain or an endpoint cannot answer; `status` is the HTTP status that says so."""

    code = "unanswerable"

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that a model asked for; `arguments` is the JSON text as the model wrote it."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of the conversation; `answers` is the id of the call that a tool message answers."""

    role: Role
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that the model may call; `parameters` is its JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen. `max_tokens` 0: no limit was given."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0
    max_tokens: int = 0
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """One question to a model. `answer_schema`: the JSON schema that the answer's text must fit; None asks for text."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    sampling: Sampling = Sampling()
    answer_schema: Mapping[str, Any] | None = None
    nth: int = 0

    def repeated(self, nth: int) -> ModelRequest:
        """The same request, asked for the `nth` time (from 0)."""
        return dataclasses.replace(self, nth=nth)

    @property
    def system(self) -> str:
        """The text of all system messages."""
        return "\n".join(message.text for message in self.messages if message.role == "system")

    @property
    def last(self) -> Message:
        """The newest message. Raises `Unanswerable` where there is none."""
        if not self.messages:
            raise Unanswerable("the request holds no message")
        return self.messages[-1]

    @property
    def text(self) -> str:
        """The text of all messages, calls included, in their order."""
        parts = [(message.text, *(call.arguments for call in message.tool_calls)) for message in self.messages]
        return "\n".join(part for group in parts for part in group if part)


def text_of(content: object) -> str:
    """The text of a content field: a string, a list of parts, or nothing."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    raise Unanswerable(f"content is neither text nor parts: {type(content).__name__}")


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise Unanswerable(f"a content part is no object: {part!r}")
    return str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]"


def choose(tools: tuple[Tool, ...], name: str) -> tuple[Tool, ...]:
    """The one tool that a request names as the one to call. Raises `Unanswerable` where it offers no such tool."""
    chosen = tuple(tool for tool in tools if tool.name == name)
    if not chosen:
        raise Unanswerable(f"tool_choice names {name!r}, which is not among the tools")
    return chosen

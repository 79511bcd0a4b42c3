"""What a model answers: whole (`Answer`), or as it comes (`Piece` after `Piece`).

A brain is a function from a `ModelRequest` to either; `pieces_of` and `whole` turn one form into the other without
losing anything. Invariants: `Finished` is the last piece and there is one; arguments follow the opening of their call;
the pieces' texts joined are the answer's text. Usage is never zero for text that is not empty: where a brain counts no
tokens of its own, words and signs are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from tachograph.testing.model_request import ModelRequest, ToolCall

Reason = Literal["stop", "length", "tool_calls"]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_WORD = re.compile(r"\s*\S+|\s+\Z")


@dataclass(frozen=True)
class Text:
    """Some more text."""

    text: str


@dataclass(frozen=True)
class CallOpened:
    """A tool call begins."""

    name: str


@dataclass(frozen=True)
class CallArguments:
    """Some more of the JSON text of the open call's arguments."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens read and written."""

    prompt: int
    completion: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt + self.completion


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The end of an answer, why, and what it cost."""

    reason: Reason
    usage: Usage


Piece = Text | CallOpened | CallArguments | Finished


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer. `reason` and `usage` are worked out where they are not given."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reason: Reason | None = None
    usage: Usage | None = None


Brain = Callable[[ModelRequest], Answer | Iterator[Piece]]


def say(text: str) -> Answer:
    """An answer in words."""
    return Answer(text=text)


def call(name: str, arguments: Mapping[str, object] | None = None) -> Answer:
    """An answer that calls one tool."""
    return Answer(tool_calls=(ToolCall(name=name, arguments=json.dumps(arguments or {}, ensure_ascii=False)),))


def tokens(text: str) -> int:
    """A count that stands for a tokenizer's: words and signs, the same on every machine."""
    return len(_TOKEN.findall(text))


def pieces_of(request: ModelRequest, answer: Answer | Iterator[Piece]) -> Iterator[Piece]:
    """An answer as pieces: text by words, arguments by words. Pieces pass through as they come."""
    if not isinstance(answer, Answer):
        yield from answer
        return
    for word in _WORD.findall(answer.text):
        yield Text(word)
    for made in answer.tool_calls:
        yield CallOpened(made.name)
        for word in _WORD.findall(made.arguments):
            yield CallArguments(word)
    reason = answer.reason or ("tool_calls" if answer.tool_calls else "stop")
    yield Finished(reason=reason, usage=answer.usage or _counted(request, answer))


def whole(pieces: Iterable[Piece]) -> tuple[str, tuple[ToolCall, ...], Finished]:
    """What the pieces say together. Raises ValueError where they do not end with `Finished`."""
    text: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    for piece in pieces:
        match piece:
            case Text(more):
                text.append(more)
            case CallOpened(name):
                calls.append((name, []))
            case CallArguments(more):
                calls[-1][1].append(more)
            case Finished():
                made = tuple(ToolCall(name=name, arguments="".join(parts)) for name, parts in calls)
                return "".join(text), made, piece
    raise ValueError("the brain's answer has no end: the last piece must be Finished")


def prompt_tokens(request: ModelRequest) -> int:
    """The count for all that a request says and offers."""
    offered = " ".join(f"{tool.name} {tool.description} {json.dumps(tool.parameters)}" for tool in request.tools)
    return tokens(request.text) + tokens(offered)


def _counted(request: ModelRequest, answer: Answer) -> Usage:
    written = " ".join([answer.text, *(f"{made.name} {made.arguments}" for made in answer.tool_calls)])
    return Usage(prompt=prompt_tokens(request), completion=tokens(written))

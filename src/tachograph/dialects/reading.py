"""Readings: what a request and an answer say, in one shape for every provider.

A reading is a view of bytes that are kept elsewhere, and it never guesses:

- a field is None where the bytes do not state it, and `reasons` says why under the field's name;
- texts, arguments and parameters are exactly as sent: numbers keep all their digits (R16), nothing is filled in;
- `stop_reason` is one of ours only if the provider stated a stop that we know; a stream without its terminal event is
  `incomplete` and keeps the text so far (R18, R19). The provider's own word stays in `provider_stop`;
- every text of a request comes with the JSON pointer at which it stands in the body, so that it can be shown, traced to
  its origin and, in a trial, edited in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Headers = Sequence[tuple[bytes, bytes]]
StopReason = Literal["end_turn", "max_tokens", "tool_call", "error", "incomplete"]


@dataclass(frozen=True, slots=True)
class Message:
    """One text of a request, in the order in which the model reads them.

    `kind` is the wire's own word for the part (`text`, `tool_call`, `tool_result`, `image_url`, ...); `text` is None
    for parts that are not text. A call's `text` is its arguments.
    """

    role: str | None
    pointer: str
    text: str | None
    kind: str = "text"
    tool_call_id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asks for; the arguments are the text that it wrote, JSON or not."""

    call_id: str | None
    name: str | None
    arguments_text: str | None


@dataclass(frozen=True, slots=True)
class RequestReading:
    """What a request asks. `sampling` maps each parameter to its JSON text as sent."""

    model: str | None = None
    system_text: str | None = None
    developer_text: str | None = None
    messages: tuple[Message, ...] = ()
    tools_json: str | None = None
    sampling: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that the provider states in the body or in the stream."""

    kind: str | None
    message: str | None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """What an answer says."""

    final_text: str | None = None
    reasoning_text: str | None = None
    refusal_text: str | None = None
    other_texts: tuple[str, ...] = ()  # of further choices, where the request asked for several
    tool_calls: tuple[ToolCall, ...] = ()
    provider_calls: tuple[ToolCall, ...] = ()  # tools that the provider ran itself
    stop_reason: StopReason | None = None
    provider_stop: str | None = None
    usage: Mapping[str, Any] | None = None
    model_name: str | None = None
    system_fingerprint: str | None = None
    interrupted: bool = False
    events: int = 0
    last_event_unterminated: bool = False
    error: ProviderError | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_version(self) -> str | None:
        """Name and fingerprint as the answer states them, separated by a space; None if it states no name."""
        if self.model_name is None or self.system_fingerprint is None:
            return self.model_name
        return f"{self.model_name} {self.system_fingerprint}"

    @property
    def input_tokens(self) -> int | None:
        """Tokens of the prompt as the provider counts them."""
        return _count(self.usage, "input_tokens", "prompt_tokens")

    @property
    def output_tokens(self) -> int | None:
        """Tokens of the answer as the provider counts them."""
        return _count(self.usage, "output_tokens", "completion_tokens")

    @property
    def reasoning_tokens(self) -> int | None:
        """Tokens of hidden reasoning, where the provider counts them apart."""
        for key in ("output_tokens_details", "completion_tokens_details"):
            details = (self.usage or {}).get(key)
            if isinstance(details, Mapping):
                return _count(details, "reasoning_tokens")
        return None


class Dialect(Protocol):
    """One wire format."""

    @property
    def name(self) -> str:
        """The name that a capture gives for it."""

    def speaks(self, method: str, path: str, headers: Headers, body: bytes) -> bool:
        """Say whether this request is one of this format; `path` has neither query nor fragment."""

    def read_request(self, body: bytes) -> RequestReading:
        """Read a request's body; never raises."""

    def read_answer(self, status: int, headers: Headers, chunks: Iterable[bytes]) -> AnswerReading:
        """Read an answer's undecoded body, streamed or not; never raises."""


def _count(usage: Mapping[str, Any] | None, *names: str) -> int | None:
    for name in names:
        value = (usage or {}).get(name)
        if type(value) is int:
            return value
    return None

"""What every endpoint module offers to the server, and the JSON that all of them read with care.

A field of the wrong type is the caller's fault and is answered as one: `Unanswerable`, status 400, naming the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tachograph.testing.answers import Piece
from tachograph.testing.model_request import ModelRequest, Sampling, Tool, Unanswerable

Body = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What names one answer: `key` for its ids, `created` in seconds of Unix time, `fingerprint` for who answered."""

    key: str
    created: int
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One protocol: how it is read, and how an answer is written whole and streamed."""

    read: Callable[[Body], ModelRequest]
    whole: Callable[[Body, Identity, Iterable[Piece]], dict[str, Any]]
    events: Callable[[Body, Identity, Iterable[Piece]], Iterator[bytes]]


def objects(body: Body, name: str) -> list[Body]:
    """A list of objects under `name`; empty where the field is missing or null."""
    found = body.get(name) or []
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise Unanswerable(f"{name} is no list of objects")
    return found


def tool_of(definition: Body, parameters: str) -> Tool:
    """A tool from its definition, whose schema stands under `parameters`."""
    if not isinstance(definition.get("name"), str):
        raise Unanswerable("a tool has no name")
    schema = definition.get(parameters) or {"type": "object", "properties": {}}
    return Tool(name=definition["name"], description=str(definition.get("description") or ""), parameters=schema)


def arguments_of(text: str) -> dict[str, Any]:
    """A call's arguments as a value; empty where the answer's length ran out inside them, as the providers have it."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def sampling_of(body: Body, **names: str) -> Sampling:
    """Sampling fields under the names that a protocol gives them (`max_tokens="maxOutputTokens"`)."""

    def value(name: str, default: Any) -> Any:
        found = body.get(names.get(name, name))
        return default if found is None else found

    stop = value("stop", [])
    try:
        return Sampling(
            temperature=float(value("temperature", 0.0)),
            top_p=float(value("top_p", 1.0)),
            seed=int(value("seed", 0)),
            max_tokens=int(value("max_tokens", 0)),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
        )
    except (TypeError, ValueError) as error:
        raise Unanswerable(f"a sampling field has the wrong type: {error}") from error

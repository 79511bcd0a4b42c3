"""Scripts as JSON, for a server in another process.

A file holds a list of steps, or an object `{"script": [...], "then": step}`. A step is one of

    {"status": 200, "headers": [["name", "value"]], "body": "text"}    or "json": any, or "body_base64"; "coding": "br"
    {"chunks": ["text", 0.05, {"base64": "..."}], "framing": "chunked", "ending": "reset", "cut_after": 10, ...}
    {"kind": "raw", "chunks": ["HTP/1.1 banana\\r\\n\\r\\n"]}
    {"kind": "silence"}
    {"kind": "hangup", "ending": "reset"}

Numbers among chunks are pauses in seconds. A key that no step knows is refused: a misspelt ending must not pass for a
server that behaves well.
"""

from __future__ import annotations

import base64
import json
from typing import Any, get_args

from tachograph.errors import UsageError
from tachograph.testing.codings import compress
from tachograph.testing.replies import Behaviour, Borders, Chunk, Ending, Framing, Hangup, Raw, Reply, Silence

_COMMON = {"status", "reason", "headers", "framing", "ending", "cut_after", "borders", "delay"}
_CHOICES = {"framing": get_args(Framing), "ending": get_args(Ending), "borders": get_args(Borders)}
_BODIES = {"body", "body_base64", "json", "chunks"}


def read_script(text: str) -> tuple[list[Behaviour], Behaviour | None]:
    """The script and what follows it. Raises `UsageError` with the place of the first fault."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the script is no JSON: {error}") from error
    steps, then = document, None
    if isinstance(document, dict):
        _only(document, {"script", "then"}, "script")
        steps, then = document.get("script", []), document.get("then")
    if not isinstance(steps, list):
        raise UsageError("the script is no list of steps")
    behaviours = [_step(step, f"step {number}") for number, step in enumerate(steps, start=1)]
    return behaviours, None if then is None else _step(then, "then")


def _step(step: Any, place: str) -> Behaviour:
    if not isinstance(step, dict):
        raise UsageError(f"{place} is no object")
    rest = {name: value for name, value in step.items() if name != "kind"}
    match step.get("kind", "reply"):
        case "silence":
            _only(rest, set(), place)
            return Silence()
        case "hangup":
            _only(rest, {"ending"}, place)
            return Hangup(**rest)
        case "raw":
            _only(rest, {"chunks", "ending"}, place)
            return Raw(**{**rest, "chunks": _chunks(rest.get("chunks"), place)})
        case "reply":
            return _reply(rest, place)
        case other:
            raise UsageError(f"{place}: no such kind: {other!r}; known are reply, raw, silence and hangup")


def _reply(step: dict[str, Any], place: str) -> Reply:
    _only(step, _COMMON | _BODIES | {"coding"}, place)
    given = [name for name in step if name in _BODIES]
    if len(given) > 1:
        raise UsageError(f"{place} has more than one body: {', '.join(given)}")
    options = {name: value for name, value in step.items() if name in _COMMON}
    options["headers"] = _headers(step.get("headers", []), place)
    if "chunks" in step:
        options.setdefault("framing", "chunked")
        return Reply(**options, chunks=_chunks(step["chunks"], place))
    coding = step.get("coding", "identity")
    if coding != "identity":
        options["headers"] += (("content-encoding", coding),)
    if "json" in step and not any(name.lower() == "content-type" for name, _ in options["headers"]):
        options["headers"] += (("content-type", "application/json"),)
    return Reply(**options, chunks=(compress(_body(step, place), coding),))


def _body(step: dict[str, Any], place: str) -> bytes:
    if "json" in step:
        return json.dumps(step["json"], ensure_ascii=False, separators=(",", ":")).encode()
    if "body_base64" in step:
        return _base64(step["body_base64"], place)
    return str(step.get("body", "")).encode()


def _chunks(items: Any, place: str) -> tuple[Chunk, ...]:
    if not isinstance(items, list):
        raise UsageError(f"{place}: chunks is no list")
    return tuple(_chunk(item, place) for item in items)


def _chunk(item: Any, place: str) -> Chunk:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, int | float) and not isinstance(item, bool):
        return float(item)
    if isinstance(item, dict) and item.keys() == {"base64"}:
        return _base64(item["base64"], place)
    raise UsageError(f'{place}: a chunk is a text, a number of seconds or {{"base64": "..."}}, not {item!r}')


def _base64(text: Any, place: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{place}: not base64: {error}") from error


def _headers(given: Any, place: str) -> tuple[tuple[str, str], ...]:
    items = list(given.items()) if isinstance(given, dict) else given
    if not all(isinstance(item, list | tuple) and len(item) == 2 for item in items):
        raise UsageError(f"{place}: headers are pairs, or an object")
    return tuple((str(name), str(value)) for name, value in items)


def _only(step: dict[str, Any], known: set[str], place: str) -> None:
    unknown = sorted(step.keys() - known)
    if unknown:
        raise UsageError(f"{place}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known)) or 'none'}")
    for name in step.keys() & _CHOICES.keys():
        if step[name] not in _CHOICES[name]:
            raise UsageError(f"{place}: {name} cannot be {step[name]!r}; it is one of {', '.join(_CHOICES[name])}")

"""One effect in full: both sides with headers and body, the chunk table, how it ended.

Wire bytes are what was kept. A body is shown decoded where its encoding can be decoded here, else what it is is said
(R04); bytes that are no text are escaped, never guessed at.
"""

from __future__ import annotations

from typing import Any

from tachograph.dialects.decoding import decode_content
from tachograph.intake.reading import plainly
from tachograph.intake.readings import dialect_of
from tachograph.library.showing import Mask, error_of
from tachograph.model.effect import HTTP, SLEEP, SUBPROCESS, Effect


def detail(effect: Effect, *, mask: Mask) -> dict[str, Any]:
    """Return an effect as a JSON object."""
    return {
        "effect": effect.index,
        "kind": effect.kind if dialect_of(effect) is None else "model",
        "path": effect.path,
        "startedMs": round(effect.began_ns / 1e6, 3),
        "ended": effect.ended,
        "error": mask(error_of(effect)) if effect.error else None,
        "request": _request(effect, mask),
        "answer": _answer(effect, mask),
        "credentials": [name for name, _ in (*effect.tags, *effect.response_tags)],
        "chunks": [
            {"bytes": len(arrival.body), "ms": round((arrival.at_ns - effect.at_ns) / 1e6, 3), "stream": arrival.stream}
            for arrival in effect.arrivals
            if arrival.kind == "chunk" or (arrival.kind == "wire" and arrival.body)
        ],
    }


def _request(effect: Effect, mask: Mask) -> dict[str, Any]:
    if effect.kind == HTTP:
        headers = [[_text(name), mask(_text(value))] for name, value in effect.headers]
        body = _body(effect.body, effect.headers, mask)
        complete = {} if effect.body_complete else {"complete": False}
        return {"line": mask(f"{effect.method} {effect.url}"), "headers": headers, "body": body, **complete}
    if effect.kind == SUBPROCESS:
        return {"line": mask(effect.summary), "command": _masked(effect.command, mask)}
    if effect.kind == SLEEP:
        return {"line": effect.summary, "form": effect.name, "seconds": effect.seconds, "site": list(effect.site)}
    inputs = _masked(plainly(effect.inputs), mask)
    return {"line": mask(effect.summary), "inputs": inputs, "body": _shown(inputs)}


def _answer(effect: Effect, mask: Mask) -> dict[str, Any]:
    if effect.kind == HTTP:
        headers = [[_text(name), mask(_text(value))] for name, value in effect.response_headers]
        body = _body(effect.answer, effect.response_headers, mask)
        line = f"{effect.version.decode('latin-1')} {effect.status} {_text(effect.reason)}" if effect.status else "none"
        return {"line": line, "status": effect.status, "headers": headers, "body": body}
    if effect.kind == SUBPROCESS:
        return {"line": f"status {effect.exit_status}", "body": mask(_escaped(effect.output(1) + effect.output(2)))}
    if effect.kind == SLEEP:
        return {"line": effect.ended}
    value = _masked(plainly(effect.value), mask)
    return {"line": effect.ended, "value": value, "body": _shown(value)}


def _masked(value: Any, mask: Mask) -> Any:
    """Mask each text of a JSON value, keys included."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(key): _masked(one, mask) for key, one in value.items()}
    return [_masked(one, mask) for one in value] if isinstance(value, list) else value


def _body(data: bytes, headers: list[tuple[bytes, bytes]], mask: Mask) -> str:
    seen = decode_content(headers, data)
    return seen.reason or "" if seen.body is None else mask(_escaped(seen.body))


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _escaped(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)

"""Model calls out of real recordings, for tests: wire bytes where a file has them, else its parsed body."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Exchange(NamedTuple):
    """One request and its answer, as bytes."""

    file: str
    method: str
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int
    answer_headers: list[tuple[bytes, bytes]]
    answer: bytes


def _headers(given: Any) -> list[tuple[bytes, bytes]]:
    found = []
    for name, values in (given or {}).items():
        for value in values if isinstance(values, list) else [values]:
            found.append((str(name).encode(), str(value).encode()))
    return found


def _bytes(side: dict[str, Any], headers: list[tuple[bytes, bytes]]) -> bytes:
    """A parsed body has lost its wire bytes, so its length and coding no longer describe what is made of it here."""
    if "parsed_body" in side:
        headers[:] = [one for one in headers if one[0].lower() not in (b"content-length", b"content-encoding")]
        return json.dumps(side["parsed_body"]).encode()
    body = side.get("body")
    if isinstance(body, dict) and set(body) <= {"string", "encoding"}:
        body = body.get("string")
    if isinstance(body, dict):
        return json.dumps(body).encode()
    return body.encode() if isinstance(body, str) else body or b""


def exchanges(shared: Path, word: str) -> list[Exchange]:
    """Every recorded exchange whose URL holds this word, in file order."""
    return [one for one in _all(shared) if word in one.url]


@cache
def _all(shared: Path) -> list[Exchange]:
    found = []
    for path in sorted((shared / "data" / "cassettes").glob("*.yaml")):
        try:
            document = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError:
            continue  # one file holds Python objects, and must not be loaded
        for one in document.get("interactions", []) if isinstance(document, dict) else []:
            request, response = one.get("request") or {}, one.get("response") or {}
            if "uri" not in request or "status" not in response:
                continue  # a websocket, gRPC, or a child process's messages
            sent, got = _headers(request.get("headers")), _headers(response.get("headers"))
            body, answer = _bytes(request, sent), _bytes(response, got)
            status = response["status"]["code"]
            found.append(Exchange(path.name, request["method"], request["uri"], sent, body, status, got, answer))
    return found

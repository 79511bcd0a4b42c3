"""JSON text: a document with its values and, for each of them, the exact text in which it was written.

A value says what a program would get; the text says what was sent. Sampling parameters, tool schemas and arguments that
a provider sends as objects are kept as text, so that `1.10` stays `1.10` and 2^64+1 keeps its digits (R16). Reading is
as strict as in comparison: what is no plain JSON (duplicate keys, NaN, lone surrogates) raises `NotPlainJson`.

Finding a text goes down from the top and remembers where the members of each container stand, so that asking for many
texts of one document scans it once per level.
"""

from __future__ import annotations

import json
from typing import Any

from tachograph.comparison.leaves import NotPlainJson, read_json, shown

_SPACE = " \t\n\r"
_SCAN = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode


class JsonText:
    """One JSON document; `value` holds integers of any size, floats only where exact, and `Number` elsewhere."""

    __slots__ = ("_members", "text", "value")

    def __init__(self, data: bytes) -> None:
        self.value: Any = shown(read_json(data))
        self.text = data.decode("utf-8")
        self._members: dict[int, dict[str | int, tuple[int, int]]] = {}

    def at(self, *steps: str | int) -> str | None:
        """Return the exact text of the value that these keys and indexes lead to, or None if there is none."""
        start = _skip(self.text, 0)
        end = len(self.text.rstrip(_SPACE))
        for step in steps:
            place = self._inside(start).get(step)
            if place is None:
                return None
            start, end = place
        return self.text[start:end]

    def _inside(self, start: int) -> dict[str | int, tuple[int, int]]:
        """Where the members of the container that begins here stand; none for a scalar."""
        found = self._members.get(start)
        if found is None:
            opens = self.text[start]
            found = self._members[start] = _walk(self.text, start, opens == "{") if opens in "{[" else {}
        return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _walk(text: str, start: int, keyed: bool) -> dict[str | int, tuple[int, int]]:
    places: dict[str | int, tuple[int, int]] = {}
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(places)
        if keyed:
            key, at = _SCAN(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _SCAN(text, at)
        places[key] = (at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return places


def read_text(data: bytes) -> JsonText | str:
    """Return the document, or in words why it cannot be read."""
    try:
        return JsonText(data)
    except NotPlainJson as fault:
        return fault.reason

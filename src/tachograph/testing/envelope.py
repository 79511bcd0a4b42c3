"""Opens the envelope of a forced answer while it is still being written.

The grammar makes the model write `{"tool": "NAME", "args": {...}}` or `{"answer": "..."}`, in that order of keys. This
reader takes the text as it comes and gives back pieces as soon as they are certain: the call when its name is complete,
the arguments' JSON as they grow, the answer's text character by character. However the text is cut, the pieces joined
are the same. A text that stops early (its length ran out) gives what was certain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tachograph.testing.answers import CallArguments, CallOpened, Piece, Text

_CALL = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"args"\s*:\s*')
_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
# A string's text up to an escape that is not complete yet, a lone half of a surrogate pair, or the closing quote.
_CERTAIN = re.compile(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*'
)


class Envelope:
    """Feed it text with `more`; `called` says whether it holds a tool call."""

    def __init__(self) -> None:
        self._held = ""
        self._inside = ""
        self._depth = 0
        self._in_string = False
        self._escaped = False

    @property
    def called(self) -> bool:
        """Whether a tool call was opened."""
        return self._inside in ("args", "after args")

    def more(self, text: str) -> Iterator[Piece]:
        """The pieces that this text makes certain."""
        self._held += text
        if not self._inside:
            yield from self._open()
        if self._inside == "args":
            arguments = self._arguments()
            if arguments:
                yield CallArguments(arguments)
        elif self._inside == "answer":
            certain = _CERTAIN.match(self._held)
            if certain and certain[0]:
                self._held = self._held[certain.end() :]
                yield Text(json.loads(f'"{certain[0]}"', strict=False))

    def _open(self) -> Iterator[Piece]:
        if found := _CALL.match(self._held):
            self._inside, self._held = "args", self._held[found.end() :]
            yield CallOpened(json.loads(found[1]))
        elif found := _ANSWER.match(self._held):
            self._inside, self._held = "answer", self._held[found.end() :]

    def _arguments(self) -> str:
        """The part of the held text that belongs to the arguments' object; what closes the envelope is left out."""
        for place, sign in enumerate(self._held):
            self._step(sign)
            if self._depth == 0 and not self._in_string and sign in "}]":
                found, self._inside, self._held = self._held[: place + 1], "after args", ""
                return found
        found, self._held = self._held, ""
        return found

    def _step(self, sign: str) -> None:
        if self._escaped:
            self._escaped = False
        elif self._in_string:
            self._escaped = sign == "\\"
            self._in_string = sign != '"'
        elif sign == '"':
            self._in_string = True
        elif sign in "{[":
            self._depth += 1
        elif sign in "}]":
            self._depth -= 1

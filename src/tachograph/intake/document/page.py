"""The document as it is being written: values in their places, bytes that are no JSON, why something is not there.

Rule 1 of capture-v1 is kept here: a value stands as JSON or text only where that gives it back exactly; anything else
is a blob of its exact bytes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tachograph.canonical import NotCanonical, canonical, digest, read_exact
from tachograph.errors import FormatError
from tachograph.formats.value_view import view

VALUE, ABSENT, UNAVAILABLE = "value", "absent", "unavailable"
OBSERVED, DECLARED, MAPPED, UNKNOWN = "observed", "declared", "mapped", "unknown"
BYTES = "bytes"


class Page:
    """A document under way."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.blobs: dict[str, bytes | str] = {}
        self.trees: dict[str, bytes] = {}
        self.states: dict[str, dict[str, str]] = {}

    def absent(self, pointer: str, reason: str) -> None:
        """Nothing stands there, and that is known."""
        self.states[pointer] = {"state": ABSENT, "provenance": OBSERVED, "reason": reason}

    def unavailable(self, pointer: str, reason: str) -> None:
        """Something may stand there, and is not known."""
        self.states[pointer] = {"state": UNAVAILABLE, "provenance": UNKNOWN, "reason": reason}

    def provenance(self, pointer: str, how: str, reason: str | None = None) -> None:
        """The value there was not observed, but declared or mapped."""
        self.states[pointer] = {"state": VALUE, "provenance": how, **({"reason": reason} if reason else {})}

    def blob(self, pointer: str, data: bytes | str) -> str:
        """Place bytes, or of large ones the digest alone; returns what stands in the document."""
        self.blobs[pointer] = data
        return data if isinstance(data, str) else digest(data)

    def text(self, pointer: str, text: str) -> str:
        """Place a text; one that is not valid Unicode is a blob."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return self.blob(pointer, text.encode("utf-8", "surrogatepass"))
        return text

    def value(self, pointer: str, value: Any, exact: bytes) -> Any:
        """Place a value: as JSON or text where that gives it back, else as its exact bytes."""
        if type(value) is str:
            return self.text(pointer, value)
        try:
            canonical(value)
        except (NotCanonical, ValueError, RecursionError):
            return self.blob(pointer, exact)
        return value

    def encoded(self, pointer: str, data: bytes) -> Any:
        """Place what a program passed or returned (`formats.values`)."""
        try:
            return self.value(pointer, view(data), data)
        except (FormatError, RecursionError, ValueError):
            return self.blob(pointer, data)

    def json(self, pointer: str, data: bytes) -> Any:
        """Place JSON as somebody wrote it."""
        try:
            return self.value(pointer, read_exact(data), data)
        except NotCanonical:
            return self.blob(pointer, data)

    def digested(self, holder: dict[str, Any], name: str, hash_name: str, pointer: str) -> None:
        """Write the plain digest beside a field that was placed (one item with it, rule 3)."""
        blob = self.blobs.get(f"{pointer}/{name}")
        if blob is not None:
            holder[hash_name] = blob if isinstance(blob, str) else digest(blob)
            if name in ("requestPayload", "input", "output", "toolSchemaJson"):
                holder["hashOf"] = BYTES
        elif type(holder[name]) is str:
            holder[hash_name] = "sha256:" + sha256(holder[name].encode()).hexdigest()
        else:
            holder[hash_name] = digest(canonical(holder[name]))

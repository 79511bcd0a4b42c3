"""Bodies: same bytes, same meaning, or different and where.

`compare_bodies` gives one of three levels, and never a better one than was checked:

- `bytes`: identical;
- `meaning`: different bytes of the same JSON value, the same form fields, or the same parts of a multipart body; every
  liberty that was taken is in `notes` (R05, R23: what is ignored is listed here, and shown);
- `different`: with the first differing leaf. A body that is no plain JSON (see `leaves`), or no well-formed form or
  multipart, is compared as bytes, and its leaf is the first differing byte.

Ignored in JSON are only the places in `VOLATILE`: trace context that MCP clients put into a request anew each time.
A `Body` keeps what was read of it, so that a recording that is asked for often is parsed once.
"""

from __future__ import annotations

from typing import NamedTuple

from tachograph.comparison.leaves import (
    ABSENT,
    Leaf,
    NotPlainJson,
    byte_difference,
    differences,
    first_difference,
    pointer,
    read_json,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Level = Literal["bytes", "meaning", "different"]

# Pointers of values that differ from one call to the next without meaning anything to whoever answers. MCP 2.x writes
# the OpenTelemetry context of the caller into every request.
VOLATILE = ("/params/_meta/traceparent", "/params/_meta/tracestate")
_VOLATILE_STEPS = tuple((place, tuple(place[1:].split("/"))) for place in VOLATILE)

REWRITTEN_JSON = "same JSON, written differently"
REWRITTEN_FORM = "same form, written differently"
BOUNDARY_ONLY = "boundary only"


class BodyVerdict(NamedTuple):
    """How far two bodies agree, what was overlooked to say so, and the first place where they do not."""

    level: Level
    notes: tuple[str, ...] = ()
    first: Leaf | None = None


SAME_BYTES = BodyVerdict("bytes")


class Part(NamedTuple):
    """One part of a multipart body: its header lines as sent, its name if it has one, its bytes."""

    headers: tuple[bytes, ...]
    name: str | None
    body: Body


class Body:
    """A body with its content type; what is read of it is kept."""

    __slots__ = ("_read", "content_type", "data", "kind")

    def __init__(self, content_type: str | None, data: bytes) -> None:
        self.content_type = content_type or ""
        self.data = data
        self.kind = _kind_of(self.content_type, data)
        self._read: Any = None

    def read(self) -> Any:
        """Return the JSON tree, the form's fields or the parts; raise `NotPlainJson` where there is none."""
        if self._read is None:
            try:
                self._read = (_READERS[self.kind](self),)
            except NotPlainJson as fault:
                self._read = fault
        if type(self._read) is tuple:
            return self._read[0]
        raise self._read


def compare_bodies(
    recorded_type: str | None, recorded: bytes, replayed_type: str | None, replayed: bytes
) -> BodyVerdict:
    """Compare two bodies by bytes, then by meaning."""
    return compare_read(Body(recorded_type, recorded), Body(replayed_type, replayed))


def compare_read(recorded: Body, replayed: Body, *, at: str = "") -> BodyVerdict:
    """Compare two bodies; `at` is the pointer under which they stand."""
    if recorded.data == replayed.data:
        return SAME_BYTES
    compare = _COMPARERS.get(recorded.kind) if recorded.kind == replayed.kind else None
    reason: tuple[str, ...] = ()
    if compare is not None:
        try:
            return compare(recorded, replayed, at)
        except NotPlainJson as fault:
            reason = (f"compared as bytes: {fault.reason}",)
    return BodyVerdict("different", reason, byte_difference(recorded.data, replayed.data, at=at))


def _kind_of(content_type: str, data: bytes) -> str:
    """What the header says; without one, what begins like JSON is read as JSON."""
    media = content_type.partition(";")[0].strip().lower()
    if not media:
        return "json" if data[:1] in (b"{", b"[") else "bytes"
    if media == "application/json" or media.endswith("+json"):
        return "json"
    if media == "application/x-www-form-urlencoded":
        return "form"
    return "multipart" if media.startswith("multipart/") else "bytes"


# --- JSON -------------------------------------------------------------------------------------------------------------


def _read_json(body: Body) -> Any:
    return read_json(body.data)


def _compare_json(recorded: Body, replayed: Body, at: str) -> BodyVerdict:
    one, other = recorded.read(), replayed.read()
    if one == other:
        return BodyVerdict("meaning", (REWRITTEN_JSON,))
    notes: list[str] = []
    for place, steps in _VOLATILE_STEPS:
        if _get(one, steps) != _get(other, steps):
            one, other = _without(one, steps), _without(other, steps)
            notes.append(f"ignored: {at}{place}")
    first = first_difference(one, other, at=at)
    return BodyVerdict("meaning" if first is None else "different", tuple(notes), first)


def _get(tree: Any, steps: tuple[str, ...]) -> Any:
    for step in steps:
        if type(tree) is not dict or step not in tree:
            return ABSENT
        tree = tree[step]
    return tree


def _without(tree: Any, steps: tuple[str, ...]) -> Any:
    """Return the tree without that place, and without the object that held nothing else; the original stays."""
    if _get(tree, steps) is ABSENT:
        return tree
    if len(steps) == 1:
        return {key: value for key, value in tree.items() if key != steps[0]}
    inner = _without(tree[steps[0]], steps[1:])
    if inner == {} and len(steps) == 2:
        return {key: value for key, value in tree.items() if key != steps[0]}
    return {**tree, steps[0]: inner}


# --- forms ------------------------------------------------------------------------------------------------------------


def _read_form(body: Body) -> dict[str, list[str]]:
    return fields_of(body.data.decode("latin-1"))


def fields_of(text: str) -> dict[str, list[str]]:
    """Return the values of each name of `a=1&b=2`, decoded, in order of appearance. Undecodable bytes stay apart."""
    fields: dict[str, list[str]] = {}
    for piece in text.split("&"):
        if piece:
            key, equals, value = piece.partition("=")
            fields.setdefault(decoded(key), []).append(decoded(value) if equals else "")
    return fields


def decoded(text: str) -> str:
    """Undo percent-encoding and `+`; a broken escape and bytes that are no UTF-8 stay distinguishable."""
    head, *escaped = text.replace("+", " ").split("%")
    out = bytearray(head.encode("utf-8", "surrogateescape"))
    for part in escaped:
        code = part[:2]
        if len(code) == 2 and all(sign in "0123456789abcdefABCDEF" for sign in code):
            out.append(int(code, 16))
            part = part[2:]
        else:
            out += b"%"
        out += part.encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "backslashreplace")


def _compare_form(recorded: Body, replayed: Body, at: str) -> BodyVerdict:
    first = first_difference(flat(recorded.read()), flat(replayed.read()), at=at)
    return BodyVerdict("meaning", (REWRITTEN_FORM,)) if first is None else BodyVerdict("different", (), first)


def flat(fields: dict[str, list[str]]) -> dict[str, str | list[str]]:
    """Return the fields with single values bare, so that their pointers are `/name` and not `/name/0`."""
    return {key: values[0] if len(values) == 1 else values for key, values in fields.items()}


# --- multipart --------------------------------------------------------------------------------------------------------


def boundary_of(content_type: str) -> str | None:
    """Return the `boundary` parameter of a content type."""
    for parameter in content_type.split(";")[1:]:
        key, equals, value = parameter.strip().partition("=")
        if equals and key.strip().lower() == "boundary":
            return value.strip().strip('"') or None
    return None


def _read_multipart(body: Body) -> tuple[Part, ...]:
    """Split at the boundary; only the exact framing of RFC 2046, without preamble or epilogue, counts as read."""
    boundary = boundary_of(body.content_type)
    if boundary is None:
        raise NotPlainJson("multipart without a boundary")
    mark = b"\r\n--" + boundary.encode("latin-1", "replace")
    pieces = (b"\r\n" + body.data).split(mark)
    if pieces[0] or pieces[-1] not in (b"--", b"--\r\n"):
        raise NotPlainJson("multipart with other framing")
    return tuple([_part(piece) for piece in pieces[1:-1]])


def _part(piece: bytes) -> Part:
    head, blank, data = piece.partition(b"\r\n\r\n")
    if not blank or not head.startswith(b"\r\n"):
        raise NotPlainJson("multipart with a part that has no head")
    lines = tuple(head[2:].split(b"\r\n"))
    name, media = None, None
    for line in lines:
        key, _, value = line.partition(b":")
        if key.strip().lower() == b"content-disposition":
            name = _name_of(value.decode("utf-8", "backslashreplace"))
        elif key.strip().lower() == b"content-type":
            media = value.decode("latin-1").strip()
    return Part(lines, name, Body(media or "application/octet-stream", data))


def _name_of(disposition: str) -> str | None:
    _, found, after = disposition.partition(' name="')
    return after.partition('"')[0] if found else None


def _compare_multipart(recorded: Body, replayed: Body, at: str) -> BodyVerdict:
    ones: tuple[Part, ...] = recorded.read()
    others: tuple[Part, ...] = replayed.read()
    notes: list[str] = []
    for index in range(max(len(ones), len(others))):
        place = at + pointer(_label(index, ones if index < len(ones) else others))
        if index >= len(ones):
            return BodyVerdict("different", (), Leaf(place, ABSENT, _summary(others[index])))
        if index >= len(others):
            return BodyVerdict("different", (), Leaf(place, _summary(ones[index]), ABSENT))
        one, other = ones[index], others[index]
        if one.headers != other.headers:
            return BodyVerdict("different", (), _header_line(one, other, place))
        verdict = compare_read(one.body, other.body, at=place)
        if verdict.level == "different":
            return verdict
        notes += [f"part {place}: {note}" for note in verdict.notes]
    if boundary_of(recorded.content_type) != boundary_of(replayed.content_type):
        notes.append("boundary" if notes else BOUNDARY_ONLY)
    return BodyVerdict("meaning", tuple(notes) or ("same parts, framed differently",))


def _label(index: int, parts: tuple[Part, ...]) -> str:
    """A part is called by its name where only it has that name, else by its position."""
    name = parts[index].name
    return name if name and [part.name for part in parts].count(name) == 1 else str(index)


def _summary(part: Part) -> str:
    return b"; ".join(part.headers).decode("utf-8", "backslashreplace") + f" ({len(part.body.data)} bytes)"


def _header_line(one: Part, other: Part, place: str) -> Leaf:
    texts = [[line.decode("utf-8", "backslashreplace") for line in part.headers] for part in (one, other)]
    return next(differences(texts[0], texts[1], at=place + "/headers"))


_READERS = {"json": _read_json, "form": _read_form, "multipart": _read_multipart}
_COMPARERS = {"json": _compare_json, "form": _compare_form, "multipart": _compare_multipart}

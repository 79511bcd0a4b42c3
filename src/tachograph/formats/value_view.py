"""Value view: an encoded value as plain JSON-like data, for people and for comparison, with no class touched.

What JSON can say stands as itself: null, booleans, integers of any size, finite floats, text, lists, and dicts with
text keys. Everything else is an object with one key that begins with `$` and names the kind, so that a tuple is never
taken for a list and a path never for text. A view is only a view: the bytes are the evidence.
"""

from __future__ import annotations

from binascii import b2a_base64

from tachograph.formats.values import parse, scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tachograph.formats.values import Node

_CONTAINERS = {"p": "$tuple", "v": "$set", "w": "$frozenset"}
_STANDARD = {
    "D": "$datetime", "A": "$date", "H": "$time", "W": "$timedelta", "Z": "$timezone", "Q": "$zone", "E": "$decimal",
    "U": "$uuid", "P": "$path", "R": "$range", "O": "$orderedDict", "K": "$deque",
}  # fmt: skip
_PROGRAM = {"X": "$exception", "M": "$enum", "N": "$namedtuple", "B": "$dataclass", "Y": "$model"}


def view(data: bytes) -> Any:
    """Return the plain view of what `values.encode` wrote; raises `FormatError` if it did not."""
    return _view(parse(data))


def _view(node: Node) -> Any:
    tag, content = node
    if tag == "?":
        return {"$notRestored": content.type_name, "digest": content.repr_digest}
    if tag == "m":
        return _view_dict(content)
    if tag == "l":
        return [_view(one) for one in content]
    if tag in _CONTAINERS:
        return {_CONTAINERS[tag]: [_view(one) for one in content]}
    if tag in _STANDARD:
        parts = _parts(content)
        return {_STANDARD[tag]: parts[0] if len(parts) == 1 else parts}
    if tag in _PROGRAM:
        return _view_object(tag, _parts(content))
    try:
        return _view_scalar(tag, scalar(node))
    except KeyError:
        return {"$unknown": tag, "parts": _view(content)}


def _parts(node: Node) -> list[Any]:
    return [_view(one) for one in node[1]] if node[0] == "p" else [_view(node)]


def _view_dict(nodes: list[Node]) -> Any:
    pairs = [(_view(key), _view(value)) for key, value in zip(nodes[::2], nodes[1::2], strict=True)]
    if all(type(key) is str and not key.startswith("$") for key, _ in pairs):
        return dict(pairs)
    return {"$dict": [[key, value] for key, value in pairs]}


def _view_scalar(tag: str, value: Any) -> Any:
    if tag in "yz":
        return {"$bytes" if tag == "y" else "$bytearray": b2a_base64(value, newline=False).decode("ascii")}
    if tag == "j" and (value != value or value in (float("inf"), float("-inf"))):
        return {"$float": repr(value)}
    if tag == "k":
        return {"$complex": repr(value)}
    if tag == "s":
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return {"$text": value.encode("utf-8", "backslashreplace").decode("utf-8")}
    return value


def _view_object(tag: str, parts: list[Any]) -> Any:
    name = ":".join([str(part) for part in parts[:2]])
    seen: dict[str, Any] = {_PROGRAM[tag]: name}
    if tag == "M" and len(parts) == 4:
        seen["member"], seen["value"] = parts[2:]
    elif tag == "X" and len(parts) == 7:
        _, _, _, seen["args"], _, seen["attributes"], cause = parts
        seen["args"] = seen["args"].get("$tuple", seen["args"]) if type(seen["args"]) is dict else seen["args"]
        if cause is not None:
            seen["cause"] = cause
    elif tag == "N" and len(parts) == 4 and type(parts[2]) is dict and type(parts[3]) is dict:
        seen["fields"] = dict(zip(parts[2].get("$tuple", ()), parts[3].get("$tuple", ()), strict=False))
    elif len(parts) > 3:
        seen["fields"] = parts[3]
    return seen

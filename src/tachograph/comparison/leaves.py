"""Leaves: JSON read without losing anything, and the places where two values differ.

Guarantees:

- a number is compared by its text: `1`, `1.0`, `1e0`, `1.10` and `1.1` are five values, of any size (2^64+1, 400
  digits), and none of them is `true`;
- what Python's reader would change in silence is refused as not plain JSON, and its bytes are compared instead:
  duplicate keys, NaN and infinities, lone surrogates, text that is not UTF-8, more than 64 levels;
- differences come in document order, the first one first, each under its RFC 6901 pointer, with both whole values;
- a key that one side has not is `ABSENT`, which no JSON value equals.

In a tree that `read_json` makes, a number stands as the 1-tuple of its text: made and compared at C speed, and equal to
nothing else, as JSON has no tuples. `shown` turns it into an `int` or `float` where that says exactly the same.

Standard library only: it runs inside replayed programs. 100 KB of a chat request are read in 0.3 ms.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from tachograph.errors import TachographError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

MOST_LEVELS = 64  # capture-v1 rule 1: the same limit decides whether a value may stand as a JSON value in a capture


class NotPlainJson(TachographError):
    """The bytes are no JSON that every reader reads alike; `reason` says why, in words that fit into a report."""

    code = "not_plain_json"

    def __init__(self, reason: str) -> None:
        super().__init__(f"not plain JSON ({reason}): compare its bytes")
        self.reason = reason


class Number(NamedTuple):
    """A number that no `int` or `float` writes back as it was sent."""

    text: str


class Absent:
    """The side on which nothing stands at this path."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


class Span(NamedTuple):
    """Bytes around the first one that differs; `of` is how many there are in all."""

    offset: int
    of: int
    excerpt: bytes


class Leaf(NamedTuple):
    """One place where two values differ: what the recording holds, and what the replay came with."""

    path: str
    recorded: Any
    replayed: Any


# --- reading ----------------------------------------------------------------------------------------------------------


def read_json(data: bytes) -> Any:
    """Return the tree of a JSON document, or raise `NotPlainJson`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise NotPlainJson(f"no UTF-8 at byte {fault.start}") from None
    try:
        tree = _DECODER.decode(text)
    except RecursionError:
        raise NotPlainJson(f"more than {MOST_LEVELS} levels") from None
    except ValueError as fault:
        raise NotPlainJson(str(fault)) from None
    if _deeper_than(tree, MOST_LEVELS):
        raise NotPlainJson(f"more than {MOST_LEVELS} levels")
    if _ESCAPED_SURROGATE.search(text) and _has_lone_surrogate(tree):  # a search, since `in` takes four times as long
        raise NotPlainJson("a lone surrogate")
    return tree


def _number(text: str) -> tuple[str]:
    return (text,)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotPlainJson(f"key {key!r} twice in one object")
            seen.add(key)
    return members


def _constant(name: str) -> Any:
    raise NotPlainJson(name)


_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_number, parse_float=_number, parse_constant=_constant
)  # fmt: skip


def _deeper_than(tree: Any, levels: int) -> bool:
    """Say whether containers nest deeper than that, level by level: a chain of any length costs no recursion."""
    row = [tree] if type(tree) in (dict, list) else []
    for _ in range(levels):
        row = [
            child
            for container in row
            for child in (container.values() if type(container) is dict else container)
            if type(child) is dict or type(child) is list
        ]
        if not row:
            return False
    return True


def _has_lone_surrogate(tree: Any) -> bool:
    todo = [tree]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            todo += value
            todo += value.values()
        elif type(value) is list:
            todo += value
        elif type(value) is str and not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                return True
    return False


# --- values of Python, read as a tree ---------------------------------------------------------------------------------


def tree_of(value: Any) -> Any:
    """Return the tree of a JSON value that Python already holds, so that `1`, `1.0` and `True` stay three values.

    Bytes may stand in it, and equal no text. Any other value raises `NotPlainJson`.
    """
    if value is None or type(value) in (bool, str, bytes) or isinstance(value, (Absent, Span)):
        return value
    if isinstance(value, Number):
        return (value.text,)
    if type(value) in (int, float):
        return (repr(value) if type(value) is float else format(value, "d"),)
    if isinstance(value, dict):
        return {str(key): tree_of(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [tree_of(item) for item in value]
    raise NotPlainJson(f"a {type(value).__name__} is no JSON value")


def shown(tree: Any) -> Any:
    """Return a tree as values that a report prints: an `int` or `float` where exact, else a `Number`."""
    kind = type(tree)
    if kind is tuple:
        return _shown_number(tree[0])
    if kind is dict:
        return {key: shown(member) for key, member in tree.items()}
    if kind is list:
        return [shown(item) for item in tree]
    return tree


def _shown_number(text: str) -> int | float | Number:
    try:
        whole = int(text)
        if format(whole, "d") == text:
            return whole
    except ValueError:  # a fraction, an exponent, or more digits than Python reads
        pass
    value = float(text)
    return value if repr(value) == text else Number(text)


def as_json(value: Any) -> Any:
    """Return a leaf's value as any JSON writer writes it without loss; what JSON cannot say is an object of one key."""
    if isinstance(value, Number):
        return {"number": value.text}
    if isinstance(value, Absent):
        return {"absent": True}
    if isinstance(value, Span):
        text = _as_text(value.excerpt)
        seen = {} if text is None else {"text": text}
        return {"bytes": value.excerpt.hex(), "offset": value.offset, "of": value.of, **seen}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, dict):
        return {key: as_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if type(value) is int and abs(value) > 2**53 - 1:
        return {"number": str(value)}
    return value


def _as_text(excerpt: bytes) -> str | None:
    """Return an excerpt of a text as that text, without the halves of characters at its ends; None if it is none."""
    start = 0
    while start < min(3, len(excerpt)) and excerpt[start] & 0xC0 == 0x80:
        start += 1
    for end in range(len(excerpt), max(start, len(excerpt) - 4), -1):
        try:
            text = excerpt[start:end].decode()
        except UnicodeDecodeError:
            continue
        return text if all(sign.isprintable() or sign in "\t\r\n" for sign in text) else None
    return None


# --- differences ------------------------------------------------------------------------------------------------------


def pointer(*steps: str | int) -> str:
    """Return the RFC 6901 pointer of these steps."""
    return "".join(["/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps])


def differences(recorded: Any, replayed: Any, *, at: str = "") -> Iterator[Leaf]:
    """Yield each place where two trees differ, in the order of the recorded document; new keys come last."""
    if recorded == replayed:
        return
    if type(recorded) is dict and type(replayed) is dict:
        for key, value in recorded.items():
            yield from differences(value, replayed.get(key, ABSENT), at=at + pointer(key))
        for key, value in replayed.items():
            if key not in recorded:
                yield Leaf(at + pointer(key), ABSENT, shown(value))
    elif type(recorded) is list and type(replayed) is list:
        common = min(len(recorded), len(replayed))
        for index in range(common):
            yield from differences(recorded[index], replayed[index], at=f"{at}/{index}")
        for index in range(common, len(recorded)):
            yield Leaf(f"{at}/{index}", shown(recorded[index]), ABSENT)
        for index in range(common, len(replayed)):
            yield Leaf(f"{at}/{index}", ABSENT, shown(replayed[index]))
    else:
        yield Leaf(at, shown(recorded), shown(replayed))


def first_difference(recorded: Any, replayed: Any, *, at: str = "") -> Leaf | None:
    """Return the first of `differences`, or None."""
    return next(differences(recorded, replayed, at=at), None)


def byte_difference(recorded: bytes, replayed: bytes, *, at: str = "") -> Leaf | None:
    """Return the first differing byte of two byte strings, with 24 bytes before and 40 after it on both sides."""
    if recorded == replayed:
        return None
    offset = common_prefix(recorded, replayed)
    start = max(0, offset - 24)
    return Leaf(
        at,
        Span(offset, len(recorded), recorded[start : offset + 40]),
        Span(offset, len(replayed), replayed[start : offset + 40]),
    )


def common_prefix(one: bytes, other: bytes) -> int:
    """Count the leading bytes that two byte strings share; halving, since slices compare at memory speed."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def common_suffix(one: bytes, other: bytes, *, beyond: int = 0) -> int:
    """Count the trailing bytes that two byte strings share, leaving out the first `beyond` bytes that both have."""
    low, high = 0, min(len(one), len(other)) - beyond
    ends = len(one), len(other)
    if one[ends[0] - high :] == other[ends[1] - high :]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[ends[0] - middle : ends[0] - low] == other[ends[1] - middle : ends[1] - low]:
            low = middle
        else:
            high = middle
    return low

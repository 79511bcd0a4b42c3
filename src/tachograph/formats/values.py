"""Values: what tools, retrievals and externals take and return, as bytes and back.

Guarantees:

- `encode` never fails and never raises: what it cannot write becomes a `NotRestored` marker in its place, which holds
  the name of the type and a digest of its repr, whatever that repr does;
- `restore` gives back an equal value of the same types, or says in `lost` what is missing. An unknown class never
  comes back as a plain mapping (R15); a replay refuses to use a value of which anything was lost;
- equal inputs have equal bytes: the encoding is deterministic, sets are sorted by it, dicts keep their order. `1`,
  `1.0` and `True` are three values; NaN, infinities, -0.0, integers of any size and lone surrogates are exact;
- nothing is pickled and no constructor of the program is called: an object is made bare and given its state, and only
  if the class found under its name is of the recorded kind with the recorded fields (`value_classes`).

Version 1: a version byte, then one item. An item is a tag and, by tag, nothing, eight bytes, a length and bytes, a
count and items, or (capital letters) one item that holds the parts. Sharing inside a value is not kept;
a cycle is marked. Standard library only, and nothing heavy at import: it runs inside recorded programs.
"""

from __future__ import annotations

from struct import pack, unpack_from

from tachograph.errors import FormatError
from tachograph.formats.value_classes import importable_class, put_together, taken_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Node = tuple[str, Any]
    Put = Callable[[bytearray, Any, set[int]], None]

VERSION = 1
MOST_LEVELS = 64  # of nesting, the limit that JSON values have in a capture too
_MOST_BYTES = 64 << 20  # a value that shares its parts many times over may not fill the memory
_MOST_REPR = 1 << 20  # characters of a repr that the digest covers


class NotRestored:
    """A value that could not be written or made again. Equal if type and digest are; good for nothing else."""

    __slots__ = ("repr_digest", "type_name")

    def __init__(self, type_name: str, repr_digest: str) -> None:
        self.type_name = type_name
        self.repr_digest = repr_digest

    def __repr__(self) -> str:
        return f"NotRestored({self.type_name!r}, {self.repr_digest!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NotRestored):
            return NotImplemented
        return (self.type_name, self.repr_digest) == (other.type_name, other.repr_digest)

    def __hash__(self) -> int:
        return hash((self.type_name, self.repr_digest))


class Restored:
    """What `restore` made: the value, and each marker inside it. With `lost` empty, the value is as it was."""

    __slots__ = ("lost", "value")

    def __init__(self, value: Any, lost: tuple[NotRestored, ...]) -> None:
        self.value = value
        self.lost = lost


# --- writing ----------------------------------------------------------------------------------------------------------


def encode(value: object) -> bytes:
    """Return the bytes of any value; equal values of the same types have equal bytes."""
    out = bytearray((VERSION,))
    try:
        _put(out, value, set())
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001  # whatever a program's objects do or raise, recording goes on
        digest = _sha256(bytes(out[:_MOST_REPR]))
        out = bytearray((VERSION,))
        _put_marker(out, NotRestored(_type_name(type(value)), digest), set())
    return bytes(out)


class _TooLarge(BaseException):
    """The encoding has outgrown its limit: ends all of it, and not only the record in which it was noticed."""


def _put(out: bytearray, value: Any, inside: set[int]) -> None:
    put = _PUT.get(type(value))
    if put is not None:
        put(out, value, inside)
        return
    _nested(out, value, inside, _put_record)


def _nested(out: bytearray, value: Any, inside: set[int], put: Put) -> None:
    """Write something that holds other values: not inside itself, and not deeper than the limit."""
    if id(value) in inside or len(inside) >= MOST_LEVELS:
        _put_marker(out, NotRestored(_type_name(type(value)), _sha256(b"a cycle, or too deep")), inside)
        return
    if len(out) > _MOST_BYTES:
        raise _TooLarge
    inside.add(id(value))
    try:
        put(out, value, inside)
    finally:
        inside.discard(id(value))


def _length(out: bytearray, count: int) -> None:
    while count > 127:
        out.append(count & 127 | 128)
        count >>= 7
    out.append(count)


def _sized(out: bytearray, tag: int, data: bytes | bytearray) -> None:
    out.append(tag)
    _length(out, len(data))
    out += data


def _put_constant(tag: bytes) -> Put:
    def put(out: bytearray, _value: Any, _inside: set[int]) -> None:
        out += tag

    return put


def _put_bool(out: bytearray, value: bool, _inside: set[int]) -> None:
    out += b"t" if value else b"u"


def _put_int(out: bytearray, value: int, _inside: set[int]) -> None:
    _sized(out, 105, value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True))


def _put_float(out: bytearray, value: float, _inside: set[int]) -> None:
    out += b"j" + pack(">d", value)


def _put_complex(out: bytearray, value: complex, _inside: set[int]) -> None:
    out += b"k" + pack(">dd", value.real, value.imag)


def _put_str(out: bytearray, value: str, _inside: set[int]) -> None:
    _sized(out, 115, value.encode("utf-8", "surrogatepass"))


def _put_bytes(out: bytearray, value: bytes, _inside: set[int]) -> None:
    _sized(out, 121, value)


def _put_bytearray(out: bytearray, value: bytearray, _inside: set[int]) -> None:
    _sized(out, 122, bytes(value))


def _put_marker(out: bytearray, value: NotRestored, inside: set[int]) -> None:
    out += b"?"
    _put_str(out, value.type_name, inside)
    _put_str(out, value.repr_digest, inside)


def _container(tag: bytes) -> Put:
    def put(out: bytearray, value: Any, inside: set[int]) -> None:
        items = list(value)  # at once: another thread may be writing into it
        out += tag
        _length(out, len(items))
        for item in items:
            _put(out, item, inside)

    return lambda out, value, inside: _nested(out, value, inside, put)


def _sorted_container(tag: bytes) -> Put:
    def put(out: bytearray, value: Iterable[Any], inside: set[int]) -> None:
        parts: list[bytes] = []
        for item in list(value):
            part = bytearray()
            _put(part, item, inside)
            parts.append(bytes(part))
        out += tag
        _length(out, len(parts))
        out += b"".join(sorted(parts))

    return lambda out, value, inside: _nested(out, value, inside, put)


def _put_dict(out: bytearray, value: dict[Any, Any], inside: set[int]) -> None:
    items = list(value.items())
    out += b"m"
    _length(out, len(items))
    for key, member in items:
        _put(out, key, inside)
        _put(out, member, inside)


def _put_record(out: bytearray, value: Any, inside: set[int]) -> None:
    """Write an object by its parts; if it has none that can be read, or reading them fails, its marker."""
    start = len(out)
    try:
        apart = taken_apart(value)
        if apart is not None:
            out += apart[0].encode("ascii")
            _put(out, apart[1], inside)
            return
    except Exception:  # noqa: BLE001  # a hostile attribute is no reason to lose the rest of the value
        del out[start:]
    _put_marker(out, NotRestored(_type_name(type(value)), _repr_digest(value)), inside)


_PUT: dict[type, Put] = {
    type(None): _put_constant(b"n"), bool: _put_bool, int: _put_int, float: _put_float, complex: _put_complex,
    str: _put_str, bytes: _put_bytes, bytearray: _put_bytearray, NotRestored: _put_marker,
    list: _container(b"l"), tuple: _container(b"p"), set: _sorted_container(b"v"), frozenset: _sorted_container(b"w"),
    dict: lambda out, value, inside: _nested(out, value, inside, _put_dict),
}  # fmt: skip


def _type_name(kind: type) -> str:
    try:
        return f"{kind.__module__}:{kind.__qualname__}"
    except Exception:  # noqa: BLE001  # a metaclass may answer anything
        return "?:?"


def _repr_digest(value: Any) -> str:
    """Digest the repr without object addresses, which differ in every process."""
    try:
        text = repr(value)[:_MOST_REPR]
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # noqa: BLE001  # a repr may raise anything, our own miss among it
        return _sha256(b"no repr: " + type(fault).__name__.encode("utf-8", "replace"))
    head, *rest = text.split(" at 0x")
    text = head + "".join([" at 0x" + part.lstrip("0123456789abcdefABCDEF") for part in rest])
    return _sha256(text.encode("utf-8", "surrogatepass"))


def _sha256(data: bytes) -> str:
    from hashlib import sha256  # here and not above: most programs never meet a value that needs it

    return "sha256:" + sha256(data).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------


def restore(data: bytes, *, classes: Callable[[str, str], type | None] = importable_class) -> Restored:
    """Make the value again. `classes` finds a class by module and qualified name; None where it must not or cannot.

    Raises `FormatError` if the bytes are not what `encode` writes.
    """
    lost: list[NotRestored] = []
    value = _made(parse(data), classes, lost)
    return Restored(value, tuple(lost))


def decode(data: bytes) -> Any:
    """Return `restore(data).value`; markers stand where something was lost."""
    return restore(data).value


def parse(data: bytes) -> Node:
    """Return the items of an encoding as `(tag, content)`, without touching any class. Raises `FormatError`."""
    if data[:1] != bytes((VERSION,)):
        raise FormatError(f"value of unknown version {data[:1].hex() or 'none'}: a newer Tachograph wrote it", at=0)
    try:
        node, end = _parse(data, 1, 0)
    except (IndexError, ValueError, UnicodeDecodeError) as fault:
        raise FormatError(f"value does not parse: {fault}", at=len(data)) from None
    if end != len(data):
        raise FormatError(f"value has {len(data) - end} bytes too many", at=end)
    return node


def _parse(data: bytes, at: int, depth: int) -> tuple[Node, int]:
    tag = chr(data[at])
    at += 1
    if depth > 3 * MOST_LEVELS:  # a record takes a level for its parts and one for its state
        raise ValueError("nested too deeply")
    if tag in "ntu":
        return (tag, None), at
    if tag in "isyz":
        size, at = _parse_length(data, at)
        content = _slice(data, at, size)
        return (tag, content.decode("utf-8", "surrogatepass") if tag == "s" else content), at + size
    if tag == "j":
        return (tag, unpack_from(">d", _slice(data, at, 8))[0]), at + 8
    if tag == "k":
        return (tag, complex(*unpack_from(">dd", _slice(data, at, 16)))), at + 16
    if tag == "?":
        name, at = _parse(data, at, depth + 1)
        digest, at = _parse(data, at, depth + 1)
        if name[0] != "s" or digest[0] != "s":
            raise ValueError("a marker without its texts")
        return (tag, NotRestored(name[1], digest[1])), at
    if tag in "lpvwm":
        count, at = _parse_length(data, at)
        nodes: list[Node] = []
        for _ in range(count * 2 if tag == "m" else count):
            node, at = _parse(data, at, depth + 1)
            nodes.append(node)
        return (tag, nodes), at
    if not tag.isascii() or not tag.isalpha():
        raise ValueError(f"unknown tag {tag!r}")
    node, at = _parse(data, at, depth + 1)
    return (tag, node), at


def _parse_length(data: bytes, at: int) -> tuple[int, int]:
    count = shift = 0
    while data[at] > 127:
        count |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if shift > 56:
            raise ValueError("a length of more than 8 bytes")
    return count | data[at] << shift, at + 1


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError(f"cut short, {at + size - len(data)} bytes are missing")
    return data[at : at + size]


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "n": lambda _: None, "t": lambda _: True, "u": lambda _: False, "s": str, "y": bytes, "z": bytearray,
    "i": lambda data: int.from_bytes(data, "big", signed=True), "j": float, "k": complex,
}  # fmt: skip
_CONTAINERS: dict[str, type] = {"l": list, "p": tuple, "v": set, "w": frozenset}


def scalar(node: Node) -> Any:
    """Return the value of a node that holds no others and is no marker; raises KeyError for any other."""
    return _SCALARS[node[0]](node[1])


def _made(node: Node, classes: Callable[[str, str], type | None], lost: list[NotRestored]) -> Any:
    tag, content = node
    if tag in _SCALARS:
        return _SCALARS[tag](content)
    if tag == "?":
        lost.append(content)
        return content
    if tag in _CONTAINERS or tag == "m":
        parts: Any = [_made(one, classes, lost) for one in content]
    else:
        parts = _made(content, classes, lost)
    try:
        if tag == "m":
            return dict(zip(parts[::2], parts[1::2], strict=True))
        made = _CONTAINERS[tag](parts) if tag in _CONTAINERS else put_together(tag, parts, classes)
    except Exception:  # noqa: BLE001  # a class that changed since may fail in any way, a hash of its own too
        made = None
    if made is None:
        made = NotRestored(_named_in(parts), _sha256(repr(content).encode("utf-8", "backslashreplace")))
        lost.append(made)
    return made


def _named_in(parts: Any) -> str:
    names = parts[:2] if type(parts) is tuple else ()
    return ":".join([name for name in names if type(name) is str]) or "?:?"

"""Canonical JSON: the one way of writing a value (RFC 8785), and the digests made of it.

Guarantees:

- `canonical` writes what RFC 8785 demands, byte for byte, or raises `NotCanonical`;
- it refuses every value that would not come back as it was: NaN and infinities, integers beyond 2^53-1 (whole floats
  that would be written as such, too), -0.0, lone surrogates, keys that are no text, more than 64 levels, and types that
  JSON has not. Such a value stands in a capture as a blob of its exact bytes (capture-v1 rule 1): nothing is rounded;
- `read_exact` is the same question asked of JSON bytes: it gives a value only if every number in it is written as
  RFC 8785 would write it (`1.10`, `1e2`, `-0` are not) and no key stands twice, so that `canonical` of what it returns
  loses nothing but spacing, key order and escapes.

rfc8785 is exact and slow (16 MB/s); orjson is used for documents on which a walk shows that both write the same bytes.
No clock, randomness, network or disk.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import orjson
import rfc8785

from tachograph.errors import TachographError

MOST_LEVELS = 64
_MOST = 2**53 - 1  # beyond it, a reader that keeps numbers as doubles no longer has every integer (RFC 8785, I-JSON)


_SHORT = 2048  # bytes


class NotCanonical(TachographError):
    """This value has no RFC 8785 form that gives it back; `reason` says why. Keep its exact bytes instead."""

    code = "not_canonical"

    def __init__(self, reason: str) -> None:
        super().__init__(f"no canonical JSON ({reason}): keep the exact bytes instead")
        self.reason = reason


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 form of a JSON value: None, bool, int, float, str, list or tuple, dict with text keys."""
    if _check(value, MOST_LEVELS):
        written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        # orjson gives a short text in a block of 4 KB, and a document has tens of thousands of them.
        return bytes(memoryview(written)) if len(written) < _SHORT else written
    return rfc8785.dumps(value)


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as `sha256:` and 64 lower-case hexadecimal digits."""
    return "sha256:" + sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Return the digest of a value's RFC 8785 form."""
    return digest(canonical(value))


def read_exact(data: bytes) -> Any:
    """Return the value of JSON bytes if RFC 8785 would write all its numbers and keys as they stand here."""
    try:
        value = _DECODER.decode(data.decode("utf-8"))
    except (ValueError, RecursionError) as fault:
        reason = f"more than {MOST_LEVELS} levels" if isinstance(fault, RecursionError) else str(fault)
        raise NotCanonical(reason) from None
    _check(value, MOST_LEVELS)
    return value


def _check(value: Any, levels: int) -> bool:
    """Raise `NotCanonical` where there is no exact form; say whether orjson writes the same bytes as rfc8785.

    It does if all keys are ASCII (elsewhere UTF-8 and UTF-16 sort differently) and all floats have a fraction and are
    neither tiny nor huge (elsewhere the two notations differ).
    """
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_text(value)
    if kind is int:
        if not -_MOST <= value <= _MOST:
            raise NotCanonical("an integer beyond 2^53-1")
        return True
    if kind is dict:
        return _check_dict(value, levels)
    if kind is list or kind is tuple:
        if levels == 0:
            raise NotCanonical(f"more than {MOST_LEVELS} levels")
        same = True
        for item in value:
            same &= _check(item, levels - 1)
        return same
    if kind is float:
        return _check_float(value)
    if value is None or kind is bool:
        return True
    raise NotCanonical(f"a {kind.__name__} is no JSON value")


def _check_dict(value: dict[Any, Any], levels: int) -> bool:
    if levels == 0:
        raise NotCanonical(f"more than {MOST_LEVELS} levels")
    same = True
    for key, member in value.items():
        if type(key) is not str:
            raise NotCanonical(f"a key that is a {type(key).__name__}")
        if not key.isascii():
            same = False
            _is_text(key)
        same &= _check(member, levels - 1)
    return same


def _check_float(value: float) -> bool:
    size = abs(value)
    if value == 0 and str(value) == "-0.0":
        raise NotCanonical("-0")
    if not size < float("inf"):
        raise NotCanonical(str(value))
    if _MOST < size < 1e21:  # from 2^53 on every double is whole, and below 1e21 it is written without an exponent
        raise NotCanonical("a whole number beyond 2^53-1")
    return 1e-4 <= size < 1e15 and not value.is_integer()


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise NotCanonical("a lone surrogate") from None
    return True


def _exact_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotCanonical("a key twice in one object")
    return members


def _exact_int(text: str) -> int:
    if text == "-0":
        raise NotCanonical(text)
    return int(text)  # `_check` refuses those that are too large


def _exact_float(text: str) -> float:
    value = float(text)
    _check_float(value)
    if rfc8785.dumps(value) != text.encode("ascii"):
        raise NotCanonical(f"the number {text}")
    return value


def _no_constant(text: str) -> Any:
    raise NotCanonical(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_exact_object, parse_int=_exact_int, parse_float=_exact_float, parse_constant=_no_constant
)

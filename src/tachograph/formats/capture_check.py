"""A document that somebody gave us, compared with the payload that was signed (capture-v1 rule 3).

The payload's signature was checked before; the document, its salts and its blobs are anybody's. Guarantees:

- a value is believed only as its commitment opens: without one, or without its salt, or of another kind, it is a
  mismatch, named by its pointer;
- the skeleton must be the one that was signed, member for member; nothing stands beside skeleton and items.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from tachograph.canonical import NotCanonical, canonical
from tachograph.formats.capture_places import DERIVED, PLACES
from tachograph.formats.capture_v1 import (
    BLOB,
    TREE,
    Divided,
    Item,
    commitment,
    divide,
    escaped,
    is_digest,
    names_of,
)

INTACT, MISMATCH, MISSING = "intact", "mismatch", "missing"
_SALT = re.compile(r"[0-9a-f]{32}\Z")
_COMMITMENT = re.compile(r"(text|json|blob|tree) sha256:[0-9a-f]{64}\Z")


@dataclass
class Examined:
    """A document compared with its payload: per committed pointer its state, and every fault with its place."""

    states: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def examine(
    signed: Mapping[str, Any], document: Mapping[str, Any], *, salts: Mapping[str, Any], blobs: Mapping[str, bytes]
) -> Examined:  # fmt: skip
    """Compare a document with the payload that was signed.

    `salts` by pointer; `blobs` by the 64 digits of their SHA-256. Content that is not there is `missing`: whether that
    is a fault is for whoever knows what was withheld or erased.
    """
    out = Examined()
    committed = signed.get("commitments")
    if not isinstance(committed, dict):
        out.faults.append("/commitments: the payload has none")
        return out
    kinds = {pointer: said.partition(" ")[0] for pointer, said in committed.items() if _is_commitment(pointer, said)}
    for pointer in committed.keys() - kinds.keys():
        out.states[pointer] = MISMATCH
        out.faults.append(f"{pointer}: its commitment is not one of kind and digest")
    divided = _divided_as_given(document, kinds, blobs, out)
    given = {item.pointer: item for item in divided.items}
    _compare_skeletons(signed, divided, kinds, out)
    for pointer in given:
        if pointer not in committed:
            out.faults.append(f"{pointer}: content without a commitment")
            out.states[pointer] = MISMATCH
    for pointer, kind in kinds.items():
        out.states[pointer] = _state(pointer, kind, committed[pointer], given.get(pointer), salts.get(pointer), out)
    for pointer in salts.keys() - committed.keys():
        out.faults.append(f"{pointer}: a salt without a commitment")
    return out


def _is_commitment(pointer: Any, said: Any) -> bool:
    return isinstance(pointer, str) and isinstance(said, str) and _COMMITMENT.match(said) is not None


def _divided_as_given(
    document: Mapping[str, Any], kinds: Mapping[str, str], blobs: Mapping[str, bytes], out: Examined
) -> Divided:
    """Divide a document whose blobs and trees are told by the payload's kinds, and check its plain digests."""
    bytes_of: dict[str, bytes] = {}
    heads: dict[str, bytes] = {}
    for pointer, kind in kinds.items():
        if kind not in (BLOB, TREE):
            continue
        stands = _at(document, pointer)
        if not is_digest(stands):
            continue  # not there, or not a digest: found below as missing or as another kind
        digits = stands[7:]
        if kind == TREE:
            heads[pointer] = bytes.fromhex(digits)
        elif digits in blobs:
            bytes_of[pointer] = blobs[digits]
    divided = divide(document, bytes_of, heads, kinds)
    given = {item.pointer: item for item in divided.items}
    for pointer, name, said in _plain_digests(document):
        of = f"{pointer}/{DERIVED[name]}"
        item = given.get(of)
        if item is None and not is_digest(_at(document, of)):
            out.faults.append(f"{pointer}/{name}: a digest of nothing that is here")
        elif item is not None and said != item.digest:
            out.faults.append(f"{pointer}/{name}: not the digest of {DERIVED[name]}")
    return divided


def _plain_digests(value: Any, at: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every plain digest that stands beside a field, in the objects of the closed list."""
    for pointer, places, member in _objects(value, PLACES, at):
        for name, of in DERIVED.items():
            if of in places and name in member:
                yield pointer, name, member[name]


def _objects(value: Any, places: Any, at: str) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    if isinstance(places, dict) and isinstance(value, Mapping):
        yield at, places, value
        for name, member in value.items():
            yield from _objects(member, places.get(name), f"{at}/{escaped(name)}")
    elif isinstance(places, list) and isinstance(value, list):
        for number, member in enumerate(value):
            yield from _objects(member, places[0], f"{at}/{number}")


def _compare_skeletons(signed: Mapping[str, Any], divided: Divided, kinds: Mapping[str, str], out: Examined) -> None:
    expected = {name: member for name, member in signed.items() if name != "commitments"}
    try:
        same = canonical(expected) == canonical(divided.skeleton)
    except NotCanonical as fault:
        out.faults.append(f"/: the skeleton has no canonical form ({fault.reason})")
        return
    if not same:
        out.faults.append(f"{_first_difference(expected, divided.skeleton)}: not what was signed")


def _first_difference(expected: Any, found: Any, at: str = "") -> str:
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            if name not in expected or name not in found:
                return f"{at}/{escaped(name)}"
            if _differ(expected[name], found[name]):
                return _first_difference(expected[name], found[name], f"{at}/{escaped(name)}")
    if isinstance(expected, list) and isinstance(found, list):
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            if _differ(one, other):
                return _first_difference(one, other, f"{at}/{number}")
    return at or "/"


def _differ(one: Any, other: Any) -> bool:
    return canonical(one) != canonical(other)  # and not `!=`, to which True is 1


def _state(pointer: str, kind: str, said: str, item: Item | None, salt: Any, out: Examined) -> str:
    if item is None:
        return MISSING
    fault = None
    if item.kind != kind:
        fault = f"{pointer}: {item.kind} where {kind} was committed"
    elif salt is None:
        fault = f"{pointer}: no salt"
    elif not isinstance(salt, str) or not _SALT.match(salt):
        fault = f"{pointer}: a salt is 32 lower-case hexadecimal digits"
    elif not compare_digest(commitment(item, salt), said):
        fault = f"{pointer}: not what was committed"
    if fault is None:
        return INTACT
    out.faults.append(fault)
    return MISMATCH


def _at(value: Any, pointer: str) -> Any:
    for name in names_of(pointer):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value

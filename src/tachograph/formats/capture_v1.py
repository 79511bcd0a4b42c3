"""A `replay/v1` document taken apart and put together: signed skeleton, committed content (capture-v1 rules 1, 3, 4).

`divide` splits a document into its skeleton and its items by the closed list of places; `commitment` binds one item to
its pointer; `payload` is what is signed; `fill` puts content back in its places. `formats.capture_check` compares what
somebody gave us with what was signed. Guarantees:

- no input makes a document unsealable: a skeleton value of a form that rule 3 does not allow becomes content, and
  `evidenceStates` says `unavailable`, `invalid`; a key outside `[A-Za-z0-9_-]{1,64}` stands as `x-<n>`;
- nothing is rounded: what has no exact RFC 8785 form is committed as the bytes it was given with.

Pure. The one ASCII line of rule 3 is built in `commitment` and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import digest as hmac_digest
from typing import Any, NamedTuple

from tachograph.canonical import NotCanonical, canonical, digest
from tachograph.formats.capture_places import (
    ADDED,
    CODE,
    CONTENT,
    DERIVED,
    EACH,
    NUMERIC,
    OF_BYTES,
    PLACES,
    SKELETON,
)

TEXT, JSON, BLOB, TREE = "text", "json", "blob", "tree"
LONGEST = 1024  # bytes of a skeleton string
_MOST = 2**53 - 1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_CODE = re.compile(r"[a-z][a-z0-9_:]{0,63}\Z")
_PHRASES = frozenset(("capture level structured",))  # the contract's own words (rule 6)
_LINE = "tachograph-commit-v1 {} {} {} {}"
INVALID = {"state": "unavailable", "provenance": "observed", "reason": "invalid"}


class Item(NamedTuple):
    """One content value: where it stands, its kind, and the exact bytes that its digest covers.

    Of a `tree`, `data` is the 32-byte head itself. Of a large blob only the digest may be at hand: then it is `ready`.
    """

    pointer: str
    kind: str
    data: bytes = b""
    ready: str = ""

    @property
    def digest(self) -> str:
        """`sha256:` and 64 digits: of the bytes, of a tree the head itself."""
        if self.ready:
            return self.ready
        return f"sha256:{self.data.hex()}" if self.kind == TREE else digest(self.data)


@dataclass
class Divided:
    """A document taken apart. `evidence` are states that dividing added, by pointer."""

    skeleton: dict[str, Any] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    evidence: dict[str, dict[str, str]] = field(default_factory=dict)


def salt_of(secret: bytes, pointer: str) -> str:
    """Return an item's salt: 32 hexadecimal digits, the first 16 bytes of HMAC-SHA256(secret, pointer)."""
    return hmac_digest(secret, pointer.encode(), "sha256")[:16].hex()


def commitment(item: Item, salt: str) -> str:
    """Return `<kind> sha256:<hex>`, the SHA-256 of the one line that rule 3 gives."""
    line = _LINE.format(item.kind, item.pointer, salt, item.digest)
    return f"{item.kind} sha256:{sha256(line.encode('ascii')).hexdigest()}"


def commitments(items: list[Item], secret: bytes) -> dict[str, str]:
    """Return every item's commitment under salts drawn from the decision's secret."""
    return {item.pointer: commitment(item, salt_of(secret, item.pointer)) for item in items}


def payload(skeleton: Mapping[str, Any], committed: Mapping[str, str]) -> bytes:
    """Return what is signed: the RFC 8785 form of skeleton and commitments (rule 4)."""
    return canonical({**skeleton, "commitments": dict(committed)})


# -- taking apart


def divide(
    document: Mapping[str, Any], blobs: Mapping[str, bytes | str], trees: Mapping[str, bytes],
    kinds: Mapping[str, str] | None = None,
) -> Divided:  # fmt: skip
    """Split a document. `blobs` and `trees` hold, by pointer, the bytes for which a digest stands in the document.

    Of a large blob the digest alone (`sha256:` and 64 digits) will do.

    `kinds` says, of a document that comes with a payload, which places are committed, and as what.
    """
    out = Divided()
    walker = _Walker(blobs, trees, out, kinds or {})
    if "evidenceStates" in document and type(document["evidenceStates"]) is not dict:
        document = {**document, "x-evidenceStates": document["evidenceStates"], "evidenceStates": {}}
    skeleton = walker.members(document, PLACES, "")
    if out.evidence:  # said in the skeleton itself, where it does not say more of that place already
        states = skeleton.setdefault("evidenceStates", {})
        for pointer, state in out.evidence.items():
            states.setdefault(pointer, state)
    out.skeleton = skeleton
    return out


class _Walker:
    def __init__(
        self, blobs: Mapping[str, bytes | str], trees: Mapping[str, bytes], out: Divided, kinds: Mapping[str, str]
    ) -> None:  # fmt: skip
        self.blobs, self.trees, self.out, self.kinds = blobs, trees, out, kinds

    def members(self, value: Mapping[str, Any], places: Mapping[str, Any], at: str) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        odd: list[str] = []
        for name, member in value.items():
            if name in DERIVED and DERIVED[name] in value and DERIVED[name] in places:
                continue
            if name == OF_BYTES and member == "bytes" and self.any_blob(at):
                continue
            if not at and name in ADDED:
                continue
            place = places.get(name)
            if place is None:
                place = places.get(EACH, CONTENT)
            if not _NAME.match(name) and not (name.startswith("/") and name.isascii() and EACH in places):
                odd.append(name)
                continue
            self.member(kept, name, member, place, f"{at}/{escaped(name)}")
        number = 0
        for name in sorted(odd, key=lambda name: name.encode("utf-8", "surrogatepass")):
            while f"x-{number}" in value:
                number += 1
            self.content(f"{at}/x-{number}", {name: value[name]})
            number += 1
        return kept

    def any_blob(self, at: str) -> bool:
        places = [f"{at}/{name}" for name in _OF_BYTES]
        return any(place in self.blobs or self.kinds.get(place) == BLOB for place in places)

    def member(self, kept: dict[str, Any], name: str, value: Any, place: Any, pointer: str) -> None:
        if pointer in self.blobs or pointer in self.trees or pointer in self.kinds:
            pass
        elif type(place) is dict:
            if type(value) is dict:
                kept[name] = self.members(value, place, pointer)
                return
        elif type(place) is list:
            if type(value) is list and all(type(one) is dict for one in value):
                kept[name] = [self.members(one, place[0], f"{pointer}/{n}") for n, one in enumerate(value)]
                return
        elif _is_kept(place, value):
            kept[name] = value
            return
        elif place == SKELETON:
            self.out.evidence[pointer] = INVALID
        self.content(pointer, value)

    def content(self, pointer: str, value: Any) -> None:
        if pointer in self.blobs:
            blob = self.blobs[pointer]
            made = Item(pointer, BLOB, ready=blob) if isinstance(blob, str) else Item(pointer, BLOB, blob)
            self.out.items.append(made)
        elif pointer in self.trees:
            self.out.items.append(Item(pointer, TREE, self.trees[pointer]))
        elif self.kinds.get(pointer) not in (BLOB, TREE) or not is_digest(value):
            self.out.items.append(item_of(pointer, value))


_OF_BYTES = ("requestPayload", "input", "output", "toolSchemaJson")
"""Fields whose plain digest may be one of exact bytes, and then says so."""


def is_digest(value: Any) -> bool:
    """Whether a value is `sha256:` and 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and re.fullmatch(r"sha256:[0-9a-f]{64}", value) is not None


def item_of(pointer: str, value: Any) -> Item:
    """Return a value as an item: text, else JSON, else, where neither gives it back exactly, its bytes."""
    if type(value) is str:
        try:
            return Item(pointer, TEXT, value.encode())
        except UnicodeEncodeError:
            return Item(pointer, BLOB, value.encode("utf-8", "surrogatepass"))
    try:
        return Item(pointer, JSON, canonical(value))
    except (NotCanonical, ValueError, RecursionError):
        return Item(pointer, BLOB, _written(value))


def _written(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=True).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        return repr(type(value)).encode()


def _is_kept(place: str, value: Any) -> bool:
    if place == SKELETON:
        return is_skeleton(value)
    if place == NUMERIC:
        return type(value) is not str and type(value) in (int, float, bool) and is_skeleton(value)
    if place == CODE:
        return type(value) is str and (value in _PHRASES or _CODE.match(value) is not None)
    return False


def is_skeleton(value: Any, levels: int = 8) -> bool:
    """Whether a value has a form that may stand in the skeleton (rule 3)."""
    kind = type(value)
    if kind is str:
        try:
            return len(value.encode()) <= LONGEST
        except UnicodeEncodeError:
            return False
    if kind is int:
        return bool(-_MOST <= value <= _MOST)
    if kind is float:
        try:
            canonical(value)
        except NotCanonical:
            return False
        return True
    if kind is dict:
        return levels > 0 and all(
            type(key) is str and key.isascii() and is_skeleton(member, levels - 1) for key, member in value.items()
        )
    if kind is list:
        return levels > 0 and all(is_skeleton(member, levels - 1) for member in value)
    return value is None or kind is bool


# -- putting together


def fill(skeleton: Mapping[str, Any], items: Mapping[str, Item]) -> dict[str, Any]:
    """Return the document: the skeleton with items in their places, each with its plain digest beside it.

    The skeleton may be a whole payload. Items that are not given leave their places out.
    """
    document: dict[str, Any] = _copied(skeleton)
    for pointer, item in items.items():
        names = names_of(pointer)
        holder: Any = document
        for name in names[:-1]:
            holder = holder[int(name)] if isinstance(holder, list) else holder.setdefault(name, {})
        name = names[-1]
        holder[name] = shown(item)
        if name in _DIGEST_OF and len(names) > 1:
            beside = _DIGEST_OF[name]
            holder[beside] = item.digest
            if item.kind == BLOB and name in _OF_BYTES:
                holder[OF_BYTES] = "bytes"
    return document


_DIGEST_OF = {field_: digest_ for digest_, field_ in DERIVED.items()}


def shown(item: Item) -> Any:
    """Return what stands in an item's place: the text, the JSON value, or the digest of the bytes or the tree."""
    if item.kind == TEXT:
        return item.data.decode()
    if item.kind == JSON:
        return json.loads(item.data)
    return item.digest


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_copied(member) for member in value]
    return value


def names_of(pointer: str) -> list[str]:
    """Return the member names and list places of a JSON pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def escaped(name: str) -> str:
    """Return a member name as it stands in a JSON pointer (RFC 6901, section 3)."""
    return name.replace("~", "~0").replace("/", "~1") if "/" in name or "~" in name else name

"""A journal record: what was sealed, where its content lies, and which spool frames it was made from.

A record is typed fields, each a type, a length and bytes. Invariants:

- a type, once given, keeps its meaning for ever; a reader passes over types that it does not know, so that the fields
  of later parts (signature, log position) need no new format;
- the payload comes back byte for byte: it is what will have been signed;
- payload and summary are compressed together, against an earlier record of the same file: the skeletons of one store
  are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import zstandard

from tachograph.errors import DamagedStore
from tachograph.store.domains import ID_SIZE
from tachograph.store.segments import Place
from tachograph.store.summary import Summary
from tachograph.store.summary import unpack as unpack_summary

CAPTURE, ADDENDUM, RUN = 1, 2, 3  # what a record is about; RUN: what belongs to a run and to no one decision
STATEMENT = 4  # a signed statement of the store itself (a key, an export, a hold): no decision's

# Types of fields. Repeated ones are lists.
_SEQUENCE, _KIND, _DECISION, _RUN, _DOMAIN, _PLACE, _SOURCE = 1, 2, 3, 4, 5, 6, 7
_TEXTS, _TEXTS_AFTER_FIRST = 8, 9
_PAYLOAD_DIGEST, _SIGNATURE, _LEAF = 10, 11, 12
_COMMITTED, _TEXTS_ALIKE = 13, 14
_COMMITMENT_KINDS = ("text", "json", "blob", "tree")
LONGEST_DICTIONARY = 1 << 16
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}


class Source(NamedTuple):
    """The frames of a spool file that a decision was made from: numbers `first` to `last`, both included."""

    spool: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the sealer writes down of one decision.

    `payload` is the RFC 8785 form of the skeleton, without what can be rebuilt bit for bit (`previous`, commitments).
    `payload_digest` (32 bytes) is that of the whole, signed payload, and worked out where it is not given. `signature`
    and `leaf` (position in the log) are empty in records of stores that did not sign yet. `committed` holds, by
    pointer, the commitments that were written out because their content cannot be read from this record's places.
    """

    decision: str
    run: str
    domain: bytes
    payload: bytes
    summary: Summary
    places: tuple[Place, ...] = ()
    sources: tuple[Source, ...] = ()
    kind: int = CAPTURE
    payload_digest: bytes = b""
    signature: bytes = b""
    leaf: int | None = None
    committed: dict[str, str] = field(default_factory=dict)

    @cached_property
    def texts(self) -> bytes:
        """Payload and summary as they are compressed."""
        return len(self.payload).to_bytes(4, "little") + self.payload + self.summary.pack()


class Compression:
    """How the texts of one journal file are compressed: its first record by itself, all others against it.

    Decisions and runs are alike, and unlike the statements that a store begins with: from the second on they are
    compressed against the file's first one.
    """

    def __init__(self) -> None:
        self._first: _Against | None = None
        self._like: _Against | None = None

    @property
    def empty(self) -> bool:
        """Whether the file has no first record yet."""
        return self._first is None

    def begin(self, texts: bytes) -> None:
        """Take the first record's texts as what later ones are like."""
        self._first = _Against(texts)

    def learn(self, texts: bytes) -> None:
        """Take these texts, of the first decision or run, as what later ones are like."""
        self._like = self._like or _Against(texts)

    def pack(self, texts: bytes, *, statement: bool = False) -> tuple[int, bytes]:
        """Return the field for these texts. The first ones of a file become what later ones are compared with."""
        if self._first is None:
            self.begin(texts)
            packed = _TEXTS, zstandard.ZstdCompressor(level=3).compress(texts)
        elif statement or self._like is None:
            packed = _TEXTS_AFTER_FIRST, self._first.compressor.compress(texts)
        else:
            packed = _TEXTS_ALIKE, self._like.compressor.compress(texts)
        if not statement:
            self.learn(texts)
        return packed

    def unpack(self, type: int, packed: bytes) -> bytes:
        """Undo `pack`. Raises DamagedStore."""
        against = {_TEXTS_AFTER_FIRST: self._first, _TEXTS_ALIKE: self._like}
        try:
            if type == _TEXTS:
                return zstandard.ZstdDecompressor().decompress(packed)
            known = against[type]
            if known is not None:
                return known.decompressor.decompress(packed)
        except zstandard.ZstdError as fault:
            raise DamagedStore(f"a journal record's texts do not decompress: {fault}") from fault
        raise DamagedStore("a journal record refers to an earlier one of its file, which is not there")


class _Against:
    """What others are compressed against."""

    def __init__(self, texts: bytes) -> None:
        known = zstandard.ZstdCompressionDict(texts[:LONGEST_DICTIONARY], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        self.compressor = zstandard.ZstdCompressor(level=3, dict_data=known)
        self.decompressor = zstandard.ZstdDecompressor(dict_data=known)


def pack(entry: Entry, sequence: int, compression: Compression) -> bytes:
    """Return a record's fields, without its digest."""
    fields = [
        (_SEQUENCE, _number(sequence)),
        (_KIND, bytes((entry.kind,))),
        (_DECISION, pack_id(entry.decision)),
        (_DOMAIN, entry.domain),
    ]
    if not _same_ulid(entry.decision, entry.run):
        fields.append((_RUN, pack_id(entry.run)))
    fields += [(_PLACE, bytes.fromhex(place.segment) + _number(place.item)) for place in entry.places]
    for source in entry.sources:
        own = source.spool.startswith(entry.run)
        name = source.spool[len(entry.run) :] if own else source.spool
        packed = _varint(source.first) + _varint(source.last - source.first) + bytes((own,)) + name.encode()
        fields.append((_SOURCE, packed))
    fields.append(compression.pack(entry.texts, statement=entry.kind == STATEMENT))
    if entry.payload_digest and entry.payload_digest != sha256(entry.payload).digest():
        fields.append((_PAYLOAD_DIGEST, entry.payload_digest))
    if entry.signature:
        fields.append((_SIGNATURE, entry.signature))
    if entry.leaf is not None:
        fields.append((_LEAF, _number(entry.leaf)))
    for pointer, said in sorted(entry.committed.items()):
        kind, _, digits = said.partition(" sha256:")
        packed = bytes((_COMMITMENT_KINDS.index(kind),)) + bytes.fromhex(digits) + pointer.encode()
        fields.append((_COMMITTED, packed))
    return b"".join([bytes((type,)) + _varint(len(value)) + value for type, value in fields])


class Fields(NamedTuple):
    """A record's fields, the texts still packed."""

    sequence: int
    kind: int
    decision: str
    run: str
    domain: bytes
    places: tuple[Place, ...]
    sources: tuple[Source, ...]
    texts: tuple[int, bytes]
    payload_digest: bytes
    signature: bytes
    leaf: int | None
    committed: dict[str, str]

    def entry(self, compression: Compression) -> Entry:
        """Return the whole entry. Raises DamagedStore."""
        texts = compression.unpack(*self.texts)
        length = int.from_bytes(texts[:4], "little")
        payload = texts[4 : 4 + length]
        return Entry(
            decision=self.decision,
            run=self.run,
            domain=self.domain,
            payload=payload,
            summary=unpack_summary(texts[4 + length :]),
            places=self.places,
            sources=self.sources,
            kind=self.kind,
            payload_digest=self.payload_digest or sha256(payload).digest(),
            signature=self.signature,
            leaf=self.leaf,
            committed=self.committed,
        )


def unpack(body: bytes) -> Fields:
    """Read a record's fields. Raises DamagedStore where they do not parse."""
    single: dict[int, bytes] = {}
    places: list[Place] = []
    packed_sources: list[bytes] = []
    committed: dict[str, str] = {}
    try:
        for type, value in _fields(body):
            if type == _PLACE:
                places.append(Place(value[:16].hex(), int.from_bytes(value[16:], "little")))
            elif type == _SOURCE:
                packed_sources.append(value)
            elif type == _COMMITTED:
                committed[value[33:].decode()] = f"{_COMMITMENT_KINDS[value[0]]} sha256:{value[1:33].hex()}"
            else:
                single[type] = value
        decision = unpack_id(single[_DECISION])
        run = unpack_id(single[_RUN]) if _RUN in single else "run_" + decision.partition("_")[2]
        texts = next((type, single[type]) for type in (_TEXTS, _TEXTS_AFTER_FIRST, _TEXTS_ALIKE) if type in single)
        domain = single[_DOMAIN]
        if len(domain) != ID_SIZE:
            raise ValueError("a domain of another size")
        return Fields(
            int.from_bytes(single[_SEQUENCE], "little"),
            single[_KIND][0],
            decision,
            run,
            domain,
            tuple(places),
            tuple(_source(packed, run) for packed in packed_sources),
            texts,
            single.get(_PAYLOAD_DIGEST, b""),
            single.get(_SIGNATURE, b""),
            int.from_bytes(single[_LEAF], "little") if _LEAF in single else None,
            committed,
        )
    except (LookupError, ValueError, StopIteration) as fault:
        raise DamagedStore(f"a journal record does not parse: {type_name(fault)} {fault}") from fault


def type_name(fault: BaseException) -> str:
    """Return the class name of an exception, for messages."""
    return type(fault).__name__


def _fields(body: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(body):
        type = body[at]
        length, at = _read_varint(body, at + 1)
        value = body[at : at + length]
        if len(value) != length:
            raise ValueError(f"field {type} ends early")
        yield type, value
        at += length


def _source(packed: bytes, run: str) -> Source:
    first, at = _read_varint(packed, 0)
    more, at = _read_varint(packed, at)
    name = packed[at + 1 :].decode()
    return Source(run + name if packed[at] else name, first, first + more)


def _number(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 7) // 8, "little")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _same_ulid(decision: str, run: str) -> bool:
    return decision.startswith("dec_") and run == "run_" + decision[4:]


def pack_id(text: str) -> bytes:
    """Return an id's bytes: 16 for the ULID and its prefix, or the text itself where it is no id of that form."""
    prefix, _, ulid = text.partition("_")
    if len(ulid) == 26 and ulid[0] <= "7" and all(letter in _VALUES for letter in ulid):
        number = 0
        for letter in ulid:
            number = number << 5 | _VALUES[letter]
        return b"\x01" + number.to_bytes(16, "big") + prefix.encode()
    return b"\x00" + text.encode()


def unpack_id(packed: bytes) -> str:
    """Undo `pack_id`."""
    if packed[:1] == b"\x00":
        return packed[1:].decode()
    number = int.from_bytes(packed[1:17], "big")
    letters = [_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)]
    return f"{packed[17:].decode()}_{''.join(letters)}"

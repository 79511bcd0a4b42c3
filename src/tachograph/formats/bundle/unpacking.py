"""A member's content out of a bundle: counted while it is inflated, so that no small file becomes a large one.

Guarantees: never more than the stated size is made, never more than 200 bytes of one that is packed, and all that was
packed is used; the checksum fits. Source of the limits: evidence.md, "Reader".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tachograph.formats.bundle.refused import BundleRefused
from tachograph.formats.bundle.structure import STORED, Entry

MOST_RATIO = 200
_PIECE = 1 << 18
_FED = 1 << 16  # packed bytes that are given to zlib at once: it copies what it has not used


def content(data: bytes, entry: Entry) -> Iterator[bytes]:
    """Yield a member's content in pieces. Raises BundleRefused; what came before that is then not to be used."""
    crc = made = 0
    for piece in _pieces(data, entry):
        made += len(piece)
        if made > entry.size:
            raise _refused(entry, "more than its header states", "size")
        if entry.method != STORED and made > MOST_RATIO * entry.packed:
            raise _refused(entry, f"it becomes over {MOST_RATIO} times as large", "ratio")
        crc = zlib.crc32(piece, crc)
        yield piece
    if made != entry.size:
        raise _refused(entry, "less than its header states", "size")
    if crc != entry.crc:
        raise _refused(entry, "its checksum is another", "checksum")


def _pieces(data: bytes, entry: Entry) -> Iterator[bytes]:
    view = memoryview(data)[entry.begins : entry.begins + entry.packed]
    if entry.method == STORED:
        for at in range(0, len(view), _PIECE):
            yield bytes(view[at : at + _PIECE])
        return
    machine = zlib.decompressobj(-zlib.MAX_WBITS)
    for at in range(0, len(view), _FED):
        if machine.eof:
            raise _refused(entry, "bytes behind what is packed", "inflate")
        waiting: bytes | memoryview = view[at : at + _FED]
        while len(waiting) and not machine.eof:
            try:
                piece = machine.decompress(waiting, _PIECE)
            except zlib.error as fault:
                raise _refused(entry, f"it does not inflate ({fault})", "inflate") from None
            waiting = machine.unconsumed_tail
            if piece:
                yield piece
    while not machine.eof and (piece := machine.decompress(b"", _PIECE)):  # what the last call had no room for
        yield piece
    if not machine.eof:
        raise _refused(entry, "it does not inflate (cut short)", "inflate")
    if machine.unused_data:
        raise _refused(entry, "bytes behind what is packed", "inflate")


def _refused(entry: Entry, what: str, reason: str) -> BundleRefused:
    return BundleRefused(what, reason=reason, member=entry.name, at=entry.begins)

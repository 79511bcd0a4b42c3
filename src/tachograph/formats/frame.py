"""Frames: what a seam hands over, in binary, and how a run of them is written down.

A frame is a 30-byte header, the draws that happened since the frame before it, and a payload whose layout its kind
decides. The same bytes are a spool record (encrypted, one per write), a part of a stored *log* (length-prefixed, in
time order) and a part of the tape that a replay reads. Invariants:

- version 1 of the layout is fixed: a kind may be added, none may change its meaning (`formats/upgrades` would convert);
- numbers in a header (effect, path, decision, site) are local to one process in a spool and to one run in a log;
- a payload holds exact bytes: no text is decoded, no JSON is parsed on the way in.

Binary because JSON metadata costs 6 us a frame and a packed header 0.2 (DESIGN section 4). Standard library only, and
cheap to import: this runs inside recorded programs.
"""

from __future__ import annotations

from itertools import chain
from struct import Struct, error

from tachograph.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

VERSION = 1

HEADER = Struct("<BBIIIIQI")  # kind, flags, decision, effect, path, parent, at_ns, length of the draws section
LENGTH = Struct("<I")
_DRAW = Struct("<IIBI")  # site, path, value tag, length of the value
_FLOAT_DRAW = Struct("<IIBId")
_SLEEP = Struct("<dQI")  # seconds asked for, nanoseconds since then, the nth wait at its place
_MOST_LEVELS = 16  # of tuples in tuples in a draw; a seam packs one

# What a frame says. Run and process:
RUN, PROCESS, PATH, SITE, STREAM, ENDED, NOTE, DRAWS, ABOUT, AROUND = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
# An effect over HTTP, and the answers of every effect:
CALL, BODY, SENT, HEAD, CHUNK, END, WIRE, MOVE = 16, 17, 18, 19, 20, 21, 22, 23
# Files: what stood at a path before the run's first write and after it, and what the program only read:
FILE_BEFORE, FILE_AFTER, FILE_PART, FILES_READ = 24, 25, 26, 27
# Effects and facts that the program declares:
ENTER, LEAVE, OPEN, CLOSE, OUTPUT, CONFIGURE, FAIL, OBSERVE = 32, 33, 34, 35, 36, 37, 38, 39
# The request in which a decision opened, as it came in, and what the program sent in reply:
INBOUND, REPLY = 40, 41
# A program that was started:
SPAWN, EXITED, STARTED, ADOPTED = 48, 49, 50, 51
# A sleep, a wait that ran out of time or a timer that fired; in a report, one that was asked for otherwise:
SLEEP, LAPSED, SLEPT = 56, 57, 58
# What a replay reports (ANSWERED too):
READY, SERVED, MISS, ATTEMPT, DRIFT, UNORDERED, SPENT, LIVE, LENT = 64, 65, 66, 67, 68, 69, 70, 71, 72
CONFINED, WRITTEN = 73, 74
ANSWERED = 52

NAMES = {
    RUN: "run", PROCESS: "process", PATH: "path", SITE: "site", STREAM: "stream", ENDED: "ended", NOTE: "note",
    DRAWS: "draws", ABOUT: "about", AROUND: "around",
    CALL: "call", BODY: "body", SENT: "sent", HEAD: "head", CHUNK: "chunk",
    END: "end", WIRE: "wire", MOVE: "move", FILE_BEFORE: "file_before", FILE_AFTER: "file_after",
    FILE_PART: "file_part", FILES_READ: "files_read", ENTER: "enter", LEAVE: "leave", OPEN: "open", CLOSE: "close",
    OUTPUT: "output", CONFIGURE: "configure", FAIL: "fail", OBSERVE: "observe", INBOUND: "inbound", REPLY: "reply",
    SPAWN: "spawn", EXITED: "exited",
    STARTED: "started", ADOPTED: "adopted", ANSWERED: "answered", SLEEP: "sleep", LAPSED: "lapsed", SLEPT: "slept",
    READY: "ready",
    SERVED: "served", MISS: "miss", ATTEMPT: "attempt", DRIFT: "drift", UNORDERED: "unordered", SPENT: "spent",
    LIVE: "live", LENT: "lent",
    CONFINED: "confined", WRITTEN: "written",
}  # fmt: skip

# Frames that start an effect, those that end one, and arrivals: what the program was given, in an order that a replay
# keeps.
STARTS = frozenset((CALL, ENTER, SPAWN, SLEEP, LAPSED))
ENDS = frozenset((END, LEAVE, EXITED))
ARRIVALS = frozenset((HEAD, CHUNK, WIRE, MOVE, END, LEAVE, EXITED))

_COUNTS: dict[int, Struct] = {}


def fields(*parts: bytes) -> bytes:
    """Pack byte strings so that `unpack_fields` gives them back: a count, their lengths, then the bytes."""
    count = len(parts)
    packer = _COUNTS.get(count)
    if packer is None:
        packer = _COUNTS[count] = Struct(f"<H{count}I")
    return packer.pack(count, *map(len, parts)) + b"".join(parts)


def unpack_fields(data: bytes | memoryview, at: int = 0) -> tuple[list[bytes], int]:
    """Return the packed byte strings and the offset after them. Raises FormatError where the bytes run out."""
    view = memoryview(data)
    try:
        count = int.from_bytes(view[at : at + 2], "little")
        packer = _COUNTS.get(count)
        if packer is None:
            packer = _COUNTS[count] = Struct(f"<H{count}I")
        lengths = packer.unpack_from(view, at)[1:]
    except error as fault:
        raise FormatError(f"packed fields end early at byte {at}", at=at) from fault
    at += packer.size
    parts = []
    for length in lengths:
        part = bytes(view[at : at + length])
        if len(part) != length:
            raise FormatError(f"packed field of {length} bytes ends early at byte {at}", at=at)
        parts.append(part)
        at += length
    return parts, at


def pack_headers(raw: list[tuple[bytes, bytes]]) -> bytes:
    """Pack header names and values exactly as they stand: order, case and repeats kept."""
    return fields(*chain.from_iterable(raw))


def unpack_headers(packed: bytes) -> list[tuple[bytes, bytes]]:
    """Undo `pack_headers`. Raises FormatError for an odd number of fields."""
    flat, _ = unpack_fields(packed)
    if len(flat) % 2:
        raise FormatError("a header without a value")
    return list(zip(flat[::2], flat[1::2], strict=True))


class Frame:
    """One frame, read. `payload` and `draws` are the exact bytes; see the kind for their layout."""

    __slots__ = ("at_ns", "decision", "draws", "effect", "flags", "kind", "parent", "path", "payload")

    def __init__(
        self, kind: int, flags: int, decision: int, effect: int, path: int, parent: int, at_ns: int, draws: bytes,
        payload: bytes,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.flags = flags
        self.decision = decision
        self.effect = effect
        self.path = path
        self.parent = parent
        self.at_ns = at_ns
        self.draws = draws
        self.payload = payload

    def written(self) -> bytes:
        """Return the frame's bytes, without a length prefix."""
        head = HEADER.pack(
            self.kind, self.flags, self.decision, self.effect, self.path, self.parent, self.at_ns, len(self.draws)
        )
        return head + self.draws + self.payload


def read_frame(data: bytes | memoryview) -> Frame:
    """Read one frame from exactly its bytes. Raises FormatError if they are too few or the draws do not fit."""
    try:
        kind, flags, decision, effect, path, parent, at_ns, length = HEADER.unpack_from(data, 0)
    except error as fault:
        raise FormatError(f"a frame of {len(data)} bytes is shorter than its header") from fault
    rest = HEADER.size + length
    if rest > len(data):
        raise FormatError(f"draws of {length} bytes do not fit a frame of {len(data)} bytes")
    return Frame(
        kind, flags, decision, effect, path, parent, at_ns, bytes(data[HEADER.size : rest]), bytes(data[rest:])
    )


def view_frame(data: memoryview) -> Frame:
    """Read one frame as `read_frame` does, its payload a view of `data`: what is never asked for is never copied."""
    kind, flags, decision, effect, path, parent, at_ns, length = HEADER.unpack_from(data, 0)
    rest = HEADER.size + length
    payload: Any = data[rest:]
    return Frame(kind, flags, decision, effect, path, parent, at_ns, bytes(data[HEADER.size : rest]), payload)


def places(log: bytes | memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield (time, start, end) of every frame of a log. Raises FormatError where the log stops making sense."""
    at, end = 0, len(log)
    while at < end:
        if at + LENGTH.size > end:
            raise FormatError(f"a log ends inside a length at byte {at}", at=at)
        (length,) = LENGTH.unpack_from(log, at)
        start = at + LENGTH.size
        if start + length > end:
            raise FormatError(f"a log ends inside a frame of {length} bytes at byte {at}", at=at)
        if length < HEADER.size:
            raise FormatError(f"a frame of {length} bytes is shorter than its header")
        head = HEADER.unpack_from(log, start)
        if HEADER.size + head[7] > length:
            raise FormatError(f"draws of {head[7]} bytes do not fit a frame of {length} bytes")
        yield head[6], start, start + length
        at = start + length


def write_log(frames: list[Frame]) -> tuple[bytes, list[int]]:
    """Return a log (each frame behind its length) and the cuts: where frames and their payloads begin."""
    parts: list[bytes] = []
    cuts: list[int] = []
    at = 0
    for frame in frames:
        written = frame.written()
        cuts.append(at)
        at += LENGTH.size
        cuts.append(at + len(written) - len(frame.payload))
        parts.append(LENGTH.pack(len(written)))
        parts.append(written)
        at += len(written)
    return b"".join(parts), cuts


def read_log(log: bytes | memoryview) -> list[Frame]:
    """Read every frame of a log. Raises FormatError naming the byte at which the log stops making sense."""
    view = memoryview(log)
    return [read_frame(view[start:end]) for _, start, end in places(view)]


def pack_sleep(form: str, seconds: float, site: bytes, *, lasted_ns: int = 0, nth: int = 0) -> bytes:
    """Pack a sleep, a wait or a timer: its form, what was asked for, and its call site (three packed fields)."""
    return fields(form.encode(), _SLEEP.pack(seconds, lasted_ns, nth), site)


def unpack_sleep(payload: bytes) -> tuple[str, float, int, int, tuple[str, ...]]:
    """Return form, seconds, nanoseconds since it was asked for, nth and site. Raises FormatError."""
    (form, packed, site), _ = unpack_fields(payload)
    try:
        seconds, lasted_ns, nth = _SLEEP.unpack(packed)
    except error as fault:
        raise FormatError("a sleep's numbers have another length") from fault
    return form.decode(), seconds, lasted_ns, nth, tuple(p.decode("utf-8", "replace") for p in unpack_fields(site)[0])


def pack_draw(site: int, path: int, value: object) -> bytes:
    """Pack one draw: which call site drew it, on which task path, and the exact value."""
    if type(value) is float:
        return _FLOAT_DRAW.pack(site, path, 1, 8, value)
    if type(value) is int:
        data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
        return _DRAW.pack(site, path, 2, len(data)) + data
    if type(value) is bytes:
        return _DRAW.pack(site, path, 3, len(value)) + value
    if type(value) is str:
        data = value.encode("utf-8", "surrogatepass")
        return _DRAW.pack(site, path, 4, len(data)) + data
    if type(value) is tuple:
        data = b"".join(pack_draw(0, 0, part) for part in value)
        return _DRAW.pack(site, path, 5, len(data)) + data
    if value is None:
        return _DRAW.pack(site, path, 6, 0)
    raise TypeError(f"a draw is a float, int, bytes, str, None or a tuple of these, not {type(value).__name__}")


def unpack_draws(data: bytes, *, level: int = 0) -> list[tuple[int, int, object]]:
    """Return (site, path, value) of every draw in a draws section. Raises FormatError where it does not parse."""
    if level > _MOST_LEVELS:
        raise FormatError(f"draws nested more than {_MOST_LEVELS} levels deep")
    out: list[tuple[int, int, object]] = []
    at, end = 0, len(data)
    while at < end:
        try:
            site, path, tag, length = _DRAW.unpack_from(data, at)
        except error as fault:
            raise FormatError(f"draws end early at byte {at}", at=at) from fault
        at += _DRAW.size
        if at + length > end:
            raise FormatError(f"a draw of {length} bytes ends early at byte {at}", at=at)
        out.append((site, path, _value(tag, data[at : at + length], at, level)))
        at += length
    return out


def draw_places(data: bytes) -> list[tuple[int, int]]:
    """Return (site, path) of every draw in a draws section that was read before; the values are passed over."""
    out: list[tuple[int, int]] = []
    at, end = 0, len(data)
    while at < end:
        site, path, _, length = _DRAW.unpack_from(data, at)
        out.append((site, path))
        at += _DRAW.size + length
    return out


def _value(tag: int, data: bytes, at: int, level: int) -> object:
    if tag == 1 and len(data) == 8:
        return Struct("<d").unpack(data)[0]
    if tag == 2:
        return int.from_bytes(data, "little", signed=True)
    if tag == 3:
        return data
    if tag == 4:
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as fault:
            raise FormatError(f"a draw at byte {at} is no text: {fault.reason}", at=at) from fault
    if tag == 5:
        return tuple(value for _, _, value in unpack_draws(data, level=level + 1))
    if tag == 6:
        return None
    raise FormatError(f"a draw of unknown kind {tag} at byte {at}", at=at)

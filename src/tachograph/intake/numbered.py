"""The frames of a run, in its one order and under its numbers, most of them still in the spool.

A run may hold gigabytes, and intake may not: here lie the heads, 30 bytes each with the run's numbers, and where each
frame stands in which spool file. Its draws and its payload are read when it is asked for, and never kept. Invariants:

- the order in which frames were added is the order of the run;
- asked for twice, a frame is the same twice: its draws get the run's numbers by tables that are complete by then.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, overload

from tachograph.formats import frame as fr

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE = fr.HEADER.size
_DRAW = Struct("<IIBI")  # site, path, value tag, length of the value: see `formats.frame.pack_draw`
_NOWHERE = 0xFFFFFFFF


class Head(NamedTuple):
    """What a frame's head says; `draws` is not known here (0)."""

    kind: int
    flags: int
    decision: int
    effect: int
    path: int
    parent: int
    at_ns: int
    draws: int


class Origin:
    """One spool file as its frames are read from it: its own numbers of sites and paths, and the run's."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.frames = frames
        self.sites: dict[int, int] = {}
        self.paths: dict[int, int] = {}

    def draws(self, packed: bytes) -> bytes:
        """Return a draws section under the run's numbers."""
        if not packed:
            return b""
        out, at = bytearray(packed), 0
        while at < len(out):
            site, path, tag, length = _DRAW.unpack_from(out, at)
            _DRAW.pack_into(out, at, _of(self.sites, site), _of(self.paths, path), tag, length)
            at += _DRAW.size + length
        return bytes(out)


def _of(numbers: Mapping[int, int], given: int) -> int:
    return numbers.get(given, 0)


class Numbered(Sequence[fr.Frame]):
    """A run's frames. Indexing gives whole ones, `heads` what a selection needs."""

    def __init__(self, frames: Iterable[fr.Frame] = ()) -> None:
        """Begin with frames that stand in no spool file, if there are any."""
        self._heads = bytearray()
        self._origins: list[Origin] = []
        self._origin = array("I")  # which origin, or that it is one of `_own`
        self._place = array("Q")
        self._own: list[fr.Frame] = []
        for frame in frames:
            self.append(frame)

    def append(self, frame: fr.Frame) -> None:
        """Add a frame that stands in no spool file."""
        self._add(frame)
        self._origin.append(_NOWHERE)
        self._place.append(len(self._own))
        self._own.append(frame)

    def origin(self, origin: Origin) -> int:
        """Return the number under which frames of this spool file are added."""
        self._origins.append(origin)
        return len(self._origins) - 1

    def add(self, head: fr.Frame, origin: int, place: int) -> None:
        """Add the frame that stands at `place` of a spool file; of `head` only what its head says is kept."""
        self._add(head)
        self._origin.append(origin)
        self._place.append(place)

    def _add(self, frame: fr.Frame) -> None:
        self._heads += fr.HEADER.pack(
            frame.kind, frame.flags, frame.decision, frame.effect, frame.path, frame.parent, frame.at_ns, 0
        )

    def __len__(self) -> int:
        return len(self._origin)

    def heads(self) -> Iterator[Head]:
        """Yield what each frame's head says; nothing is read."""
        return map(Head._make, fr.HEADER.iter_unpack(self._heads))

    def kind(self, number: int) -> int:
        """Return the kind of a frame."""
        return self._heads[number * _SIZE]

    def at_ns(self, number: int) -> int:
        """Return the time of a frame."""
        return Head._make(fr.HEADER.unpack_from(self._heads, number * _SIZE)).at_ns

    @overload
    def __getitem__(self, number: int) -> fr.Frame: ...
    @overload
    def __getitem__(self, number: slice) -> list[fr.Frame]: ...
    def __getitem__(self, number: int | slice) -> fr.Frame | list[fr.Frame]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        origin, place = self._origin[number], self._place[number]
        if origin == _NOWHERE:
            return self._own[place]
        number %= len(self)
        kind, flags, decision, effect, path, parent, at_ns, _ = fr.HEADER.unpack_from(self._heads, number * _SIZE)
        source = self._origins[origin]
        written = fr.read_frame(source.frames[place])
        # What was left of a frame whose effect is lost: the draws that rode in it.
        payload = b"" if kind == fr.DRAWS != written.kind else written.payload
        return fr.Frame(kind, flags, decision, effect, path, parent, at_ns, source.draws(written.draws), payload)

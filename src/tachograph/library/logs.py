"""The logs of one run, read from the store: all once, to check them, and what is much again when it is needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from tachograph.errors import DamagedStore
from tachograph.formats import frame as fr
from tachograph.formats import values

if TYPE_CHECKING:
    from tachograph.store.segments import ContentStore, Place

KEPT = 32 << 20  # bytes of logs that stay in memory: what lies behind them is read each time it is asked for


class Logs(Sequence[bytes]):
    """A run's logs. `about` is what each says of itself."""

    def __init__(self, content: ContentStore, places: Iterable[tuple[str, Place]], *, keep: int = KEPT) -> None:
        """Read and check every log; `places` are pairs of the id that a fault names, and where the log lies.

        Raises DamagedStore.
        """
        self.more: list[bytes] = []
        """Logs that lie in no segment yet."""
        self.about: list[dict[str, Any]] = []
        self._content = content
        self._places = list(places)
        self._kept: list[bytes] = []
        held = 0
        for place in range(len(self._places)):
            log = self._read(place)
            self.about += _about(log)
            held += len(log)
            if held <= keep:
                self._kept.append(log)

    def __len__(self) -> int:
        return len(self._places) + len(self.more)

    @overload
    def __getitem__(self, number: int) -> bytes: ...
    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...
    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if number < 0:
            number += len(self)
        if number < len(self._kept):
            return self._kept[number]
        return self._read(number) if number < len(self._places) else self.more[number - len(self._places)]

    def _read(self, number: int) -> bytes:
        name, place = self._places[number]
        try:
            return self._content.read(place)
        except DamagedStore as fault:
            raise DamagedStore(f"{name} cannot be read: {fault}") from fault


def _about(log: bytes) -> list[dict[str, Any]]:
    frames = (fr.view_frame(memoryview(log)[start:end]) for _, start, end in islice(fr.places(log), 1))
    return [values.decode(bytes(frame.payload)) for frame in frames if frame.kind == fr.ABOUT]

"""Draws in a replay: the value that was drawn at a place is given there again, and what cannot be is told.

A draw is known by its task path, its call site and how often it came there. One that was not recorded keeps the value
that it has here; it is drift, as is a recorded one that nobody drew again. Standard library only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from tachograph.formats import frame as fr
from tachograph.seams import context, port
from tachograph.seams.draws import site_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any

    from tachograph.model.effect import Draw, Effect

    Key = tuple[str, tuple[str, ...]]


class Redraws:
    """The recorded draws that wait to be drawn again, and those that were not recorded, as this process sees them."""

    def __init__(self, draws: Iterable[Draw]) -> None:
        self._waiting: dict[Key, deque[Draw]] = {}
        for draw in draws:
            self._waiting.setdefault((draw.path, draw.site), deque()).append(draw)
        self._by_path: dict[str, list[deque[Draw]]] = {}
        for (path, _), queue in self._waiting.items():
            self._by_path.setdefault(path, []).append(queue)
        self._paths = sorted(self._by_path)
        self._sites: dict[tuple[int, int, int], tuple[tuple[str, ...], Any]] = {}
        self.drifted: dict[Key, int] = {}

    def again(self, kind: int, code: CodeType, at: int) -> Any:
        """Return the value that was drawn at this place, or `port.MISSING` and a note of drift."""
        key = (context.here().path, self.site(kind, code, at))
        waiting = self._waiting.get(key)
        if not waiting and code.co_name == "<module>":  # whichever thread imports it first: a module runs once
            same = (q for (p, s), q in self._waiting.items() if q and s == key[1] and context.may_be_done_here(p))
            waiting = next(same, None)
        if waiting:
            return waiting.popleft().value
        self.drifted[key] = self.drifted.get(key, 0) + 1
        return port.MISSING

    def site(self, kind: int, code: CodeType, at: int) -> tuple[str, ...]:
        """Return a call site as the record names it."""
        known = self._sites.get((id(code), at, kind))
        if known is None:
            site = tuple(part.decode("utf-8", "replace") for part in fr.unpack_fields(site_of(kind, code, at))[0])
            known = self._sites[id(code), at, kind] = (site, code)
        return known[0]

    def skip_inside(self, outer: Effect) -> None:
        """Forget what was drawn inside an effect that is served from the record."""
        end = outer.arrivals[-1].at_ns if outer.arrivals else outer.at_ns
        first, last = bisect_left(self._paths, outer.path + "/"), bisect_left(self._paths, outer.path + "0")
        for path in (outer.path, *self._paths[first:last]):  # itself and all below: "0" comes behind "/"
            for draws in self._by_path.get(path, ()):
                while draws and outer.at_ns < draws[0].at_ns <= end:  # they rode in what came next, its end at last
                    draws.popleft()

    def left(self) -> list[dict[str, Any]]:
        """Return what this process was to draw again and did not."""
        return [
            {"path": path, "site": list(site), "count": len(draws), "what": "not drawn again"}
            for (path, site), draws in self._waiting.items()
            if draws and context.is_done_here(path)
        ]

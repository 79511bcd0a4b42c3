"""The recordings of a run by what they answer: requests, programs that were started, declared effects.

A request is looked up by all of it, the body by its length and a checksum (what was found is compared byte for byte:
a run may hold gigabytes, and no second copy of them is kept for the looking up). What is written differently is looked
for among those of the same method, in the order in which they would be taken. Standard library only.
"""

from __future__ import annotations

from collections import OrderedDict
from zlib import crc32

from tachograph.comparison.requests import Prepared, Request, compare_requests, nearest
from tachograph.model.effect import HTTP, SLEEP, SUBPROCESS
from tachograph.replay.shelf import Shelves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from tachograph.comparison.leaves import Leaf
    from tachograph.formats.effect_log import EffectLog
    from tachograph.model.effect import Effect

_PREPARED = 16 << 20  # bytes of recorded bodies that are kept as read, so that a call that nothing fits reads few again


class Recordings:
    """What is recorded, by what it answers."""

    def __init__(self, log: EffectLog, is_free: Callable[[Effect], bool]) -> None:
        """`is_free` says whether nobody has taken a recording yet."""
        self._effects = log.effects
        self._is_free = is_free
        self._exact, self._alike = Shelves(is_free), Shelves(is_free)
        self._declared, self._spawned = Shelves(is_free), Shelves(is_free)
        self._inside: dict[int, list[Effect]] = {}
        self._prepared: OrderedDict[int, Prepared] = OrderedDict()
        self._held = 0
        for effect in log.effects:
            if effect.parent:
                self._inside.setdefault(effect.parent, []).append(effect)
            if effect.kind == HTTP:
                head = Prepared(Request(HTTP, effect.method, effect.url, effect.headers, b""))
                self._exact.add(_key(head, effect.body, effect.wire), effect)
                self._alike.add((effect.wire, effect.method), effect)
            elif effect.kind == SUBPROCESS:
                self._spawned.add(_words(effect.command), effect)
            elif effect.kind != SLEEP:
                self._declared.add((effect.kind, effect.name, effect.inputs), effect)

    def request(self, asked: Prepared, path: str, *, wire: bool) -> tuple[Effect | None, list[str]]:
        """Return the recording of a request, and the liberties that were taken to find it: none for the same bytes."""
        body = asked.request.body
        for effect in self._exact.left(_key(asked, body, wire), path):
            if effect.body == body:
                return effect, []
        for effect in self._alike.left((wire, asked.request.method), path):
            verdict = compare_requests(self._prepare(effect), asked)
            if verdict.level != "different":
                return effect, list(verdict.notes) or ["same meaning"]
        return None, []

    def nearest(self, asked: Prepared) -> tuple[Effect, Leaf | None] | None:
        """Return the recorded request that comes nearest, among the free ones if there are any, and the difference."""
        candidates = [effect for effect in self._effects if effect.kind == HTTP]
        free = [effect for effect in candidates if self._is_free(effect)] or candidates
        found = nearest(asked, [self._prepare(effect) for effect in free])
        return None if found is None else (free[found.position], found.first)

    def _prepare(self, effect: Effect) -> Prepared:
        known = self._prepared.get(effect.index)
        if known is None:
            request = Request(HTTP, effect.method, effect.url, effect.headers, effect.body)
            known = self._prepared[effect.index] = Prepared(request)
            self._held += len(request.body)
            while self._held > _PREPARED and len(self._prepared) > 1:
                self._held -= len(self._prepared.popitem(last=False)[1].request.body)
        return known

    def spawned(self, command: dict[str, Any], path: str) -> Effect | None:
        """Return the recording of a program that is started."""
        left = self._spawned.left(_words(command), path)
        return next((effect for effect in left if effect.command == command), None)

    def declared(self, kind: str, name: str, inputs: bytes, path: str) -> Effect | None:
        """Return the recording of a declared effect with these inputs."""
        return self._declared.next((kind, name, inputs), path)

    def inside(self, outer: Effect) -> list[Effect]:
        """Return all that was recorded inside an effect, in start order."""
        found, waiting = [], [outer]
        while waiting:
            inner = self._inside.get(waiting.pop().index, [])
            found += inner
            waiting += inner
        return sorted(found, key=lambda effect: effect.index)


def _key(prepared: Prepared, body: bytes, wire: bool) -> Hashable:
    # What was taken at the socket cannot answer a client that is given a head and chunks, nor the other way round.
    headers = frozenset(prepared.headers.items())
    return wire, prepared.request.method, prepared.url, headers, len(body), crc32(body)


def _words(command: dict[str, Any]) -> str:
    return repr(command.get("args"))

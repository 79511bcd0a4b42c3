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
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Any

    from tachograph.comparison.leaves import Leaf
    from tachograph.formats.effect_log import EffectLog
    from tachograph.model.effect import Effect

    Parts = Iterable[bytes | memoryview]

_PREPARED = 16 << 20  # bytes of recorded bodies that are kept as read, so that a call that nothing fits reads few again


class Recordings:
    """What is recorded, by what it answers."""

    def __init__(
        self, log: EffectLog, is_free: Callable[[Effect], bool], *, touched: Callable[[int], None] = lambda count: None
    ) -> None:  # fmt: skip
        """`is_free` says whether nobody has taken a recording yet; `touched` is told how much was read of bodies."""
        self._touched = touched
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
                self._exact.add(_key(head, self._read(effect), effect.wire), effect)
                self._alike.add((effect.wire, effect.method), effect)
            elif effect.kind == SUBPROCESS:
                self._spawned.add(_words(effect.command), effect)
            elif effect.kind != SLEEP:
                self._declared.add((effect.kind, effect.name, effect.inputs), effect)

    def same(self, head: Prepared, body: Parts, path: str, *, wire: bool) -> Effect | None:
        """Return the recording of a request whose every byte is the same."""
        for effect in self._exact.left(_key(head, body, wire), path):
            if _same(self._read(effect), body):
                return effect
        return None

    def _read(self, effect: Effect) -> Iterator[bytes | memoryview]:
        for part in effect.body_parts:
            yield part
            self._touched(len(part))

    def alike(self, asked: Prepared, path: str, *, wire: bool) -> tuple[Effect | None, list[str]]:
        """Return the recording of a request that means the same, and the liberties that were taken to find it."""
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


def _same(recorded: Parts, replayed: Parts) -> bool:
    """Compare two bodies in parts, no more of either at once than a part of the other."""
    left, right = b"", b""
    ours, theirs = iter(recorded), iter(replayed)
    while True:
        while not left and (more := next(ours, None)) is not None:
            left = bytes(more)
        while not right and (more := next(theirs, None)) is not None:
            right = bytes(more)
        if not left or not right:
            return left == right
        size = min(len(left), len(right))
        if left[:size] != right[:size]:
            return False
        left, right = left[size:], right[size:]


def _key(prepared: Prepared, body: Parts, wire: bool) -> Hashable:
    size = check = 0
    for part in body:
        size, check = size + len(part), crc32(part, check)
    # What was taken at the socket cannot answer a client that is given a head and chunks, nor the other way round.
    headers = frozenset(prepared.headers.items())
    return wire, prepared.request.method, prepared.url, headers, size, check


def _words(command: dict[str, Any]) -> str:
    return repr(command.get("args"))

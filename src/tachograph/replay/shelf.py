"""Recordings that answer one question alike, each to be taken once.

Those of the asker's task path come first, then the others, each in the order in which they were started. To find the
next one costs the same however many there are and however many were taken: what was taken, here or by another process
of the replay, is passed over once and forgotten. Standard library only.
"""

from __future__ import annotations

from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tachograph.model.effect import Effect

    Queue = OrderedDict[int, Effect]

_FEW = 16  # so many are looked through: most questions have one answer, and a queue for each would cost memory


class Shelf:
    """What answers one question. Effects must be added in their start order, all before the first is asked for."""

    __slots__ = ("_all", "_by_path", "_few")

    def __init__(self) -> None:
        self._few: list[Effect] = []
        self._all: Queue | None = None
        self._by_path: dict[str, Queue] = {}

    def add(self, effect: Effect) -> None:
        """Put a recording here."""
        self._few.append(effect)

    def left(self, path: str, is_free: Callable[[Effect], bool]) -> Iterator[Effect]:
        """Yield what is free, in the order in which it is to be taken."""
        if self._all is None:
            if len(self._few) <= _FEW:
                free = [effect for effect in self._few if is_free(effect)]
                yield from (effect for effect in free if effect.path == path)
                yield from (effect for effect in free if effect.path != path)
                return
            self._spread()
        assert self._all is not None
        own = self._by_path.get(path)
        if own:
            yield from _free(own, is_free)
        for effect in _free(self._all, is_free):
            if effect.path != path:
                yield effect

    def _spread(self) -> None:
        self._all = OrderedDict()
        for effect in self._few:
            self._all[effect.index] = effect
            self._by_path.setdefault(effect.path, OrderedDict())[effect.index] = effect
        self._few = []


def _free(queue: Queue, is_free: Callable[[Effect], bool]) -> Iterator[Effect]:
    taken = []
    try:
        for effect in queue.values():
            if is_free(effect):
                yield effect
            else:
                taken.append(effect.index)
    finally:
        for index in taken:
            queue.pop(index, None)


class Shelves:
    """Shelves by their questions."""

    __slots__ = ("_is_free", "_shelves")

    def __init__(self, is_free: Callable[[Effect], bool]) -> None:
        """`is_free` says whether nobody has taken a recording yet."""
        self._is_free = is_free
        self._shelves: dict[Hashable, Shelf] = {}

    def add(self, question: Hashable, effect: Effect) -> None:
        """Put a recording where it answers."""
        shelf = self._shelves.get(question)
        if shelf is None:
            shelf = self._shelves[question] = Shelf()
        shelf.add(effect)

    def left(self, question: Hashable, path: str) -> Iterator[Effect]:
        """Yield the free recordings that answer, in the order in which they are to be taken."""
        shelf = self._shelves.get(question)
        return iter(()) if shelf is None else shelf.left(path, self._is_free)

    def next(self, question: Hashable, path: str) -> Effect | None:
        """Return the recording that is to be taken now."""
        return next(self.left(question, path), None)

"""What answers one question is taken path by path, in order, at a cost that does not grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.model.effect import HTTP, Effect
from tachograph.replay.shelf import Shelves


def effects(paths: list[str]) -> list[Effect]:
    return [
        Effect(HTTP, index=number, path=path, decision=0, parent=0, at_ns=number)
        for number, path in enumerate(paths, 1)
    ]  # fmt: skip


class Shop:
    """Shelves whose effects are taken, and how often it was asked whether one is free."""

    def __init__(self, paths: list[str]) -> None:
        self.taken: set[int] = set()
        self.asked = 0
        self.shelves = Shelves(self.is_free)
        for effect in effects(paths):
            self.shelves.add("question", effect)

    def is_free(self, effect: Effect) -> bool:
        self.asked += 1
        return effect.index not in self.taken

    def take(self, path: str) -> int:
        found = self.shelves.next("question", path)
        if found is None:
            return 0
        self.taken.add(found.index)
        return found.index


PATHS = st.sampled_from(["0", "0/t1", "0/t2"])


@given(st.lists(PATHS, max_size=60), st.lists(st.one_of(PATHS, st.integers(1, 60)), max_size=80))
def test_the_next_is_the_first_of_the_path_else_the_first_of_all(paths: list[str], asks: list[str | int]) -> None:
    shop, free = Shop(paths), dict(enumerate(paths, 1))
    for ask in asks:
        if isinstance(ask, int):  # another process takes it
            shop.taken.add(ask)
            free.pop(ask, None)
            continue
        expected = next((one for one, path in free.items() if path == ask), next(iter(free), 0))
        left = [effect.index for effect in shop.shelves.left("question", ask)]
        assert sorted(left) == list(free)
        assert shop.take(ask) == expected
        free.pop(expected, None)


@pytest.mark.parametrize("path", ["0", "elsewhere"])
def test_taking_all_of_many_asks_about_each_a_few_times(path: str) -> None:
    shop = Shop(["0"] * 2000)
    assert [shop.take(path) for _ in range(2001)] == [*range(1, 2001), 0]
    assert shop.asked < 4 * 2000


def test_nothing_answers_a_question_that_nobody_recorded() -> None:
    shop = Shop(["0"])
    assert shop.shelves.next("another", "0") is None
    assert list(shop.shelves.left("another", "0")) == []

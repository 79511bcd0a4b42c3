"""Row 7: whoever is killed, whenever: what was acknowledged is there, once, and the others are whole.

A few seeds run with every `make test`, 200 with `make torture`; TORTURE_SEEDS=17,18 carries out those alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tachograph.testing.scripted import ScriptedServer
from tests.torture.harness import Torture, answer

FEW = [range(0, 6), range(6, 12)]
MANY = [range(first, first + 10) for first in range(0, 200, 10)]
CHOSEN = [int(seed) for seed in os.environ.get("TORTURE_SEEDS", "").split(",") if seed]


@pytest.fixture
def torture(quick: Path) -> Iterator[Torture]:
    """A fresh store, and a server that answers every number."""
    with ScriptedServer(answer) as server:
        yield Torture(quick, server)


@pytest.mark.parametrize("seeds", FEW, ids=str)
def test_a_dozen_kills_lose_nothing_and_seal_nothing_twice(torture: Torture, seeds: range) -> None:
    for seed in seeds:
        torture.one(seed)


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", [CHOSEN] if CHOSEN else MANY, ids=str)
def test_kills_lose_nothing_and_seal_nothing_twice(torture: Torture, seeds: range | list[int]) -> None:
    for seed in seeds:
        torture.one(seed)

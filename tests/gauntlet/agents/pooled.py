"""Work given to pools in every way, by workers that are differently busy each time. Settings: url, start, way."""

from __future__ import annotations

import _random
import asyncio
import multiprocessing
import multiprocessing.pool
import pickle
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed

import httpx
from clients import SETTINGS

URL = SETTINGS.get("url", "")
_chance = _random.Random()  # past every seam: its pauses are other ones in a replay


def _dawdle() -> None:
    for _ in range(int(_chance.random() * 400_000)):  # no sleep: those are put back in their order
        pass


def ask(number: int, word: str = "item") -> str:
    """One call, whose body was drawn here."""
    _dawdle()
    said = httpx.post(URL, json={"word": word, "number": number, "drawn": str(uuid.uuid4())}, timeout=20).text
    _dawdle()
    return said


def fail(number: int) -> str:
    """A call, then an error."""
    raise ValueError(ask(number, "fails"))


def prepare(word: str) -> None:
    """What each worker does first."""
    assert word == "ready"


def said_of(call: Callable[[], object]) -> str:
    """What it returns or how it fails."""
    try:
        return str(call())
    except (ArithmeticError, AttributeError, TypeError, ValueError, pickle.PicklingError) as fault:
        return f"{type(fault).__name__}: {fault}; {type(fault.__cause__).__name__}"


def by_pool(make: Callable[..., multiprocessing.pool.Pool]) -> list[object]:
    """Everything that `multiprocessing.pool` has."""
    with make(3, prepare, ("ready",)) as pool:
        later = [pool.apply_async(ask, (number, "apply")) for number in range(3)]
        failing = pool.apply_async(fail, (7,))
        many = pool.map_async(ask, range(10, 15), chunksize=2)
        star = pool.starmap(ask, [(20, "star"), (21, "star")])
        lazily = list(pool.imap(ask, iter(range(30, 33))))
        unordered = sorted(pool.imap_unordered(ask, range(40, 43)))
        unsendable = said_of(lambda: pool.apply(len, (lambda: 0,)))[:20]
        return [
            pool.apply(ask, (0, "alone")), [one.get() for one in later], said_of(failing.get), many.get(), star, lazily,
            unordered, unsendable,
        ]  # fmt: skip


def by_executor(start: str) -> list[object]:
    """Everything that `ProcessPoolExecutor` has, tasks of an event loop included."""
    context = multiprocessing.get_context(start)
    with ProcessPoolExecutor(3, mp_context=context, initializer=prepare, initargs=("ready",)) as pool:
        later = [pool.submit(ask, number, "submit") for number in range(4)]
        failing = pool.submit(fail, 7)
        unsendable = said_of(pool.submit(len, lambda: 0).result)[:20]
        said = sorted(one.result() for one in as_completed(later))

        async def together() -> list[str]:
            async def one(number: int) -> str:
                return await asyncio.get_running_loop().run_in_executor(pool, ask, number, "loop")

            return list(await asyncio.gather(*map(one, range(50, 53))))

        return [
            said, said_of(failing.result), unsendable, list(pool.map(ask, range(10, 15), chunksize=2)),
            asyncio.run(together()),
        ]  # fmt: skip


def main() -> None:
    """Print what came of it."""
    start = SETTINGS["start"]
    if SETTINGS["way"] == "executor":
        print(by_executor(start))
    elif start == "threads":
        print(by_pool(multiprocessing.pool.ThreadPool))
    else:
        print(by_pool(multiprocessing.get_context(start).Pool))


if __name__ == "__main__":
    main()

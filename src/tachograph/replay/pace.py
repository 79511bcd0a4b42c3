"""`--pace`: a replay that waits as long as the recorded program did.

Each effect goes at its own recorded pace: an arrival is held back until as much time has passed since the one before it
(the first: since the call) as had in the recording; a sleep, a wait that ran out and a timer take the time that they
took. What the program itself computes takes what it takes here. Whoever holds something back says so in the ledger, so
that nobody takes it for a standstill. Standard library only.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tachograph.model.effect import Effect
    from tachograph.replay.ledger import Ledger


class Pace:
    """How far one effect has come, on this clock and on the recorded one."""

    __slots__ = ("_ledger", "_now", "_then_ns")

    def __init__(self, ledger: Ledger, effect: Effect) -> None:
        """Begin now, with the effect's call."""
        self._ledger = ledger
        self._now, self._then_ns = monotonic(), max(effect.at_ns, effect.sent_at_ns)

    def _due(self, at_ns: int) -> float:
        due = self._now + max(0, at_ns - self._then_ns) / 1e9
        self._now, self._then_ns = max(due, monotonic()), at_ns
        self._ledger.keep_back(due)
        return due - monotonic()

    def wait(self, at_ns: int) -> None:
        """Block this thread until what arrived then may arrive."""
        left = self._due(at_ns)
        if left > 0:
            gate = allocate_lock()
            gate.acquire()
            gate.acquire(timeout=left)

    async def wait_async(self, at_ns: int) -> None:
        """The same, for a coroutine."""
        left = self._due(at_ns)
        if left > 0:
            from asyncio import get_running_loop  # here and not at the top: see replay.ordering

            loop = get_running_loop()
            future = loop.create_future()
            timer = loop.call_later(left, _settle, future)
            try:
                await future
            finally:
                timer.cancel()


def _settle(future: Any) -> None:
    if not future.done():
        future.set_result(None)


def lasted_s(effect: Effect) -> float:
    """Return how long a recorded sleep, wait or timer took, in seconds."""
    if effect.lasted_ns or not effect.arrivals:
        return effect.lasted_ns / 1e9
    return max(0, effect.arrivals[-1].at_ns - effect.at_ns) / 1e9


def steps_of(effect: Effect) -> tuple[list[tuple[int, float, int]], float]:
    """Return when a started program wrote what (stream, seconds since it began, bytes), and when it ended.

    What it wrote within 10 ms counts as one.
    """
    steps: list[tuple[int, float, int]] = []
    for stream in (1, 2):
        own = [arrival for arrival in effect.arrivals if arrival.stream == stream and arrival.data]
        for arrival in own:
            after = max(0, arrival.at_ns - effect.at_ns) / 1e9
            if steps and steps[-1][0] == stream and after - steps[-1][1] < 0.01:
                after, size = steps[-1][1], steps.pop()[2]
            else:
                size = 0
            steps.append((stream, after, size + len(arrival.data)))
    ended = effect.arrivals[-1].at_ns if effect.arrivals else effect.at_ns
    return steps, max(0, ended - effect.at_ns) / 1e9

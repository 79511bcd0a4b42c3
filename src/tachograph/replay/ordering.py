"""Completion order, imposed again: what arrived in the recorded run arrives in the same order in the replay.

Every recorded arrival (head, chunk, end) has a place in the run's one order. A reader that asks for an arrival waits
until all earlier ones are given. That can deadlock where the replayed program issues calls in another order (behind a
semaphore of two, the awaited call may never be issued while the two wait), so there is one way out, and it is said:
after 50 ms plus twice the recorded gap to what is awaited, without progress, the effects that hold up the earliest
waiting arrival lose their place (`let_go`). Progress is a new call or a delivery. Invariants:

- an arrival is given once; an effect that was let go never waits and is never waited for again;
- a program that is merely busy (a blocked event loop) is no standstill: a timer that fires late is armed again;
- a thread blocks on a lock, a coroutine on a future of its own loop: no thread of ours runs in the program.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tachograph.model.effect import Arrival, Effect

GRACE_S = 0.05
LONGEST_GAP_S = 5.0
LATE_S = 0.02
REARM = 20


class _Place:
    """One arrival's place: whose it is, and whether it has been given (or skipped)."""

    __slots__ = ("arrival", "done", "effect", "wake")

    def __init__(self, effect: Effect, arrival: Arrival) -> None:
        self.effect = effect
        self.arrival = arrival
        self.done = False
        self.wake: Callable[[], None] | None = None


class Order:
    """The order of all arrivals of a run, and how far the replay has come in it."""

    def __init__(self, effects: list[Effect], *, let_go: Callable[[Effect], None]) -> None:
        """`let_go(effect)` is called once for each effect whose recorded order could not be imposed."""
        pairs = [(arrival, effect) for effect in effects for arrival in effect.arrivals if _given(effect, arrival)]
        pairs.sort(key=lambda pair: pair[0].at_ns)
        self._slots = [_Place(effect, arrival) for arrival, effect in pairs]
        self._own: dict[int, list[int]] = {}
        for place, slot in enumerate(self._slots):
            self._own.setdefault(slot.effect.index, []).append(place)
        self._front = 0
        self._issued: set[int] = set()
        self._free: set[int] = set()
        self._let_go = let_go
        self._lock = allocate_lock()
        self._progress = monotonic()
        self._recorded_ns = 0

    def issued(self, effect: Effect) -> None:
        """The replay made the call that this effect answers."""
        with self._lock:
            self._issued.add(effect.index)
            self._moved(effect.at_ns)

    def release(self, effect: Effect) -> None:
        """Nobody waits for the rest of this effect: its reader closed it, or it is played by other means."""
        with self._lock:
            self._free.add(effect.index)
            self._skip(effect)
            wake = self._advance()
        _call(wake)

    def wait(self, effect: Effect, at: int) -> None:
        """Block this thread until arrival number `at` of the effect may be given, and count it as given."""
        place = self._place(effect, at)
        if place is None or self._take(place):
            return
        gate = allocate_lock()
        gate.acquire()

        def open_gate() -> None:
            try:
                gate.release()
            except RuntimeError:  # woken a second time before this thread got to run
                pass

        if self._register(place, open_gate):
            while not gate.acquire(timeout=self._patience()):
                self._standstill(monotonic() + 1)
        self._give(place)

    async def wait_async(self, effect: Effect, at: int) -> None:
        """The same for a coroutine: other tasks of its loop go on meanwhile."""
        place = self._place(effect, at)
        if place is None or self._take(place):
            return
        from asyncio import get_running_loop  # here and not at the top: a program without asyncio must not pay for it

        loop = get_running_loop()
        future = loop.create_future()

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        def wake() -> None:
            loop.call_soon_threadsafe(settle)

        if self._register(place, wake):
            timer = _Timer(loop, self._patience, self._standstill)
            try:
                await future
            except BaseException:
                self._slots[place].wake = None
                raise
            finally:
                timer.cancel()
        self._give(place)

    # -- inside

    def _place(self, effect: Effect, at: int) -> int | None:
        places = self._own.get(effect.index, ())
        return places[at] if at < len(places) else None

    def _take(self, place: int) -> bool:
        with self._lock:
            slot = self._slots[place]
            if slot.done or slot.effect.index in self._free:
                slot.done = True
                return True
            if place != self._front:
                return False
            wake = self._done(place)
        _call(wake)
        return True

    def _give(self, place: int) -> None:
        with self._lock:
            wake = None if self._slots[place].done else self._done(place)
        _call(wake)

    def _done(self, place: int) -> Callable[[], None] | None:
        slot = self._slots[place]
        slot.done, slot.wake = True, None
        self._moved(slot.arrival.at_ns)
        return self._advance()

    def _register(self, place: int, wake: Callable[[], None]) -> bool:
        with self._lock:
            slot = self._slots[place]
            if place == self._front or slot.effect.index in self._free:
                return False
            slot.wake = wake
            return True

    def _advance(self) -> Callable[[], None] | None:
        places, front = self._slots, self._front
        while front < len(places) and places[front].done:
            front += 1
        self._front = front
        return places[front].wake if front < len(places) else None

    def _skip(self, effect: Effect) -> None:
        for place in self._own.get(effect.index, ()):
            if self._slots[place].wake is None:
                self._slots[place].done = True

    def _moved(self, recorded_ns: int) -> None:
        self._progress = monotonic()
        self._recorded_ns = max(self._recorded_ns, recorded_ns)

    def _patience(self) -> float:
        """Seconds without progress after which the recorded order is given up for what blocks the front."""
        with self._lock:
            if self._front >= len(self._slots):
                return GRACE_S
            slot = self._slots[self._front]
            awaited = slot.arrival.at_ns if slot.effect.index in self._issued else slot.effect.at_ns
            gap = max(0.0, (awaited - self._recorded_ns) / 1e9)
            if slot.effect.index in self._issued:
                gap = min(gap, LONGEST_GAP_S)  # its reader is late, and the gap may be the model's own latency
            return max(0.001, self._progress + GRACE_S + 2 * gap - monotonic())

    def _standstill(self, _due: float) -> bool:
        """Let go of whatever holds up the earliest waiting arrival, if nothing has moved. Returns whether it did."""
        if self._patience() > 0.001:
            return False
        with self._lock:
            waiting = next((p for p in range(self._front, len(self._slots)) if self._slots[p].wake is not None), None)
            if waiting is None:
                return False
            blockers = {slot.effect.index: slot.effect for slot in self._slots[self._front : waiting] if not slot.done}
            blockers.pop(self._slots[waiting].effect.index, None)
            for effect in blockers.values():
                self._free.add(effect.index)
                self._skip(effect)
            self._progress = monotonic()
            wake = self._slots[waiting].wake
            self._advance()
        for effect in blockers.values():
            self._let_go(effect)
        _call(wake)
        return True


class _Timer:
    """Asks for a standstill on the waiting coroutine's own loop; late firings mean a busy loop and are armed again."""

    def __init__(self, loop: Any, patience: Callable[[], float], standstill: Callable[[float], bool]) -> None:
        self._loop, self._patience, self._standstill = loop, patience, standstill
        self._rearmed = 0
        self._arm()

    def _arm(self) -> None:
        delay = self._patience()
        self._due = monotonic() + delay
        self._handle = self._loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        late = monotonic() - self._due > LATE_S
        if late and self._rearmed < REARM:
            self._rearmed += 1
            self._due = monotonic() + GRACE_S
            self._handle = self._loop.call_later(GRACE_S, self._fire)
            return
        self._standstill(self._due)
        self._arm()

    def cancel(self) -> None:
        self._handle.cancel()


def _given(effect: Effect, arrival: Arrival) -> bool:
    # An end that the program itself made (it closed, it was cancelled) is not given to it.
    return arrival.kind != "end" or effect.ended in ("eof", "error", "returned")


def _call(wake: Callable[[], None] | None) -> None:
    if wake is not None:
        wake()

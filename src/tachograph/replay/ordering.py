"""Completion order, imposed again: what arrived in the recorded run arrives in the same order in the replay.

Every recorded arrival (head, chunk, end) has a place in the run's one order. A reader that asks for an arrival waits
until all earlier ones are given. That can deadlock where the replayed program issues calls in another order (behind a
semaphore of two, the awaited call may never be issued while the two wait), so there is one way out, and it is said:
after 50 ms plus twice the recorded gap to what is awaited, without progress, the effects that hold up the earliest
waiting arrival lose their place (`let_go`). Progress is a new call or a delivery. Invariants:

- an arrival is given once; an effect that was let go never waits and is never waited for again;
- a program that is merely busy (a blocked event loop) is no standstill: a timer that fires late is armed again;
- whoever blocks a loop (a sleep, a call that is not awaited) never waits for what only that loop could take;
- a thread blocks on a lock, a coroutine on a future of its own loop: no thread of ours runs in the program;
- how far the replay has come stands in the ledger, which all its processes share. While more than one lives, a waiter
  also looks there every 2 ms, since nobody in another process can wake it; a process that is alone never does.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from time import monotonic

from tachograph.model.effect import SLEEP
from tachograph.replay.ledger import DONE, FREED, ISSUED, OPEN, WAITED, Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tachograph.model.effect import Arrival, Effect

GRACE_S = 0.05
LONGEST_GAP_S = 5.0
LATE_S = 0.02
REARM = 20
POLL_S = 0.002


class _Place:
    """One arrival's place: whose it is, how to wake who waits for it in this process, on which event loop."""

    __slots__ = ("arrival", "effect", "loop", "wake")

    def __init__(self, effect: Effect, arrival: Arrival) -> None:
        self.effect = effect
        self.arrival = arrival
        self.wake: Callable[[], None] | None = None
        self.loop: Any = None


class Order:
    """The order of all arrivals of a run, and how far the replay has come in it."""

    def __init__(
        self, effects: list[Effect], *, let_go: Callable[[Effect], None], ledger: Ledger | None = None
    ) -> None:  # fmt: skip
        """`let_go(effect)` is called once for each effect whose recorded order could not be imposed."""
        pairs = [(arrival, effect) for effect in effects for arrival in effect.arrivals if _given(effect, arrival)]
        pairs.sort(key=lambda pair: pair[0].at_ns)
        self._places = [_Place(effect, arrival) for arrival, effect in pairs]
        self._own: dict[int, list[int]] = {}
        for place, slot in enumerate(self._places):
            self._own.setdefault(slot.effect.index, []).append(place)
        self._let_go = let_go
        self.ledger = Ledger(effects) if ledger is None else ledger
        self._slots, self._flags = self.ledger.slots, self.ledger.effects
        with self.ledger as shared:
            if not shared.progress:
                shared.moved()

    def issued(self, effect: Effect) -> None:
        """The replay made the call that this effect answers."""
        with self.ledger as shared:
            self._flags[effect.index] |= ISSUED
            shared.moved(effect.began_ns)

    def release(self, effect: Effect) -> None:
        """Nobody waits for the rest of this effect: its reader closed it, or it is played by other means."""
        with self.ledger:
            self._free(effect)
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
            blocked = running_loop()
            while not gate.acquire(timeout=self.until_next_look()):
                if self._has_turn(place):
                    break
                self.standstill(blocked)
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

        def look() -> None:
            if self._has_turn(place):
                settle()

        if self._register(place, wake, loop):
            timer = LoopTimer(loop, self, look)
            try:
                await future
            except BaseException:
                self._unregister(place)
                raise
            finally:
                timer.cancel()
        self._give(place)

    # -- for those who are woken: timers of a loop, and waits that something else may end too

    def arm(self, effect: Effect, at: int, wake: Callable[[], None], loop: Any = None) -> bool:
        """Have `wake` called, from any thread, when the arrival's turn has come; False if it has come already.

        `loop`: the event loop without which it cannot be taken.
        """
        place = self._place(effect, at)
        return place is not None and self._register(place, wake, loop)

    def waited_before(self, at_ns: int, loop: Any) -> bool:
        """Whether a task of that loop is about to take the next arrival, and it came before that time."""
        front = self.ledger.front
        if front >= len(self._places):
            return False
        slot = self._places[front]
        return slot.wake is not None and slot.loop is loop and slot.arrival.at_ns < at_ns

    def has_turn(self, effect: Effect, at: int) -> bool:
        """Whether this arrival may be given now."""
        place = self._place(effect, at)
        return place is None or self._has_turn(place)

    def noticed(self, effect: Effect, at: int) -> None:
        """Its turn has come, and whoever waits for it knows: it needs no waking, and it will be given."""
        place = self._place(effect, at)
        if place is not None:
            self._places[place].wake = None

    def busy(self) -> None:
        """The program is at work: that is no standstill."""
        with self.ledger as shared:
            shared.moved()

    def give(self, effect: Effect, at: int) -> None:
        """The arrival is given."""
        place = self._place(effect, at)
        if place is not None:
            self._give(place)

    def front_effect(self) -> Effect | None:
        """The effect whose arrival is the next to be given."""
        front = self.ledger.front
        return self._places[front].effect if front < len(self._places) else None

    def wake_front(self) -> None:
        """Wake whoever waits here for the next arrival: another process may have given the one before it."""
        front = self.ledger.front
        _call(self._places[front].wake if front < len(self._places) else None)

    def forked(self) -> None:
        """In a child after a fork: whoever waits in the parent is woken there."""
        for place in self._places:
            place.wake = None

    # -- inside

    def _place(self, effect: Effect, at: int) -> int | None:
        places = self._own.get(effect.index, ())
        return places[at] if at < len(places) else None

    def _take(self, place: int) -> bool:
        with self.ledger:
            if self._slots[place] == DONE or self._flags[self._places[place].effect.index] & FREED:
                self._slots[place] = DONE
                return True
            if place != self.ledger.front:
                return False
            wake = self._done(place)
        _call(wake)
        return True

    def _give(self, place: int) -> None:
        with self.ledger:
            wake = None if self._slots[place] == DONE else self._done(place)
            self._places[place].wake = None
        _call(wake)

    def _done(self, place: int) -> Callable[[], None] | None:
        slot = self._places[place]
        self._slots[place], slot.wake = DONE, None
        self.ledger.moved(slot.arrival.at_ns)
        return self._advance()

    def _register(self, place: int, wake: Callable[[], None], loop: Any = None) -> bool:
        with self.ledger:
            if self._has_turn(place):
                return False
            self._slots[place], self._places[place].wake, self._places[place].loop = WAITED, wake, loop
            return True

    def _unregister(self, place: int) -> None:
        with self.ledger:
            self._places[place].wake = None
            if self._slots[place] == WAITED:
                self._slots[place] = OPEN

    def _has_turn(self, place: int) -> bool:
        """Whether this arrival may be given now; another process may have made it so without waking anybody here."""
        if self.ledger.front == place or self._slots[place] == DONE:
            return True
        return bool(self._flags[self._places[place].effect.index] & FREED)

    def _advance(self) -> Callable[[], None] | None:
        slots, front, end = self._slots, self.ledger.front, len(self._places)
        while front < end and slots[front] == DONE:
            front += 1
        self.ledger.front = front
        return self._places[front].wake if front < end else None

    def _free(self, effect: Effect) -> None:
        self._flags[effect.index] |= FREED
        for place in self._own.get(effect.index, ()):
            if self._slots[place] == OPEN:
                self._slots[place] = DONE

    def until_next_look(self) -> float:
        """Seconds for which a waiter may sleep before it looks whether its turn has come, or nothing moves."""
        patience = self._patience()
        return min(patience, POLL_S) if self.polls else patience

    @property
    def polls(self) -> bool:
        """Whether another process may give what is waited for here."""
        return self.ledger.shared

    def _patience(self) -> float:
        """Seconds without progress after which the recorded order is given up for what blocks the front."""
        shared = self.ledger
        with shared:
            front = shared.front
            if front >= len(self._places):
                return GRACE_S
            slot = self._places[front]
            issued = self._flags[slot.effect.index] & ISSUED
            awaited = slot.arrival.at_ns if issued else slot.effect.at_ns
            gap = max(0.0, (awaited - shared.recorded_ns) / 1e9)
            if issued:
                gap = min(gap, LONGEST_GAP_S)  # its reader is late, and the gap may be the model's own latency
            return max(0.001, max(shared.progress + 2 * gap, shared.held) + GRACE_S - monotonic())

    def standstill(self, blocked: Any = None) -> bool:
        """Let go of whatever holds up the earliest waiting arrival, if nothing has moved. Returns whether it did.

        `blocked` is the event loop that cannot run while the caller waits.
        """
        if self._patience() > 0.001:
            return False
        with self.ledger as shared:
            places = range(shared.front, len(self._places))
            waiting = next((place for place in places if self._slots[place] == WAITED), None)
            if waiting is None:
                return False
            held = [self._places[place] for place in places[: waiting - shared.front] if self._slots[place] != DONE]
            if held and held[0].effect.kind == SLEEP and not self._flags[held[0].effect.index] & ISSUED:
                held = held[:1]  # a wait that did not come again, a poll that was answered sooner, costs only itself
            blockers = {slot.effect.index: slot.effect for slot in held}
            first = self._places[waiting]
            blockers.pop(first.effect.index, None)
            helpless = first.wake is None or (blocked is not None and first.loop is blocked)
            if helpless and not blockers:
                # Its turn has come, and whoever waits for it does not take it: a process that was killed or is too
                # busy to be waited for, or a task whose loop the caller blocks.
                blockers[first.effect.index] = first.effect
                self._slots[waiting] = OPEN
            for effect in blockers.values():
                self._free(effect)
            shared.moved()
            wake = self._advance()
            if self._has_turn(waiting):
                wake = wake or first.wake
        for effect in blockers.values():
            self._let_go(effect)
        _call(wake)
        return True


class LoopTimer:
    """Looks on the waiting coroutine's own loop; late firings mean a busy loop and are armed again."""

    def __init__(self, loop: Any, order: Order, look: Callable[[], None]) -> None:
        self._loop, self._order, self._look = loop, order, look
        self._rearmed = 0
        self._not_before = 0.0
        self._arm()

    def _arm(self) -> None:
        delay = self._order.until_next_look()
        if delay < self._not_before - monotonic() and not self._order.polls:
            delay = GRACE_S
        self._due = monotonic() + delay
        self._handle = self._loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        now = monotonic()
        self._look()
        if now - self._due > LATE_S and self._rearmed < REARM:
            self._rearmed += 1
            self._not_before = now + GRACE_S
        if now >= self._not_before:
            self._order.standstill()
        self._arm()

    def cancel(self) -> None:
        self._handle.cancel()


def _given(effect: Effect, arrival: Arrival) -> bool:
    # An end that the program itself made (it closed, it was cancelled) is not given to it; nor are its own moves.
    return arrival.kind != "move" and (arrival.kind != "end" or effect.ended in ("eof", "error", "returned"))


def running_loop() -> Any:
    """The event loop that runs in this thread, or None. Costs a program without asyncio nothing."""
    events = sys.modules.get("asyncio.events")
    return None if events is None else events._get_running_loop()


def _call(wake: Callable[[], None] | None) -> None:
    if wake is not None:
        wake()

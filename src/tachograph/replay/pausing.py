"""Sleeps, waits that ran out of time and timers that fired, played again without waiting for the clock.

Each ends when its turn has come: all earlier arrivals of the run are given and the program is still
(`replay.stillness`), or as much time has passed as it asked for. Guarantees:

- one that the program or its end cut off is never completed;
- a wait or timer that did not run out in the recording keeps its real time-out, and so does one that no recording fits;
  that is counted as drift, never answered with somebody else's recording;
- a sleep of another length at the recorded place is reported; it ends when the recorded one's turn has come.

A wait is known by task path, call site and how often it came there before.
"""

from __future__ import annotations

from _thread import allocate_lock
from bisect import bisect_right
from time import monotonic, thread_time_ns

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.effect import SLEEP, Effect
from tachograph.replay import stillness
from tachograph.replay.ordering import LoopTimer, Order, running_loop
from tachograph.replay.pace import lasted_s
from tachograph.replay.played import block_for_ever
from tachograph.seams import context, port
from tachograph.seams.callsites import is_own, place_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Site = tuple[str, ...]

GRACE_S = 0.25  # for what the arrival before set off, however late that came
END = 0  # the only arrival of a sleep
OWN_SHARE_NS = 300_000  # of a slice: a loop that used more of it itself is not idle


class Pauses:
    """The recorded sleeps of a run, and those that are under way."""

    def __init__(
        self, effects: list[Effect], order: Order, *, take: Callable[[Effect], bool],
        served: Callable[[Effect, str], None], report: Callable[[int, int, bytes], None],
    ) -> None:  # fmt: skip
        """`take` claims an effect once; `served` reports it as consumed on a path."""
        self.order = order
        self._take, self._served, self._report = take, served, report
        self._starts: dict[str, list[int]] = {}
        self._sleeps: dict[tuple[str, str, Site], list[Effect]] = {}
        self._lapses: dict[tuple[str, str, Site, int], Effect] = {}
        for effect in effects:
            self._starts.setdefault(effect.path, []).append(effect.at_ns)
            if effect.kind == SLEEP and effect.nth:
                self._lapses[effect.path, effect.name, effect.site, effect.nth] = effect
            elif effect.kind == SLEEP:
                # By its whole site, and by its function: an edited line is looked for there.
                for site in (effect.site, effect.site[:2]):
                    self._sleeps.setdefault((effect.path, effect.name, site), []).append(effect)
        for waiting in self._sleeps.values():
            waiting.reverse()  # taken from the end
        self._sites: dict[int, Site] = {}
        self._watches: dict[Any, _LoopWatch] = {}
        self.armed: dict[int, Lapse] = {}
        self.extra: dict[tuple[str, Site], int] = {}

    def ask_sleep(self, form: str, seconds: float, place: int) -> Pause | None:
        """The sleep that was recorded there, or None and a note of drift."""
        path, site = context.here().path, self._site(place)
        queue = self._sleeps.get((path, form, site))
        if queue is None:
            queue = self._sleeps.get((path, form, site[:2]))
        effect = self._next(queue)
        if effect is None:
            self.note_extra(path, form, site)
            return None
        if effect.seconds != seconds:
            said = {"recorded": effect.seconds, "replayed": seconds, "own": is_own(place)}
            self._report(fr.SLEPT, effect.index, values.encode(said))
        self._served(effect, path)
        return Pause(self, effect)

    def _next(self, queue: list[Effect] | None) -> Effect | None:
        while queue:
            effect = queue.pop()
            if self._take(effect):
                return effect
        return None

    def ask_lapse(self, task: context.Place, form: str, place: int, nth: int) -> Lapse | None:
        """The recording of the nth wait or timer there, if it ran out of time."""
        effect = self._lapses.get((task.path, form, self._site(place), nth))
        if effect is None or not self._take(effect):
            return None
        self.order.issued(effect)
        return Lapse(self, effect, task.path)

    def next_start(self, effect: Effect) -> int:
        """When the task of this effect came to its next one; its own time where it came to none."""
        starts = self._starts[effect.path]
        after = bisect_right(starts, effect.at_ns)
        return starts[after] if after < len(starts) else effect.at_ns

    def served(self, effect: Effect, path: str) -> None:
        """A wait has run out of time, or a timer fires."""
        self._served(effect, path)

    def note_extra(self, path: str, form: str, site: Site) -> None:
        """Something ran out of time that did not in the recording."""
        key = path, (form, *site)
        self.extra[key] = self.extra.get(key, 0) + 1

    def extra_at(self, task: context.Place, form: str, place: int) -> None:
        """The same, for a place."""
        self.note_extra(task.path, form, self._site(place))

    def _site(self, place: int) -> Site:
        site = self._sites.get(place)
        if site is None:
            parts = fr.unpack_fields(place_text(place))[0]
            site = self._sites[place] = tuple(part.decode("utf-8", "replace") for part in parts)
        return site

    def due(self, effect: Effect, began: float) -> float:
        """When one that began then may end; at once, unless the replay keeps the recorded pace."""
        ledger = self.order.ledger
        if not ledger.paced:
            return began
        due = began + lasted_s(effect)
        ledger.keep_back(due)
        return due

    def block(self, effect: Effect, gate: Any, began: float) -> bool:
        """Block until the effect's turn, or until somebody else opens the gate; returns whether it was its turn."""
        order, due, turned = self.order, self.due(effect, began), False

        def wake() -> None:
            nonlocal turned
            turned = True
            try:
                gate.release()
            except RuntimeError:  # opened already
                pass

        try:
            if order.arm(effect, END, wake):
                blocked = running_loop()
                while not gate.acquire(timeout=order.until_next_look()):
                    if order.has_turn(effect, END):
                        break
                    order.standstill(blocked)
                else:
                    if not turned:
                        order.release(effect)
                        return False
            order.noticed(effect, END)
            left = due - monotonic()
            if left > 0 and gate.acquire(timeout=left):
                order.release(effect)
                return False
            until = _until(began, effect.seconds)
            while not stillness.is_alone() and monotonic() < until:
                mark = stillness.used_ns()
                if gate.acquire(timeout=stillness.SLICE_S):
                    order.release(effect)
                    return False
                if stillness.is_still(mark):
                    break
                order.busy()
        except BaseException:  # a signal's
            order.release(effect)
            raise
        order.give(effect, END)
        return True

    def watch(self, loop: Any) -> _LoopWatch:
        """The watch over this loop's armed timers."""
        watch = self._watches.get(loop)
        if watch is None:
            watch = self._watches[loop] = _LoopWatch(loop, self)
        return watch


def _until(began: float, seconds: float) -> float:
    """Until when a sleep whose turn has come now waits for a program that is not still."""
    return max(began + seconds, monotonic() + GRACE_S)


class Pause:
    """A recorded sleep, as the program sleeps it again."""

    __slots__ = ("_effect", "_pauses")

    def __init__(self, pauses: Pauses, effect: Effect) -> None:
        self._pauses, self._effect = pauses, effect

    def wait(self) -> None:
        """Block until its end's turn has come; for ever where the recorded one never ended."""
        if self._effect.ended != port.RETURNED:
            block_for_ever()
        gate = allocate_lock()
        gate.acquire()
        self._pauses.block(self._effect, gate, monotonic())


class Lapse:
    """A recorded wait that ran out of time, or a timer that fired."""

    __slots__ = ("_began", "_due", "_effect", "_fire", "_loop", "_over", "_path", "_pauses", "_until")

    def __init__(self, pauses: Pauses, effect: Effect, path: str) -> None:
        self._pauses, self._effect, self._path = pauses, effect, path
        self._began = self._due = monotonic()
        self._over = False
        self._until = 0.0
        self._loop: Any = None
        self._fire: Callable[[], None] | None = None

    @property
    def seconds(self) -> float:
        """What was asked for in the recording."""
        return self._effect.seconds

    @property
    def at_ns(self) -> int:
        """When it ran out, in nanoseconds since the run began."""
        return self._effect.at_ns

    def wait(self, gate: Any) -> bool:
        """Block until its turn (True), or until somebody else opens the gate (False)."""
        if gate is None:
            gate = allocate_lock()
            gate.acquire()
        expired = self._pauses.block(self._effect, gate, self._began)
        if expired:
            self._pauses.served(self._effect, self._path)
        return expired

    def arm(self, loop: Any, fire: Callable[[], None]) -> None:
        """Call `fire` on the loop when its turn has come. Call this on the loop's thread."""
        self._loop, self._fire = loop, fire
        self._due = self._pauses.due(self._effect, self._began)
        self._pauses.watch(loop).add(self._effect.index, self)
        if not self._pauses.order.arm(self._effect, END, self._wake, loop):
            loop.call_soon(self._look)

    def drop(self) -> None:
        """The program wants it no more: the recorded one fired, so it stays unconsumed."""
        if not self._over:
            self._end()
            self._pauses.order.release(self._effect)

    def _end(self) -> None:
        self._over = True
        self._pauses.watch(self._loop).remove(self._effect.index)

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # the loop is closed: nobody waits for it any more
            pass

    def _look(self) -> None:
        order, loop = self._pauses.order, self._loop
        if self._over or not order.has_turn(self._effect, END):
            return
        order.noticed(self._effect, END)
        left = self._due - monotonic()
        if left > 0:
            loop.call_later(left, self._look)
            return
        ready = getattr(loop, "_ready", None)
        if not self._until:
            self._until = _until(self._began, self._effect.seconds)
        if monotonic() >= self._until:
            self._go()
        elif ready:
            order.busy()
            loop.call_soon(self._look)
        elif ready is not None and stillness.is_alone():
            self._go()
        else:
            loop.call_later(stillness.SLICE_S, self._after_slice, stillness.used_ns(), thread_time_ns())

    def _after_slice(self, others_ns: int, own_ns: int) -> None:
        if self._over:
            return
        ready = getattr(self._loop, "_ready", None)
        idle = not ready if ready is not None else thread_time_ns() - own_ns < OWN_SHARE_NS
        if idle and stillness.is_still(others_ns):
            self._go()
        else:
            self._pauses.order.busy()
            self._look()

    def _go(self) -> None:
        following: Lapse | None = self
        while following is not None:
            following._end()
            self._pauses.order.give(following._effect, END)
            self._pauses.served(following._effect, following._path)
            following._until = monotonic() + GRACE_S
            following = following._fire_in_turn()

    def _fire_in_turn(self) -> Lapse | None:
        """Fire; returns the timer that fired in one go with this one.

        What this loop was given after the timer fired, and before that task came to its next effect, goes first: where
        the task then blocks the loop, nobody could take it.
        """
        pauses = self._pauses
        before = pauses.next_start(self._effect)
        if pauses.order.waited_before(before, self._loop) and monotonic() < self._until:
            self._loop.call_soon(self._fire_later)
            return None
        assert self._fire is not None
        self._fire()
        front = pauses.order.front_effect()
        if front is None or not front.together:
            return None
        lapse = pauses.armed.get(front.index)
        return lapse if lapse is not None and lapse._loop is self._loop else None

    def _fire_later(self) -> None:
        following = self._fire_in_turn()
        if following is not None:
            following._go()


class _LoopWatch:
    """Looks after one loop's armed timers: nobody else may be waiting that could notice a standstill."""

    def __init__(self, loop: Any, pauses: Pauses) -> None:
        self._loop, self._pauses = loop, pauses
        self._count = 0
        self._timer: LoopTimer | None = None

    def add(self, index: int, lapse: Lapse) -> None:
        """A timer is armed."""
        self._pauses.armed[index] = lapse
        self._count += 1
        if self._timer is None:
            self._timer = LoopTimer(self._loop, self._pauses.order, self._pauses.order.wake_front)

    def remove(self, index: int) -> None:
        """It fired, or is not wanted any more."""
        if self._pauses.armed.pop(index, None) is not None:
            self._count -= 1
        if self._count == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._pauses._watches.pop(self._loop, None)

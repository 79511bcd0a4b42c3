"""The seam of timers: what an event loop calls later, and with it every sleep and time-out of asyncio and anyio.

One low place covers `asyncio.sleep`, `wait_for`, `timeout`, `call_later`, anyio's `sleep` and `fail_after`: the method
of a loop that its others stand on, `call_at` (asyncio) or `call_later` (uvloop). A timer that fired is one effect; one
that was cancelled leaves nothing, and costs the program 1.4 us, an `asyncio.timeout` that was not needed 2.0 us
(CPython 3.11, a quiet machine; a loaded one took twice that). Rules:

- a timer below another seam (httpcore's connections) is not there in a replay, and is not watched;
- in a replay a timer whose recording fired does so when its turn has come. It never stands in the loop's own heap; any
  other keeps its real delay;
- timers that fired in one go, with nothing of the program between them, do so again (`together`);
- a loop whose timers fired early has a clock that says so, since anyio asks it whether a deadline has passed. Timers
  that keep their real delay are kept from that clock.
"""

from __future__ import annotations

from sys import _getframe
from time import monotonic

from tachograph.seams import port
from tachograph.seams.callsites import place_of, whence
from tachograph.seams.context import claimed, here
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from tachograph.seams.context import Place

TIMER = "timer"


def _skew_of(loop: Any) -> float:
    skew: float = loop.__dict__.get("_tachograph_skew", 0.0)
    return skew


class _Watched:
    """A timer's callback that says when it is called. To whoever looks at it, it is the callback."""

    __slots__ = ("__wrapped__", "_asked", "_loop", "_nth", "_place", "_task", "_when")

    def __init__(self, call: Any, loop: Any, when: float, asked: float, task: Place, place: int, nth: int) -> None:
        self.__wrapped__ = call
        self._loop = loop
        self._when = when
        self._asked = asked
        self._task = task
        self._place = place
        self._nth = nth

    def __call__(self, *args: Any) -> Any:
        listener, now = port.current, monotonic()
        if listener is not None:
            loop = self._loop
            lasted = now - self._asked
            seconds = self._when - (loop.time() - _skew_of(loop)) + lasted
            if seconds > 0:
                if listener.answers:
                    listener.extra_lapse(self._task, TIMER, round(seconds, 4), self._place)
                else:
                    together = _together(loop, self)
                    listener.lapsed(self._task, TIMER, round(seconds, 4), self._place, self._nth, lasted, together)
        return self.__wrapped__(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _together(loop: Any, fired: _Watched) -> bool:
    """Whether nothing of the program has run since the timer before this one fired."""
    kept = loop.__dict__
    ready: Any = getattr(loop, "_ready", None)
    if ready is None:  # uvloop shows nobody what waits: whatever is called soon runs behind the timers that are due
        before = kept.get("_tachograph_firing", False)
        if not before:
            kept["_tachograph_firing"] = True
            loop.call_soon(kept.__setitem__, "_tachograph_firing", False)
        return bool(before)
    together = kept.get("_tachograph_next") is fired
    following: Any = ready[0] if ready else None
    kept["_tachograph_next"] = following._callback if hasattr(following, "_when") else None
    return together


def _turn_handle(events: Any) -> Any:
    class TurnHandle(events.TimerHandle):  # type: ignore[misc]
        """A timer that fires when its turn has come. It never stood in the loop's heap."""

        __slots__ = ("_lapse",)

        def cancel(self) -> None:
            if not self._cancelled:
                self._lapse.drop()
            events.Handle.cancel(self)

        def fire(self) -> None:
            """Run the callback, with the loop's clock not before the time that was asked for."""
            if self._cancelled:
                return
            loop = self._loop
            behind = self._when - loop.time()
            if behind > 0:
                loop.__dict__["_tachograph_skew"] = _skew_of(loop) + behind
            self._run()

    return TurnHandle


class _Seam:
    """What both kinds of loop share: which timers are watched, and which fire by the record."""

    def __init__(self, events: Any) -> None:
        self._turns = _turn_handle(events)

    def take(self, loop: Any, when: float, callback: Any, args: Any, context: Any) -> tuple[Any, Any]:
        """Return the handle of a timer that fires by the record, or None; and the callback for one that does not.

        `when` is on the loop's clock as the program sees it. Called by what replaces the loop's method.
        """
        listener = port.current
        if listener is None or listener.asleep or claimed.get():
            return None, callback
        found = whence(_getframe(2))
        if found is None:
            return None, callback
        place, task = place_of(found), here()
        nth = task.count(place)
        if listener.answers:
            lapse = listener.ask_lapse(task, TIMER, when - loop.time(), place, nth)
            if lapse is not None:
                handle = self._turns(when, callback, args, loop, context)
                handle._lapse = lapse
                lapse.arm(loop, handle.fire)
                return handle, None
            when -= _skew_of(loop)
        return None, _Watched(callback, loop, when, monotonic(), task, place, nth)


def _patch_asyncio(module: ModuleType) -> None:
    loop, seam = module.BaseEventLoop, _Seam(module.events)
    original, clock, run_once = loop.call_at, loop.time, loop._run_once.__code__

    def call_at(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        listener = port.current
        if listener is None or when is None or self.is_closed():
            return original(self, when, callback, *args, context=context)
        if not listener.answers:  # written out: most timers are cancelled, and cost the program only this
            found = None if listener.asleep or claimed.get() else whence(_getframe(1))
            if found is not None:
                place, task = place_of(found), here()
                callback = _Watched(callback, self, when, monotonic(), task, place, task.count(place))
            return original(self, when, callback, *args, context=context)
        handle, watched = seam.take(self, when, callback, args, context)
        if handle is not None:
            return handle
        skew = self.__dict__.get("_tachograph_skew")
        return original(self, when if skew is None else when - skew, watched, *args, context=context)

    def time(self: Any) -> float:
        now: float = clock(self)
        skew = self.__dict__.get("_tachograph_skew")
        # The loop itself compares its heap with the real clock.
        return now if skew is None or _getframe(1).f_code is run_once else now + skew

    loop.call_at = call_at
    listener = port.current
    if listener is None or listener.answers:  # a recorder ends no timer early, and each turn of a loop asks the time
        loop.time = time


def _patch_uvloop(module: ModuleType) -> None:
    import asyncio.events  # here and not at the top: only a program with an event loop pays for it

    loop, seam = module.Loop, _Seam(asyncio.events)
    original, clock = loop.call_later, loop.time  # its call_at calls these two

    def call_later(self: Any, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if port.current is None or delay is None or self.is_closed():
            return original(self, delay, callback, *args, context=context)
        handle, watched = seam.take(self, self.time() + delay, callback, args, context)
        return handle if handle is not None else original(self, delay, watched, *args, context=context)

    def time(self: Any) -> float:
        return float(clock(self) + _skew_of(self))

    loop.call_later, loop.time = call_later, time


def install() -> None:
    """Watch asyncio's loops and uvloop's, each when the program imports it."""
    when_imported("asyncio.base_events", _patch_asyncio)
    when_imported("uvloop", _patch_uvloop)

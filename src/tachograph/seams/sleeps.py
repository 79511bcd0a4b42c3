"""The seam of blocking waits: `time.sleep`, and waits of threads that ended by their time-out.

A sleep is an effect from its start to its end. A wait with a time-out is one only if it expired: one that was notified
in time leaves nothing, and in a replay keeps its real time-out. Watched are `threading.Condition.wait`, on which
`Event.wait`, `Queue.get`, `Future.result`, `Semaphore.acquire` and `Barrier` stand, and `Thread.join`. What waits for
its own business (`subprocess`, a connection pool below another seam) passes through.

A playback that ends a wait early gives the thread a clock of its own: `threading`, `queue` and `sched` compute what is
left of a time-out from `skipped`, or they would wait again. Not reached: native code, and `acquire(timeout=)` of
locks: these are of native types that take no method of ours, and another type would change what the program sees.
"""

from __future__ import annotations

import time
from _thread import _local
from sys import _getframe
from time import monotonic

from tachograph.seams import port
from tachograph.seams.callsites import place_of, whence
from tachograph.seams.context import here
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

SLEEP, WAIT, JOIN = "time.sleep", "wait", "join"

_skew = _local()


def skipped() -> float:
    """The monotonic clock as this thread sees it: what it was spared of its waits counts as passed."""
    return monotonic() + getattr(_skew, "seconds", 0.0)


def spared(seconds: float, began: float) -> None:
    """Count a wait of so many seconds, begun then, as if this thread had waited that long."""
    _skew.seconds = getattr(_skew, "seconds", 0.0) + max(0.0, seconds - (monotonic() - began))


def _patch_sleep(module: ModuleType) -> None:
    original = module.sleep

    def sleep(seconds: Any, /) -> Any:
        listener = port.current
        if listener is None or listener.asleep or type(seconds) not in (int, float) or seconds <= 0:
            return original(seconds)
        found = whence(_getframe(1))
        if found is None:
            return original(seconds)
        place = place_of(found)
        if listener.answers:
            recorded = listener.ask_sleep(SLEEP, float(seconds), place)
            if recorded is None:
                return original(seconds)
            began = monotonic()
            recorded.wait()
            spared(seconds, began)
            return None
        exchange = listener.sleep(SLEEP, float(seconds), place)
        try:
            original(seconds)
        except BaseException:
            exchange.end(port.CUT_OFF)  # by a signal: it never ended by itself
            raise
        exchange.end(port.RETURNED)
        return None

    module.sleep = sleep  # type: ignore[attr-defined]


def _patch_threading(module: ModuleType) -> None:
    condition, thread = module.Condition, module.Thread
    original, original_join = condition.wait, thread.join
    module._time = skipped  # type: ignore[attr-defined]

    def wait(self: Any, timeout: Any = None) -> Any:
        listener = port.current
        if timeout is None or listener is None or listener.asleep or timeout <= 0:
            return original(self, timeout)
        found = whence(_getframe(1))
        if found is None:
            return original(self, timeout)
        task, place = here(), place_of(found)
        nth = task.count(place)
        began = monotonic()
        if listener.answers:
            lapse = listener.ask_lapse(task, WAIT, float(timeout), place, nth)
            if lapse is not None:
                return _wait_for_turn(self, lapse, float(timeout), began)
            notified = original(self, timeout)
            if not notified:
                listener.extra_lapse(task, WAIT, float(timeout), place)
            return notified
        notified = original(self, timeout)
        if not notified:
            listener.lapsed(task, WAIT, float(timeout), place, nth, monotonic() - began)
        return notified

    def _wait_for_turn(self: Any, lapse: port.Lapse, timeout: float, began: float) -> bool:
        """As `Condition.wait`, but for the time-out: it has passed when the recorded one's turn has come."""
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        waiter = module._allocate_lock()
        waiter.acquire()
        self._waiters.append(waiter)
        saved = self._release_save()
        expired = False
        try:
            expired = lapse.wait(waiter)
        finally:
            self._acquire_restore(saved)
            if expired:
                try:
                    self._waiters.remove(waiter)
                except ValueError:  # notified while this thread took the lock again, too late as in a live run
                    pass
                spared(timeout, began)
        return not expired

    def join(self: Any, timeout: Any = None) -> Any:
        listener = port.current
        if timeout is None or listener is None or listener.asleep or timeout <= 0 or not self.is_alive():
            return original_join(self, timeout)
        found = whence(_getframe(1))
        if found is None:
            return original_join(self, timeout)
        task, place = here(), place_of(found)
        nth = task.count(place)
        began = monotonic()
        if listener.answers:
            lapse = listener.ask_lapse(task, JOIN, float(timeout), place, nth)
            if lapse is not None:
                lapse.wait(None)
                spared(timeout, began)
                return None
            original_join(self, timeout)
            if self.is_alive():
                listener.extra_lapse(task, JOIN, float(timeout), place)
            return None
        original_join(self, timeout)
        if self.is_alive():
            listener.lapsed(task, JOIN, float(timeout), place, nth, monotonic() - began)
        return None

    condition.wait, thread.join = wait, join


def _patch_queue(module: ModuleType) -> None:
    module.time = skipped  # type: ignore[attr-defined]


def _patch_sched(module: ModuleType) -> None:
    init = module.scheduler.__init__
    init.__defaults__ = (skipped, *init.__defaults__[1:])


def install() -> None:
    """Watch `time.sleep` now, and the waits of threads when the program imports them."""
    _patch_sleep(time)
    when_imported("threading", _patch_threading)
    when_imported("queue", _patch_queue)
    when_imported("sched", _patch_sched)

"""The seam of `select` with a time-out, where the program's own files call it: `select.select`, and `selectors`.

One that found nothing until its time was over is an effect, as the waits of `seams.sleeps` are; one that found
something leaves nothing, and in a replay keeps its real time-out. A recorded one runs out again when its turn has come,
whatever is ready by then: a stub has written all that its program ever wrote. Event loops, clients and the standard
library call these for their own business, which other seams watch: for them it costs a look at the caller's code.

Not reached: `poll` and `epoll` objects of `select` themselves, which are native types that nothing can be put into; the
selectors that stand on them are.
"""

from __future__ import annotations

from sys import _getframe
from time import monotonic

from tachograph.seams import port
from tachograph.seams.callsites import is_own_code, place_of
from tachograph.seams.context import here
from tachograph.seams.imports import when_imported
from tachograph.seams.sleeps import spared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

SELECT = "select"


def _runs_out(
    listener: port.Listener, frame: FrameType, seconds: float, call: Callable[[], Any], nothing: Callable[[Any], bool]
) -> tuple[bool, Any]:
    """Return whether a recorded one ran out here, and what was found otherwise."""
    task, place = here(), place_of((frame.f_code, frame.f_lasti))
    nth, began = task.count(place), monotonic()
    if listener.answers:
        lapse = listener.ask_lapse(task, SELECT, seconds, place, nth)
        if lapse is not None:
            lapse.wait(None)
            spared(seconds, began)
            return True, None
        found = call()
        if nothing(found):
            listener.extra_lapse(task, SELECT, seconds, place)
        return False, found
    found = call()
    if nothing(found):
        listener.lapsed(task, SELECT, seconds, place, nth, monotonic() - began)
    return False, found


def _counts(listener: port.Listener | None, timeout: Any, frame: FrameType) -> bool:
    if listener is None or listener.asleep or type(timeout) not in (int, float) or timeout <= 0:
        return False
    return is_own_code(frame.f_code)


class _Select:
    """`select.select`; like a builtin, and unlike a function, it does not become a method of a class that holds it."""

    __slots__ = ("__wrapped__",)

    def __init__(self, original: Any) -> None:
        self.__wrapped__ = original

    def __call__(self, rlist: Any, wlist: Any, xlist: Any, timeout: Any = None, /) -> Any:
        original, listener, frame = self.__wrapped__, port.current, _getframe(1)
        if listener is None or not _counts(listener, timeout, frame):
            return original(rlist, wlist, xlist, timeout)
        over, found = _runs_out(
            listener, frame, float(timeout), lambda: original(rlist, wlist, xlist, timeout), lambda got: not any(got)
        )
        return ([], [], []) if over else found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _patch_select(module: ModuleType) -> None:
    module.select = _Select(module.select)  # type: ignore[attr-defined]


def _patch_selectors(module: ModuleType) -> None:
    for name in ("SelectSelector", "_PollLikeSelector", "EpollSelector", "DevpollSelector", "KqueueSelector"):
        kind = getattr(module, name, None)
        if kind is not None and "select" in vars(kind):
            _patch_selector(kind)


def _patch_selector(kind: Any) -> None:
    original = kind.select

    def select(self: Any, timeout: Any = None) -> Any:
        listener, frame = port.current, _getframe(1)
        if listener is None or not _counts(listener, timeout, frame):
            return original(self, timeout)
        over, found = _runs_out(
            listener, frame, float(timeout), lambda: original(self, timeout), lambda got: not got
        )  # fmt: skip
        return [] if over else found

    kind.select = select


def install() -> None:
    """Watch them when the program imports `select` or `selectors`."""
    when_imported("select", _patch_select)
    when_imported("selectors", _patch_selectors)

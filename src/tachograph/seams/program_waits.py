"""The seam of waits for a started program: `Popen.wait` and `communicate` with a time-out, and `Popen.poll`.

On these stand `subprocess.run`, `call` and `check_output`. A wait that ran out is an effect of its own, as those of
`seams.sleeps` are; one that did not leaves nothing. In a replay:

- the recorded one runs out when its turn has come, with the output that it had read by then, however much earlier or
  later the program's stub, or the child that runs again, writes and ends;
- one that did not run out in the recording is given `PATIENCE_S` more than it asks for: a child that runs again begins
  later than it did, and its parent must not give it up for that;
- a poll finds the program running as often as it did, then waits for its end.

A wait that ran out after the program had closed its streams (`CLOSED`) says what was left of the time-out.
"""

from __future__ import annotations

from _thread import get_ident
from sys import _getframe
from time import monotonic

from tachograph.seams import port
from tachograph.seams.callsites import place_of, whence
from tachograph.seams.context import here
from tachograph.seams.imports import when_imported
from tachograph.seams.sleeps import spared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any

    from tachograph.seams.context import Place

PROGRAM, CLOSED = "program", "program closed"
PATIENCE_S = 5.0  # a Python that starts on a loaded machine took 1.5 s


def _place(frame: FrameType | None) -> int | None:
    """Return the place from which `subprocess` was called, or None where it does not count."""
    while frame is not None and frame.f_globals.get("__name__") == "subprocess":
        frame = frame.f_back
    found = whence(frame)
    return None if found is None else place_of(found)


class _RunsOut:
    """A recorded wait that runs out again: until then, what had been fed and read by its end still passes."""

    def __init__(self, process: Any, lapse: port.Lapse, due: tuple[int, int, int], until: float) -> None:
        self._process, self._lapse, self._until = process, lapse, until
        self._fed, *self._read = due
        self._over = False

    def _parts(self) -> list[bytes]:
        outputs = getattr(self._process, "_fileobj2output", {})
        return [b"".join(outputs.get(file, ())) for file in (self._process.stdout, self._process.stderr)]

    def remaining(self, _endtime: Any) -> float:
        """Seconds for which `communicate` goes on; negative when the time-out's turn has come."""
        process, left = self._process, self._until - monotonic()
        given, fed = len(process.__dict__.get("_input") or b""), process.__dict__.get("_input_offset", 0)
        stdin = process.stdin
        feeding = stdin is not None and not stdin.closed and fed < min(given, self._fed)
        short = any(len(part) < due for part, due in zip(self._parts(), self._read, strict=True))
        if left > 0 and (feeding or short):
            return left
        self.wait()
        return -1.0

    def wait(self) -> None:
        """Block until its turn has come."""
        if not self._over:
            self._over = True
            self._lapse.wait(None)

    def outputs(self) -> list[bytes | None]:
        """What it had read by its end, as the exception says it."""
        return [part[:due] if due else None for part, due in zip(self._parts(), self._read, strict=True)]


def _patch(module: ModuleType) -> None:
    popen, expired = module.Popen, module.TimeoutExpired
    original_wait, original_communicate, original_poll = popen.wait, popen.communicate, popen.poll

    def wait(self: Any, timeout: Any = None) -> Any:
        inside = self.__dict__.get("_tachograph_waits")
        if inside is not None and inside[0] == get_ident():
            if inside[1] is not None:  # `communicate` has read all: this is what is left of its time-out
                inside[1].wait()
                raise expired(self.args, timeout)
            return original_wait(self, timeout)
        listener, place = _watched(self, timeout, _getframe(1))
        if listener is None or place is None:
            return original_wait(self, timeout)
        task, began = here(), monotonic()
        nth = task.count(place)
        if not listener.answers:
            try:
                return original_wait(self, timeout)
            except expired:
                listener.lapsed(task, PROGRAM, float(timeout), place, nth, monotonic() - began)
                raise
        lapse = listener.ask_lapse(task, PROGRAM, float(timeout), place, nth)
        if lapse is None:
            return _patiently(listener, original_wait, self, timeout, task=task, place=place)
        lapse.wait(None)
        spared(timeout, began)
        raise expired(self.args, timeout)

    def communicate(self: Any, input: Any = None, timeout: Any = None) -> Any:
        listener, place = _watched(self, timeout, _getframe(1))
        if listener is None or place is None:
            return original_communicate(self, input, timeout)
        task, began = here(), monotonic()
        nth = task.count(place)
        self._tachograph_waits = (get_ident(), None)
        try:
            if not listener.answers:
                try:
                    return original_communicate(self, input, timeout)
                except expired as fault:
                    form, left = (PROGRAM, timeout) if fault.timeout == timeout else (CLOSED, fault.timeout)
                    listener.lapsed(task, form, float(left), place, nth, monotonic() - began)
                    raise
            form, lapse = PROGRAM, listener.ask_lapse(task, PROGRAM, float(timeout), place, nth)
            if lapse is None:
                form, lapse = CLOSED, listener.ask_lapse(task, CLOSED, float(timeout), place, nth)
            if lapse is None:
                return _patiently(listener, original_communicate, self, input, timeout, task=task, place=place)
            due = self._tachograph.due(lapse)
            runs_out = _RunsOut(self, lapse, due, began + timeout + PATIENCE_S)
            self._tachograph_waits = (get_ident(), runs_out)
            if form == PROGRAM:
                self._remaining_time = runs_out.remaining
            try:
                original_communicate(self, input, timeout + PATIENCE_S)
                runs_out.wait()  # another thread has waited for its end
                raise expired(self.args, timeout)
            except expired as fault:
                fault.timeout = timeout if form == PROGRAM else lapse.seconds
                fault.output, fault.stderr = runs_out.outputs() if form == PROGRAM else (None, None)
                raise
            finally:
                self.__dict__.pop("_remaining_time", None)
                spared(timeout, began)
        finally:
            self.__dict__.pop("_tachograph_waits", None)

    def _patiently(
        listener: port.Answers, original: Any, process: Any, *args: Any, task: Place, place: int
    ) -> Any:  # fmt: skip
        timeout = args[-1]
        try:
            return original(process, *args[:-1], timeout + PATIENCE_S)
        except expired as fault:
            fault.timeout = timeout
            listener.extra_lapse(task, PROGRAM, float(timeout), place)
            raise

    def poll(self: Any) -> Any:
        exchange = self.__dict__.get("_tachograph")
        if exchange is None or self.returncode is not None:
            return original_poll(self)
        listener = port.current
        if listener is None or not listener.answers:
            status = original_poll(self)
            if status is None:
                exchange.polled()
            return status
        runs = exchange.polled()
        if runs is None:
            return original_poll(self)
        if not runs:
            try:
                original_wait(self, PATIENCE_S)
            except expired:
                pass
        return self.returncode

    popen.wait, popen.communicate, popen.poll = wait, communicate, poll


def _watched(process: Any, timeout: Any, frame: FrameType | None) -> tuple[port.Listener | None, int | None]:
    """Return who hears of this wait, and its place; None for one that counts for nobody."""
    listener = port.current
    if timeout is None or listener is None or listener.asleep or "_tachograph" not in process.__dict__:
        return None, None
    return listener, _place(frame)


def install() -> None:
    """Watch the waits for started programs when the program imports `subprocess`."""
    when_imported("subprocess", _patch)

"""What a playback hands to the seams: the recorded arrivals of one effect, each when its turn has come.

An effect that the program cut off is never completed for it: asking for more than was given then blocks, as the
recorded program was left waiting. Anything past the recorded end of an answer is a miss (`Playback.past_end`). Standard
library only.
"""

from __future__ import annotations

from _thread import allocate_lock

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.model.effect import PUSHED_LIBRARIES
from tachograph.replay.pace import Pace
from tachograph.seams import port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tachograph.model.effect import Effect
    from tachograph.replay.playback import Playback


class Given:
    """One arrival as a seam sees it."""

    __slots__ = ("_effect", "_playback", "data", "flags", "how", "kind")

    def __init__(self, playback: Playback, effect: Effect, kind: int, data: bytes, how: str) -> None:
        self._playback = playback
        self._effect = effect
        self.kind = kind
        self.data = data
        self.how = how
        self.flags = 0

    def head(self) -> tuple[int, port.Headers, bytes, bytes]:
        """Status, headers, HTTP version and reason."""
        effect = self._effect
        return effect.status, effect.response_headers, effect.version, effect.reason

    def error(self) -> BaseException:
        """The exception with which the effect ended, made anew. Raises EffectMissed where its class is not here."""
        return self._playback.error_of(self._effect)


_KINDS = {"head": fr.HEAD, "chunk": fr.CHUNK, "wire": fr.WIRE, "move": fr.MOVE, "end": fr.END}


class Played:
    """One recorded effect on its way to the program: each arrival when its turn has come."""

    __slots__ = ("_at", "_effect", "_given", "_pace", "_playback")

    def __init__(self, playback: Playback, effect: Effect) -> None:
        self._playback = playback
        self._effect = effect
        self._at = 0  # among all arrivals
        self._given = 0  # among those that have a place in the order
        self._pace = Pace(playback.ledger, effect) if playback.ledger.paced else None

    def wait(self) -> Given:
        """Block until the next arrival's turn has come."""
        if not self._left():
            self._playback.past_end(self._effect)
            block_for_ever()
        if not self._moves():
            if self._pace is not None:
                self._pace.wait(self._effect.arrivals[self._at].at_ns)
            self._playback.order.wait(self._effect, self._given)
        return self._next()

    async def wait_async(self) -> Given:
        """The same, for a coroutine; an effect that the program cut off is never completed."""
        if not self._left():
            self._playback.past_end(self._effect)
            from asyncio import get_running_loop  # here and not at the top: see replay.ordering

            await get_running_loop().create_future()
        if not self._moves():
            if self._pace is not None:
                await self._pace.wait_async(self._effect.arrivals[self._at].at_ns)
            await self._playback.order.wait_async(self._effect, self._given)
        return self._next()

    def due(self) -> bool:
        """Whether something comes next; if not, the effect never completed, or the program wanted no more of it."""
        return self._left()

    def _moves(self) -> bool:
        return self._effect.arrivals[self._at].kind == "move"

    def _left(self) -> bool:
        arrivals = self._effect.arrivals
        if self._at >= len(arrivals):
            return False
        return arrivals[self._at].kind != "end" or self._effect.ended in (port.EOF_, port.ERROR, port.RETURNED)

    def _next(self) -> Given:
        arrival = self._effect.arrivals[self._at]
        self._at += 1
        self._given += arrival.kind != "move"
        data = arrival.data
        self._playback.touched(len(data))
        return Given(self._playback, self._effect, _KINDS[arrival.kind], data, self._effect.ended)

    def send_fault(self) -> BaseException | None:
        """Return the error that sending the request raised, if that comes next."""
        arrivals, at = self._effect.arrivals, self._at
        if at >= len(arrivals) or arrivals[at].kind != "move" or not arrivals[at].data.startswith(port.SEND_FAILED):
            return None
        moved = self.wait()
        fault = values.decode(moved.data[len(port.SEND_FAILED) :])
        if not isinstance(fault, BaseException):
            self._playback.unrestorable(self._effect, repr(fault))
        assert isinstance(fault, BaseException)
        return fault

    def close(self) -> None:
        """The program wants no more of it: if the recording went on, that is reported as read less."""
        arrivals = self._effect.arrivals
        if self._effect.library in PUSHED_LIBRARIES:  # what came before its reader's next move was not read then either
            while self._at < len(arrivals) and arrivals[self._at].kind == "wire":
                self._at += 1
        self._playback.closed(self._effect, self._at)


def block_for_ever() -> None:
    """Block this thread until the program or the replay ends it: the recorded effect never completed."""
    gate = allocate_lock()
    gate.acquire()
    while not gate.acquire(timeout=3600):
        pass


class Declared:
    """The recorded outcome of a declared effect, when its turn has come."""

    __slots__ = ("_effect", "_playback", "_played")

    def __init__(self, playback: Playback, effect: Effect) -> None:
        self._playback = playback
        self._effect = effect
        self._played = Played(playback, effect)

    def wait(self) -> Any:
        """Return the recorded value or raise the recorded error."""
        self._played.wait()
        return self._outcome()

    async def wait_async(self) -> Any:
        """The same, for a coroutine."""
        await self._played.wait_async()
        return self._outcome()

    def _outcome(self) -> Any:
        effect = self._effect
        restored = values.restore(effect.error or effect.value)
        if restored.lost:
            self._playback.unrestorable(effect, repr(restored.lost[0]))
        if effect.error:
            raise restored.value
        return restored.value

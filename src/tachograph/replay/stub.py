"""A started program as recorded: what its stub writes and how it ends, and whether it is fed what it was fed.

The subprocess seam starts the stub; here stands what it plays. Guarantees:

- what the stub is fed is compared as the program feeds it: other input is a miss before the program has its answer, as
  far as the recorded program read (a feed that it broke off is compared up to there);
- a program that had been sent a signal does not end before it is sent one again: a time-out runs out in a replay too.
"""

from __future__ import annotations

from tachograph.comparison.leaves import common_prefix
from tachograph.replay.pace import steps_of
from tachograph.seams import port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tachograph.model.effect import Effect
    from tachograph.replay.playback import Playback

_BEFORE, _SHOWN = 40, 400  # bytes of the input that a miss shows: before the first difference, and in all


class StubOf:
    """A started program as recorded, for the subprocess seam; what it is fed must be what the recorded one was fed."""

    __slots__ = (
        "_effect", "_fed", "_playback", "_polls", "again", "fed", "path", "recorded", "refusal", "status", "stderr",
        "stdout", "steps", "until_signalled",
    )  # fmt: skip

    def __init__(self, playback: Playback, effect: Effect, refusal: BaseException | None) -> None:
        self._playback, self._effect, self._fed = playback, effect, b""
        self._polls = 0
        self.recorded, self.again, self.path = True, False, ""
        self.stdout, self.stderr = effect.output(1), effect.output(2)
        self.status = effect.exit_status or 0
        self.refusal = refusal
        self.fed = None if effect.body_complete else len(effect.body)
        self.steps = steps_of(effect) if playback.ledger.paced else None
        self.until_signalled = effect.ended == port.CUT_OFF

    def part(self, data: bytes) -> None:
        """Compare what it is fed so far. Raises EffectMissed where the recorded program was fed something else."""
        self._fed += data
        recorded = self._effect.body
        if not recorded.startswith(self._fed) and (self._effect.body_complete or not self._fed.startswith(recorded)):
            self._playback.fed_otherwise(self._effect, self._difference())

    def sent(self) -> None:
        """Compare all that it was fed. Raises EffectMissed where the recorded program was fed more."""
        if self._effect.body_complete and self._fed != self._effect.body:
            self._playback.fed_otherwise(self._effect, self._difference())

    def chunk(self, data: bytes, stream: int = 0) -> None:
        """What the stub plays is known."""

    def started(self, pid: int, path: str) -> None:
        """Which process plays it does not matter."""

    def signalled(self) -> None:
        """The stub ends by the signal itself."""

    def exited(self, status: int) -> None:
        """How it ends is known."""

    def polled(self) -> bool | None:
        """Whether it was found running when its parent asked the nth time; None where the record does not say."""
        effect = self._effect
        if effect.exit_status is None:
            return True  # its parent never saw it end
        self._polls += 1
        if self._polls <= effect.polls:
            return True
        return None if self.until_signalled else False

    def due(self, lapse: port.Lapse) -> tuple[int, int, int]:
        """Bytes of its input at most, of its stdout and of its stderr that had passed when that wait ran out."""
        arrivals, until = self._effect.arrivals, lapse.at_ns
        read = [sum(len(a.data) for a in arrivals if a.stream == stream and a.at_ns < until) for stream in (1, 2)]
        return len(self._effect.body), read[0], read[1]

    def _difference(self) -> dict[str, str]:
        start = max(0, common_prefix(self._effect.body, self._fed) - _BEFORE)
        recorded, replayed = (
            data[start : start + _SHOWN].decode("utf-8", "backslashreplace") for data in (self._effect.body, self._fed)
        )
        return {"path": "/stdin", "recorded": recorded, "replayed": replayed}

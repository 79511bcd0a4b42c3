"""A log read for what its capture's skeleton says, its content let go as soon as it was looked at.

Of each effect stay its kind, how it ended, its address, headers and tags, and of a model call what was read in it
(`Glimpse`). At any time the bodies of those model calls are in memory that are under way, and nobody else's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tachograph.dialects.reading import AnswerReading, RequestReading
from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats.effect_log import EffectLog, Reader, settle
from tachograph.intake.readings import dialect_of, read_answer, read_request
from tachograph.model.effect import Effect

LONGEST = 1024  # bytes of a skeleton string (contracts/capture-v1.md, rule 3)
_CONTENT = frozenset((fr.BODY, fr.CHUNK, fr.WIRE, fr.MOVE))
_NOT_LOOKED_AT = frozenset((fr.STREAM, fr.FILE_BEFORE, fr.FILE_AFTER, fr.FILE_PART, fr.FILES_READ, fr.DRAWS))


class Glimpse(NamedTuple):
    """What a skeleton and its title need of a model call."""

    said: dict[str, Any]
    user: str
    asked: int
    stop_reason: str | None


class Sketch:
    """What was read of a log. `log` has its effects without their content, and neither draws nor streams."""

    def __init__(self, about: dict[str, Any] | None = None) -> None:
        self._reader = Reader()
        self.log: EffectLog = self._reader.log
        self.glimpses: dict[int, Glimpse] = {}
        self.draws = 0
        if about is not None:
            self.log.about.append(about)

    @classmethod
    def of(cls, frames: Iterable[fr.Frame], about: dict[str, Any] | None = None) -> Sketch:
        """Read all frames of a log. Raises FormatError where one is not what its kind says."""
        sketch = cls(about)
        try:
            for frame in frames:
                sketch.take(frame)
        except (KeyError, ValueError) as fault:
            raise FormatError(f"a frame of the log does not hold what its kind says: {fault!r}") from fault
        for effect in sketch.log.effects:
            sketch._look_at(effect)
        return sketch

    def take(self, frame: fr.Frame) -> None:
        """Look at one frame. Raises FormatError, KeyError or ValueError where it is not what its kind says."""
        if frame.draws:
            self.draws += len(fr.draw_places(frame.draws))
        kind = frame.kind
        if kind in _NOT_LOOKED_AT:
            return
        known = self._reader.effect(frame.effect) if frame.effect else None
        if kind in _CONTENT and known is not None and (known.index in self.glimpses or dialect_of(known) is None):
            return
        self._reader.take(fr.Frame(kind, frame.flags, frame.decision, frame.effect, frame.path, frame.parent,
                                   frame.at_ns, b"", frame.payload))  # fmt: skip
        effect = self._reader.effect(frame.effect) if frame.effect else None
        if effect is not None and (kind in fr.ENDS or dialect_of(effect) is None):
            self._look_at(effect)

    def _look_at(self, effect: Effect) -> None:
        if effect.index not in self.glimpses and dialect_of(effect) is not None:
            settle(effect)
            self.glimpses[effect.index] = glimpse(effect.url, read_request(effect), read_answer(effect))
        effect.body = effect.inputs = effect.value = b""
        effect.pieces, effect.arrivals = [], []


def glimpse(url: str, request: RequestReading | None, answer: AnswerReading | None) -> Glimpse:
    """Return what a skeleton and its title need of a model call."""
    place = urlsplit(url)
    said: dict[str, Any] = {"endpoint": short(f"{place.scheme}://{place.hostname or ''}") or "unavailable"}
    model = short(request.model) if request is not None else None
    if model:
        said["model"] = model
    if answer is not None and answer.usage:
        said["usage"] = {
            name: value for name, value in answer.usage.items() if type(value) is int and abs(value) < 1 << 53
        }  # fmt: skip
    users = [one.text for one in request.messages if one.role == "user" and one.text] if request else []
    asked, stop = (0, None) if answer is None else (len(answer.tool_calls), answer.stop_reason)
    return Glimpse(said, line(users[-1]) if users else "", asked, stop)


def line(text: str) -> str:
    """Return a text as the beginning of one line."""
    return " ".join(text.split())[:200]


def short(text: Any) -> str | None:
    """Return a text that may stand in a skeleton, or None."""
    if not isinstance(text, str) or not text or len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        return None
    return text if text.isprintable() else None

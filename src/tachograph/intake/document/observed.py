"""A log read once for its document: of every effect what the document says of it, large bodies as digests alone.

Of model calls the bodies are held until they end, since they are read then; of everything else bytes are hashed as they
come. What the last model call was sent is kept as text: the document shows where memory entries stand in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from tachograph.dialects.reading import AnswerReading, RequestReading
from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats.effect_log import EffectLog, Reader, settle
from tachograph.formats.wire import Deframer
from tachograph.intake.readings import dialect_of, read_answer, read_request
from tachograph.intake.sketch import Glimpse, glimpse
from tachograph.model.effect import WIRE_LIBRARIES, Effect

MOST_TEXT = 1 << 20  # bytes of stdout that may become the final output as text
_BODIES = frozenset((fr.BODY, fr.CHUNK, fr.WIRE))
_PASSED = frozenset((fr.FILE_BEFORE, fr.FILE_PART, fr.FILES_READ, fr.DRAWS, fr.MOVE))


class Hashed:
    """Bytes that came in pieces: their digest and number, the first of them where they may be needed as text.

    With `whole`, all of them are kept: for an export, which gives them away.
    """

    __slots__ = ("_hash", "_parts", "head", "size")

    def __init__(self, *, whole: bool = False) -> None:
        self._hash = sha256()
        self._parts: list[bytes] | None = [] if whole else None
        self.size = 0
        self.head = b""

    def add(self, data: bytes, *, keep: int = 0) -> None:
        """Take one piece; up to `keep` bytes of all are kept."""
        self._hash.update(data)
        if self._parts is not None:
            self._parts.append(data)
        if keep and len(self.head) < keep:
            self.head += data[: keep - len(self.head)]
        self.size += len(data)

    @property
    def digest(self) -> str:
        """`sha256:` and 64 digits."""
        return "sha256:" + self._hash.hexdigest()

    @property
    def content(self) -> bytes | str:
        """The bytes where they were kept, else their digest."""
        return self.digest if self._parts is None else b"".join(self._parts)


class Seen:
    """One effect as the document needs it."""

    def __init__(self, effect: Effect, *, whole: bool = False) -> None:
        self.effect = effect
        self.dialect = dialect_of(effect)
        self.request, self.response = Hashed(whole=whole), Hashed(whole=whole)
        self.chunks: list[list[float]] = []
        self.ended_ns: int | None = None
        self.asked: RequestReading | None = None
        self.answered: AnswerReading | None = None
        self._deframer = Deframer(bodiless=effect.method == "HEAD") if effect.library in WIRE_LIBRARIES else None

    def body(self, data: bytes) -> None:
        """A part of the request."""
        self.request.add(data)

    def arrived(self, kind: int, data: bytes, at_ns: int) -> None:
        """A part of the answer; of what a read of the socket gave, the bytes of the body."""
        if kind == fr.WIRE and self._deframer is not None:
            data = self._deframer.feed(data)
        if data:
            self.response.add(data)
            self.chunks.append([len(data), round((at_ns - self.effect.at_ns) / 1e6, 3)])

    def finish(self, at_ns: int | None) -> None:
        """The effect has ended, or the log has; large parts are let go."""
        effect = self.effect
        if self.ended_ns is None:
            self.ended_ns = at_ns
        if self.dialect is not None:
            settle(effect)
            self.asked, self.answered = read_request(effect), read_answer(effect)
            effect.arrivals = []
            effect.body = b""


class Observed:
    """What was read of a log. `number` is the decision's number in the run, 0 where it is the run."""

    def __init__(
        self, about: dict[str, Any] | None = None, *, number: int = 0, names: Iterable[fr.Frame] = (),
        whole: bool = False,
    ) -> None:  # fmt: skip
        self._reader = Reader(names)
        self.log: EffectLog = self._reader.log
        self.number = number
        self.seen: dict[int, Seen] = {}
        self.order: list[int] = []  # of ends
        self._whole = whole
        self.streams = {stream: Hashed(whole=whole) for stream in (0, 1, 2)}
        self.frames = Hashed()
        self.last_ns = 0
        self.draws = 0
        self.glimpses: dict[int, Glimpse] = {}
        self._latest: Seen | None = None
        if about is not None:
            self.log.about.append(about)

    @classmethod
    def of(
        cls, frames: Iterable[fr.Frame], about: dict[str, Any] | None = None, *, number: int = 0,
        names: Iterable[fr.Frame] = (), whole: bool = False,
    ) -> Observed:  # fmt: skip
        """Read all frames of a log; `names` are those that name paths and call sites. `whole` keeps all bytes.

        Raises FormatError where one is not what its kind says.
        """
        observed = cls(about, number=number, names=names, whole=whole)
        try:
            for frame in frames:
                observed.take(frame)
        except (KeyError, ValueError) as fault:
            raise FormatError(f"a frame of the log does not hold what its kind says: {fault!r}") from fault
        observed.done()
        return observed

    def take(self, frame: fr.Frame) -> None:
        """Read one frame. Raises FormatError, KeyError or ValueError where it is not what its kind says."""
        kind, payload = frame.kind, frame.payload
        if kind == fr.ABOUT:
            self._reader.take(frame)
            return
        if kind in (fr.PATH, fr.SITE):
            return
        self.frames.add(frame.written())
        if frame.draws:
            self.draws += len(fr.draw_places(frame.draws))
        self.last_ns = max(self.last_ns, frame.at_ns)
        if kind == fr.STREAM:
            self.streams[frame.flags].add(payload, keep=MOST_TEXT + 1)
            return
        if kind in _PASSED:
            return
        seen = self.seen.get(frame.effect) if frame.effect else None
        if seen is not None and kind in _BODIES:
            if kind == fr.BODY:
                seen.body(payload)
            else:
                seen.arrived(kind, payload, frame.at_ns)
            if seen.dialect is None:
                return
        self._reader.take(fr.Frame(kind, frame.flags, frame.decision, frame.effect, frame.path, frame.parent,
                                   frame.at_ns, b"", payload))  # fmt: skip
        if kind in fr.STARTS:
            self._started(frame)
        elif seen is not None and kind in fr.ENDS:
            self._ended(seen, frame.at_ns)

    def _started(self, frame: fr.Frame) -> None:
        effect = self._reader.effect(frame.effect)
        assert effect is not None
        seen = self.seen[effect.index] = Seen(effect, whole=self._whole)
        if effect.body:
            seen.body(effect.body)
            if seen.dialect is None:
                effect.body = b""
        if frame.kind == fr.LAPSED:
            self._ended(seen, frame.at_ns)

    def _ended(self, seen: Seen, at_ns: int) -> None:
        self.order.append(seen.effect.index)
        self._finish(seen, at_ns)

    def _finish(self, seen: Seen, at_ns: int | None) -> None:
        seen.finish(at_ns)
        if seen.dialect is not None:
            self.glimpses[seen.effect.index] = glimpse(seen.effect.url, seen.asked, seen.answered)
        if seen.asked is None:
            return
        if self._latest is not None and self._latest.effect.at_ns > seen.effect.at_ns:
            seen.asked = _without_texts(seen.asked)
            return
        if self._latest is not None and self._latest.asked is not None:
            self._latest.asked = _without_texts(self._latest.asked)
        self._latest = seen

    def done(self) -> None:
        """No more frames come."""
        for seen in self.seen.values():
            if seen.ended_ns is None:
                self._finish(seen, None)

    @property
    def effects(self) -> list[Seen]:
        """The decision's own effects, in the order in which they started."""
        return [one for one in self.seen.values() if self.number in (0, one.effect.decision)]

    @property
    def model_calls(self) -> list[Seen]:
        """Those that asked a model, in a known dialect."""
        return [one for one in self.effects if one.asked is not None]

    def said(self, *kinds: int) -> list[dict[str, Any]]:
        """What the decision's facts of these kinds say, in order."""
        return [fact.said for fact in self.log.of(*kinds) if fact.decision == self.number]


def _without_texts(asked: RequestReading) -> RequestReading:
    return RequestReading(
        model=asked.model, sampling=asked.sampling, stream=asked.stream, reasons=asked.reasons,
    )  # fmt: skip

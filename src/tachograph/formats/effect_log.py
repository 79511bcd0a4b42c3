"""Logs read: from the frames of a run to effects, draws and facts, in one pass.

A log is written by intake with numbers that hold for the whole run, and with times (`at_ns`, since the run began) that
are made strictly increasing: the time of a frame is also its place in the run's one order. So the logs of a run (its
own and one per decision) merge by time alone. Nothing is guessed: an effect without an end frame is `open_at_end`, a
streamed request without its last part is not `body_complete`.

Standard library only: a replayed program reads the tape with this.
"""

from __future__ import annotations

from contextlib import contextmanager

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.wire import Deframer
from tachograph.model.effect import CHUNK, END, HEAD, HTTP, MOVE, SLEEP, SUBPROCESS, WIRE, Arrival, Draw, Effect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any


_NAMES = frozenset((fr.PATH, fr.SITE))
_CONTENT = frozenset((fr.CALL, fr.BODY, fr.CHUNK, fr.WIRE))
_LARGE = 4096  # bytes of a frame: below it a copy costs less than a view


class Fact:
    """Something that the program or the recorder said, at its place in the run's order."""

    __slots__ = ("at_ns", "decision", "flags", "kind", "parent", "path", "payload")

    def __init__(self, frame: fr.Frame, path: str) -> None:
        self.kind = frame.kind
        self.flags = frame.flags
        self.at_ns = frame.at_ns
        self.decision = frame.decision
        self.parent = frame.parent
        self.path = path
        self.payload = frame.payload

    @property
    def said(self) -> dict[str, Any]:
        """The fact as a mapping. Raises FormatError if it is none."""
        decoded = values.decode(self.payload)
        if not isinstance(decoded, dict):
            raise FormatError(f"a {fr.NAMES.get(self.kind, self.kind)} frame does not hold a mapping")
        return decoded


class EffectLog:
    """A run, or a decision of it, as read from its logs."""

    def __init__(self) -> None:
        self.about: list[dict[str, Any]] = []
        self.effects: list[Effect] = []
        self.draws: list[Draw] = []
        self.facts: list[Fact] = []
        self.streams: dict[int, bytes] = {0: b"", 1: b"", 2: b""}

    def of(self, *kinds: int) -> list[Fact]:
        """Return the facts of these frame kinds, in order."""
        return [fact for fact in self.facts if fact.kind in kinds]

    def first(self, kind: int) -> dict[str, Any]:
        """Return the first fact of that kind, or an empty mapping."""
        found = self.of(kind)
        return found[0].said if found else {}


def read_effect_log(logs: Iterable[bytes | memoryview]) -> EffectLog:
    """Read and merge the logs of one run. Raises FormatError where bytes do not parse."""
    views = [memoryview(log) for log in logs]
    order = sorted((at, number, start, end) for number, log in enumerate(views) for at, start, end in fr.places(log))
    names = (one for one in order if views[one[1]][one[2]] in _NAMES)
    with _said_plainly():
        reader = Reader(fr.read_frame(views[number][start:end]) for _, number, start, end in names)
        for _, number, start, end in order:
            reader.take(fr.read_frame(views[number][start:end]))
        return reader.done()


def read_for_playback(tape: memoryview, touched: Callable[[int], None]) -> EffectLog:
    """Read a tape, which stays where it is: bodies and answers are copied out of it when they are asked for.

    Only an arrival's `data` is to be asked for, not its `body`. `touched` is told what was gone through, in bytes: the
    kernel maps what lies around a page with it. Raises FormatError where bytes do not parse.
    """
    order, names = [], []
    for at, start, end in fr.places(tape):
        order.append((at, start, end))
        if tape[start] in _NAMES:
            names.append(fr.read_frame(tape[start:end]))
        touched(end - start)
    order.sort()
    with _said_plainly():
        reader = Reader(names)
        for _, start, end in order:
            lies = end - start > _LARGE and tape[start] in _CONTENT
            reader.take(fr.view_frame(tape[start:end]) if lies else fr.read_frame(tape[start:end]))
            touched(end - start)
        return reader.done(deframed=False)


def read_without_content(logs: Iterable[bytes | memoryview]) -> EffectLog:
    """Read a run's logs one by one, without what was sent, answered, given and returned: for whoever needs none of it.

    No log is held. Raises FormatError where bytes do not parse.
    """
    frames: list[fr.Frame] = []
    for log in logs:
        view = memoryview(log)
        for _, start, end in fr.places(view):
            kind = view[start]
            frame = fr.view_frame(view[start:end])
            frame.payload = _without_content(kind, frame.payload)
            frames.append(frame)
    frames.sort(key=lambda frame: frame.at_ns)
    return effects_of(frames)


def _without_content(kind: int, payload: bytes | memoryview) -> bytes:
    if kind in (fr.BODY, fr.CHUNK, fr.WIRE):
        return b""
    if kind == fr.CALL:
        return fr.fields(*fr.unpack_fields(payload)[0])
    if kind == fr.ENTER:
        return fr.fields(*fr.unpack_fields(payload)[0][:3], b"")
    if kind == fr.LEAVE:
        return fr.fields(*fr.unpack_fields(payload)[0][:2], b"")
    return bytes(payload)


@contextmanager
def _said_plainly() -> Iterator[None]:
    try:
        yield
    except (KeyError, ValueError) as fault:
        raise FormatError(f"a frame of the log does not hold what its kind says: {fault!r}") from fault


def effects_of(frames: Sequence[fr.Frame]) -> EffectLog:
    """Read the frames of a run, in order, numbered for the run. Raises FormatError where one is not what it says."""
    with _said_plainly():
        reader = Reader(frame for frame in frames if frame.kind in _NAMES)
        for frame in frames:
            reader.take(frame)
        return reader.done()


class Reader:
    """Makes a log of frames that come one after another, in order."""

    def __init__(self, names: Iterable[fr.Frame] = ()) -> None:
        """`names` are the frames that name paths and call sites."""
        self.log = EffectLog()
        self._paths: dict[int, str] = {}
        self._sites: dict[int, tuple[str, str, str, str]] = {}
        for frame in names:
            if frame.kind == fr.PATH:
                self._paths[frame.path] = frame.payload.decode()
            else:
                self._sites[frame.effect] = _site(frame.payload)
        self._open: dict[int, Effect] = {}
        self._streams: dict[int, list[bytes]] = {0: [], 1: [], 2: []}

    def effect(self, number: int) -> Effect | None:
        """Return the effect of that number, as far as it was read."""
        return self._open.get(number)

    def take(self, frame: fr.Frame) -> None:
        """Read one frame. Raises FormatError, KeyError or ValueError where it is not what its kind says."""
        log, kind = self.log, frame.kind
        for site, path, value in fr.unpack_draws(frame.draws) if frame.draws else ():
            log.draws.append(
                Draw(self._sites.get(site, ("", "", "", "")), self._paths.get(path, ""), value, frame.at_ns)
            )  # fmt: skip
        if kind in fr.STARTS:
            effect = self._open[frame.effect] = _started(frame, self._paths.get(frame.path, ""))
            log.effects.append(effect)
        elif frame.effect and kind in _CONTINUE:
            if frame.effect not in self._open:
                raise FormatError(f"a {fr.NAMES[kind]} frame belongs to effect {frame.effect}, which never started")
            _CONTINUE[kind](self._open[frame.effect], frame)
        elif kind == fr.STREAM:
            self._streams[frame.flags].append(frame.payload)
        elif kind == fr.ABOUT:
            log.about.append(values.decode(frame.payload))
        elif kind not in (fr.PATH, fr.SITE, fr.DRAWS):
            log.facts.append(Fact(frame, self._paths.get(frame.path, "")))

    def done(self, *, deframed: bool = True) -> EffectLog:
        """Return what was read, whole; the wire's framing taken off what came over it, if that is wanted."""
        for effect in self.log.effects:
            settle(effect, deframed=deframed)
        self.log.streams = {stream: b"".join(parts) for stream, parts in self._streams.items()}
        return self.log


def settle(effect: Effect, *, deframed: bool = True) -> None:
    """Put together what came in pieces: the body, and what of a body stands in the bytes of the wire."""
    if effect.pieces:
        parts, effect.pieces = [*effect.body_parts, *effect.pieces], []
        if any(type(part) is memoryview for part in parts):
            effect.lies_in(parts)
        else:
            effect.body = b"".join(parts)
    if effect.wire and deframed:
        _deframe(effect)


def _deframe(effect: Effect) -> None:
    deframer = Deframer(bodiless=effect.method == "HEAD")
    for arrival in effect.arrivals:
        if arrival.kind == WIRE:
            arrival.body = deframer.feed(arrival.data)


def _site(payload: bytes) -> tuple[str, str, str, str]:
    kind, file, qualname, line = (part.decode("utf-8", "replace") for part in fr.unpack_fields(payload)[0])
    return kind, file, qualname, line


def read_tags(packed: bytes) -> list[tuple[str, bytes]]:
    """Return (name, tag) of each credential that was taken out."""
    if not packed:
        return []
    flat, _ = fr.unpack_fields(packed)
    return [(name.decode("latin-1"), tag) for name, tag in zip(flat[::2], flat[1::2], strict=True)]


def _started(frame: fr.Frame, path: str) -> Effect:
    if frame.kind == fr.CALL:
        (library, method, url, headers, tags), at = fr.unpack_fields(frame.payload)
        effect = _effect(HTTP, frame, path)
        effect.library, effect.method, effect.url = library.decode(), method.decode(), url.decode()
        effect.headers, effect.tags = fr.unpack_headers(headers), read_tags(tags)
        effect.lies_in([frame.payload[at:]])
        if type(frame.payload) is bytes:
            effect.body = frame.payload[at:]
        effect.body_complete = not frame.flags & 1
        effect.sent_at_ns = frame.at_ns if effect.body_complete else 0
        return effect
    if frame.kind == fr.SPAWN:
        effect = _effect(SUBPROCESS, frame, path)
        effect.command, effect.body_complete = _mapping(frame, frame.payload), not frame.flags & 1
        if not isinstance(effect.command.get("args", []), list):
            raise FormatError("a spawn frame's arguments are no list")
        return effect
    if frame.kind in (fr.SLEEP, fr.LAPSED):
        return _slept(frame, path)
    (kind, name, spec, inputs), _ = fr.unpack_fields(frame.payload)
    effect = _effect(kind.decode(), frame, path)
    effect.name, effect.spec, effect.inputs = name.decode(), _mapping(frame, spec), inputs
    return effect


def _mapping(frame: fr.Frame, encoded: bytes) -> dict[str, Any]:
    decoded = values.decode(encoded)
    if not isinstance(decoded, dict):
        raise FormatError(f"a {fr.NAMES[frame.kind]} frame does not hold a mapping")
    return decoded


def _slept(frame: fr.Frame, path: str) -> Effect:
    effect = _effect(SLEEP, frame, path)
    effect.name, effect.seconds, effect.lasted_ns, effect.nth, effect.site = fr.unpack_sleep(frame.payload)
    if frame.kind == fr.LAPSED:
        effect.ended, effect.together = "returned", bool(frame.flags & 1)
        effect.arrivals.append(Arrival(END, frame.at_ns))
    return effect


def _effect(kind: str, frame: fr.Frame, path: str) -> Effect:
    return Effect(
        kind, index=frame.effect, path=path, decision=frame.decision, parent=frame.parent, at_ns=frame.at_ns
    )  # fmt: skip


def _body(effect: Effect, frame: fr.Frame) -> None:
    effect.pieces.append(frame.payload)


def _sent(effect: Effect, frame: fr.Frame) -> None:
    effect.body_complete, effect.sent_at_ns = True, frame.at_ns


def _head(effect: Effect, frame: fr.Frame) -> None:
    (status, version, reason, headers, tags), _ = fr.unpack_fields(frame.payload)
    effect.status, effect.version, effect.reason = int(status), version, reason
    effect.response_headers, effect.response_tags = fr.unpack_headers(headers), read_tags(tags)
    if not effect.wire:  # there the head is part of what the socket gave
        effect.arrivals.append(Arrival(HEAD, frame.at_ns))


def _chunk(effect: Effect, frame: fr.Frame) -> None:
    effect.arrivals.append(Arrival(CHUNK, frame.at_ns, frame.payload, frame.flags))


def _wire(effect: Effect, frame: fr.Frame) -> None:
    effect.arrivals.append(Arrival(WIRE, frame.at_ns, frame.payload))


def _move(effect: Effect, frame: fr.Frame) -> None:
    effect.arrivals.append(Arrival(MOVE, frame.at_ns, frame.payload))


def _end(effect: Effect, frame: fr.Frame) -> None:
    (how, fault), _ = fr.unpack_fields(frame.payload)
    effect.ended, effect.error = how.decode(), fault
    effect.arrivals.append(Arrival(END, frame.at_ns))


def _leave(effect: Effect, frame: fr.Frame) -> None:
    (how, fault, value), _ = fr.unpack_fields(frame.payload)
    effect.ended, effect.error, effect.value = how.decode(), fault, value
    effect.arrivals.append(Arrival(END, frame.at_ns))


def _child(effect: Effect, frame: fr.Frame) -> None:
    said = values.decode(frame.payload)
    effect.child_pid, effect.child_path = said["pid"], said["path"]


def _exited(effect: Effect, frame: fr.Frame) -> None:
    status, *polls = fr.unpack_fields(frame.payload)[0]
    effect.exit_status, effect.polls = int(status), int(polls[0]) if polls else 0
    effect.ended = "cut_off" if frame.flags & 1 else "exited"  # ended by a signal that the program had sent
    effect.arrivals.append(Arrival(END, frame.at_ns))


_CONTINUE = {
    fr.BODY: _body, fr.SENT: _sent, fr.HEAD: _head, fr.CHUNK: _chunk, fr.WIRE: _wire, fr.MOVE: _move, fr.END: _end,
    fr.LEAVE: _leave, fr.EXITED: _exited, fr.STARTED: _child,
}  # fmt: skip

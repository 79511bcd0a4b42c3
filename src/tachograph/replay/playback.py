"""The playback: the listener that answers every seam from the record, inside the replayed program.

Matching (DESIGN section 6): kind, endpoint, method, body and every header but the volatile ones. Same bytes first; same
meaning second, and noted; otherwise a miss that names the nearest recording and the first differing leaf. Repeats go to
the same task path first, then by recorded start order, each recording once. What it refuses, always:

- an answer for a call that is not the recorded one; anything at all past the recorded end of an answer;
- a connection, or a program, that no seam claims: reported, and `PermissionError` in the program.

A miss is written to the report before it is raised, as a `BaseException`: whatever the program does with it, the replay
is not equivalent. Standard library only.
"""

from __future__ import annotations

from time import perf_counter_ns

from tachograph.comparison.leaves import as_json
from tachograph.comparison.requests import Prepared, Request
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.credentials import redact_headers, redact_url
from tachograph.model.effect import HTTP, SLEEP, SUBPROCESS, WIRE_LIBRARIES, Effect
from tachograph.replay.children import ChildOf, Recorded
from tachograph.replay.connecting import Connections
from tachograph.replay.ledger import Ledger
from tachograph.replay.near import nearest_declared
from tachograph.replay.openings import Openings
from tachograph.replay.ordering import Order
from tachograph.replay.pausing import Lapse, Pause, Pauses
from tachograph.replay.played import Declared, Played
from tachograph.replay.recordings import Recordings
from tachograph.replay.redraws import Redraws
from tachograph.replay.stub import StubOf
from tachograph.seams import context, port
from tachograph.seams.filebook import FileBook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any, Literal

    from tachograph.formats.effect_log import EffectLog

EXACT, MEANING = 1, 2


class EffectMissed(BaseException):
    """The program made a call that no recording fits. Raised after it stands in the report."""


class Playback:
    """Answers from the record. `report(kind, effect, payload)` writes one frame of the replay's report."""

    answers: Literal[True] = True
    guarded = True
    """Whether what no recording claims is refused here; not only to show what the kernel holds alone."""

    def __init__(
        self, log: EffectLog, *, report: Callable[[int, int, bytes], None], asleep: bool = False,
        ledger: Ledger | None = None, lends: tuple[int, ...] = (), touched: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        """`asleep`: the recorded program called `tachograph.install()` itself, and nothing before that was recorded.

        `ledger` is what the replay's processes share; without one, this process is the only one. `lends` are the
        descriptors that processes of this replay are given. `touched` is told how many bytes of the record were read.
        """
        self._log = self.log = log
        self.asleep = asleep
        self._lent: dict[Any, Any] = log.first(fr.LENT)
        self._report = report
        self._files = FileBook(lambda kind, payload, _: report(kind, 0, payload), keep=0)
        self.ledger = Ledger(log.effects) if ledger is None else ledger
        self.lends = lends
        self._recorded = Recorded(log)
        self._children: list[ChildOf] = []
        self._finished = False
        self._free: dict[int, Effect] = {effect.index: effect for effect in log.effects}
        self.connections = Connections(self, log.effects)
        self.touched = touched or (lambda count: None)
        self._recordings = Recordings(log, self.is_free, touched=self.touched)
        self.order = Order(log.effects, let_go=self._let_go, ledger=self.ledger)
        self.pauses = Pauses(log.effects, self.order, take=self._take, served=self._served_sleep, report=report)
        self._draws = Redraws(log.draws)
        self.openings = Openings(log, report)
        self.spent_ns = 0

    # -- HTTP

    def ask(self, library: str, method: str, url: str, headers: port.Headers, body: bytes | list[bytes]) -> Played:
        """Find the recorded answer of this request. Raises EffectMissed if there is none."""
        began = perf_counter_ns()
        kept, _ = redact_headers(headers)
        shown, _ = redact_url(url)
        parts = [body] if isinstance(body, bytes) else body
        for value, placeholder in self._lent.items():
            parts = [b"".join(parts).replace(value, placeholder)]
            shown = shown.replace(value.decode("latin-1"), placeholder.decode())
            kept = [(name, sent.replace(value, placeholder)) for name, sent in kept]
        head, notes = Request(HTTP, method, shown, kept, b""), list[str]()
        path, wire = context.here().path, library in WIRE_LIBRARIES
        with self.ledger:
            effect = self._recordings.same(Prepared(head), parts, path, wire=wire)
            if effect is None:
                effect, notes = self._recordings.alike(_whole(head, parts), path, wire=wire)
            self._claim(effect)
        if effect is None:
            self._missed(_whole(head, parts), path)
        assert effect is not None
        self._served(effect, MEANING if notes else EXACT, path, notes)
        self.spent_ns += perf_counter_ns() - began
        return Played(self, effect)

    def _claim(self, effect: Effect | None) -> None:
        if effect is not None:
            del self._free[effect.index]
            self.ledger.claim(effect)

    def is_free(self, effect: Effect) -> bool:
        """Whether no call of any process of this replay has taken it."""
        return effect.index in self._free and not self.ledger.is_claimed(effect)

    def _let_go(self, effect: Effect) -> None:
        if effect.kind != SLEEP:  # one that is not slept again is told as such
            self._report(fr.UNORDERED, effect.index, b"")

    def _take(self, effect: Effect) -> bool:
        """Take an effect that is known already; returns whether it was free."""
        with self.ledger:
            return self._free.pop(effect.index, None) is not None and self.ledger.claim(effect)

    def take(self, find: Callable[[], Effect | None]) -> Effect | None:
        """Consume what `find` finds, if it finds something."""
        with self.ledger:
            effect = find()
            self._claim(effect)
        if effect is not None:
            self._served(effect, EXACT, context.here().path, [])
        return effect

    def _served(self, effect: Effect, rung: int, path: str, notes: list[str]) -> None:
        self.order.issued(effect)
        said = {"rung": rung, "path": path, "notes": notes}
        self._report(fr.SERVED, effect.index, values.encode(said))

    def _missed(self, prepared: Prepared, path: str) -> None:
        request = prepared.request
        said: dict[str, Any] = {
            "call": {"kind": HTTP, "method": request.method, "endpoint": request.url}, "path": path,
        }  # fmt: skip
        found = self._recordings.nearest(prepared)
        if found is not None:
            said["nearest"], leaf = found[0].index, found[1]
            if leaf is not None:
                said["firstDifference"] = {
                    "path": leaf.path, "recorded": as_json(leaf.recorded), "replayed": as_json(leaf.replayed),
                }  # fmt: skip
        self._miss(said)

    def _miss(self, said: dict[str, Any]) -> None:
        said["decision"] = context.decision.get()
        self._report(fr.MISS, said.get("nearest", 0), values.encode(said))
        call, leaf = said["call"], said.get("firstDifference")
        where = "" if leaf is None else f"; the nearest recording differs first at {leaf['path']}"
        raise EffectMissed(f"no recording fits {call['kind']} {call.get('method', '')} {call['endpoint']}{where}")

    def past_end(self, effect: Effect) -> None:
        """The program asks for more than was recorded: a miss, unless the recorded program waited there too."""
        if effect.ended in (port.CUT_OFF, port.OPEN_AT_END):
            return
        said = {
            "call": {"kind": effect.kind, "method": effect.method, "endpoint": effect.url or effect.name},
            "path": context.here().path,
            "nearest": effect.index,
            "firstDifference": {"path": "/answer/end", "recorded": effect.ended, "replayed": "read on"},
        }
        self._miss(said)

    def closed(self, effect: Effect, at: int) -> None:
        """The program closed an answer; what it did not read is let go."""
        self.order.release(effect)
        given = [arrival for arrival in effect.arrivals if arrival.kind in ("chunk", "wire")]
        read = sum(1 for arrival in effect.arrivals[:at] if arrival.kind in ("chunk", "wire"))
        if read < len(given):
            self._report(fr.CHUNK, effect.index, values.encode({"read": read, "recorded": len(given)}))

    # -- programs and declared effects

    def ask_spawn(self, command: dict[str, Any], _path: str) -> StubOf:
        """Return the recorded program's output and status. Raises EffectMissed if it was not started."""
        path = context.here().path
        with self.ledger:
            effect = self._recordings.spawned(command, path)
            self._claim(effect)
        if effect is None:
            self._miss({"call": {"kind": SUBPROCESS, "endpoint": " ".join(command["args"])}, "path": path})
        assert effect is not None
        self._served(effect, EXACT, path, [])
        self.order.release(effect)
        if self._recorded.runs_again(effect):
            self.ledger.joined()
            child = ChildOf(self, effect)
            self._children.append(child)
            return child
        self._consume(self._recorded.inside(effect), effect)
        return StubOf(self, effect, self.error_of(effect) if effect.error else None)

    def ask_enter(self, kind: str, name: str, spec: dict[str, Any], inputs: bytes) -> Declared:
        """Return the recorded outcome of a declared effect. Raises EffectMissed if its inputs were not recorded."""
        path = context.here().path
        for value, placeholder in self._lent.items():
            inputs = inputs.replace(value, placeholder)
        with self.ledger:
            effect = self._recordings.declared(kind, name, inputs, path)
            self._claim(effect)
        if effect is None:
            self._missed_declared(kind, name, inputs, path)
        assert effect is not None
        self._consume_inside(effect)
        self._served(effect, EXACT, path, [])
        return Declared(self, effect)

    def _consume_inside(self, outer: Effect) -> None:
        self._draws.skip_inside(outer)
        for effect in self._recordings.inside(outer):
            self._consume([effect, *self._recorded.inside(effect)], outer)

    def _consume(self, effects: Iterable[Effect], outer: Effect) -> None:
        for effect in effects:
            self._free.pop(effect.index, None)
            with self.ledger:
                free = self.ledger.claim(effect)
            if free:
                self.order.release(effect)
                self._report(fr.SERVED, effect.index, values.encode({"rung": EXACT, "inside": outer.index}))

    def _missed_declared(self, kind: str, name: str, inputs: bytes, path: str) -> None:
        near = nearest_declared(self._log.effects, self.is_free, kind=kind, name=name, inputs=inputs, path=path)
        self._miss({"call": {"kind": kind, "endpoint": name}, "path": path, **near})

    def fed_otherwise(self, effect: Effect, leaf: dict[str, str]) -> None:
        """A program is fed other input than the recorded one: a miss."""
        call = {"kind": effect.kind, "endpoint": effect.summary}
        self._miss({"call": call, "path": context.here().path, "nearest": effect.index, "firstDifference": leaf})

    def answered_otherwise(self, effect: Effect, said: bytes) -> None:
        """A child that is run again writes, or ends, otherwise than the recorded one: reported."""
        self._report(fr.ANSWERED, effect.index, said)

    # -- the run's other processes

    def for_child(self, path: str) -> dict[str, str]:
        """What a process of this replay is told: its path, the decision it stands in, and that it is counted."""
        return {"PATH": path, "DECISION": str(context.decision.get()), "COUNTED": "1"}

    def process(self, what: str, words: list[str], path: str) -> None:
        """A process may start that recorded itself on this path. Raises PermissionError for any other."""
        if not self._recorded.may_start(what, words, path):
            self.note(what, " ".join(words))
        if what != "os.exec":
            self.ledger.joined()

    def adopt(self, _pid: int, decision: int, effect: int) -> tuple[int, int]:
        """All processes of a replay number alike."""
        return decision, effect

    def error_of(self, effect: Effect) -> BaseException:
        """The exception with which an effect ended, made anew. Raises EffectMissed where its class is not here."""
        fault = values.decode(effect.error)
        if not isinstance(fault, BaseException):
            self.unrestorable(effect, repr(fault))
        assert isinstance(fault, BaseException)
        return fault

    def unrestorable(self, effect: Effect, what: str) -> None:
        """A recorded value cannot be made again here: the step is refused, never answered with something like it."""
        call = {"kind": effect.kind, "endpoint": effect.name}
        leaf = {"path": "/output", "recorded": f"not restored: {what}", "replayed": None}
        self._miss({"call": call, "path": effect.path, "nearest": effect.index, "firstDifference": leaf})

    # -- sleeps

    def ask_sleep(self, form: str, seconds: float, place: int) -> Pause | None:
        """The recorded sleep at that place, or None: it is slept for real, and counted as drift."""
        return self.pauses.ask_sleep(form, seconds, place)

    def ask_lapse(self, task: context.Place, form: str, seconds: float, place: int, nth: int) -> Lapse | None:
        """The recording of the nth wait or timer at that place, if it ran out of time."""
        return self.pauses.ask_lapse(task, form, place, nth)

    def extra_lapse(self, task: context.Place, form: str, seconds: float, place: int) -> None:
        """A wait ran out of time, or a timer fired, that did not in the recording."""
        self.pauses.extra_at(task, form, place)

    def _served_sleep(self, effect: Effect, path: str) -> None:
        self._served(effect, EXACT, path, [])

    # -- draws, decisions, attempts

    def redraw(self, kind: int, code: CodeType, at: int) -> Any:
        """The value that was drawn at this place, or `port.MISSING` and a note of drift."""
        return port.MISSING if self.asleep else self._draws.again(kind, code, at)

    def drifted(self, kind: int, code: CodeType, at: int, what: str) -> None:
        """A recorded draw cannot be given again: said at once, since what the program does next may end it."""
        site = list(self._draws.site(kind, code, at))
        said = [{"path": context.here().path, "site": site, "count": 1, "what": what}]
        self._report(fr.DRIFT, 0, values.encode(said))

    def open(self, facts: dict[str, Any]) -> tuple[int, str | None]:
        """A decision opens again: the nth on this path gets its recorded number and id."""
        return self.openings.open(facts)

    def tell(self, kind: int, decision: int, facts: dict[str, Any]) -> None:
        """What the program says of a decision, for the comparison."""
        self.openings.tell(kind, decision, facts)

    def listens(self, sock: Any) -> None:
        """The program listens there."""
        if self.openings.drive is not None:
            self.openings.drive.listens(sock)

    def accepted(self, listening: Any, address: Any) -> tuple[Any, Any]:
        """The program accepts a connection: that of the request that is sent again, or one of its own."""
        drive = self.openings.drive
        return (None, address) if drive is None else drive.accepted(listening, address)

    def note(self, what: str, detail: str) -> None:
        """Something would leave the closed world: reported, then refused."""
        if not self.guarded:
            return
        said = {"what": what, "where": detail, "stoppedBy": "audit hook", "path": context.here().path}
        self._report(fr.ATTEMPT, 0, values.encode(said))
        raise PermissionError(13, f"a replay allows no {what} ({detail}): no recording claims it")

    def will_write(self, path: str) -> None:
        """The program writes here: how it leaves it is told when it ends."""
        if not self.asleep:
            self._files.will_write(path)

    def will_read(self, path: str) -> None:
        """What a replay reads is what the parent found before it began."""

    def installed(self) -> None:
        """From here on the program was recorded."""
        self.asleep = False

    def passed(self, what: str, detail: str) -> None:
        """A connection went out in a replay: no seam of ours does that, and if one did it must be counted."""
        self._report(fr.LIVE, 0, values.encode({"what": what, "where": detail}))

    def rest(self) -> None:
        """Nothing waits here."""

    def forked(self) -> None:
        """In a child after a fork: what the parent's threads wait for, and where they drifted, is the parent's."""
        self.order.forked()
        self._draws.drifted.clear()
        self._files.forked()
        self.pauses.extra.clear()
        self._children.clear()
        self.spent_ns = 0

    def finish(self) -> None:
        """The program ends: what drifted, and the time spent in here."""
        if self._finished:
            return
        self._finished = True
        for child in self._children:
            child.finish()
        drift = [
            {"path": p, "site": list(s), "count": n, "what": "not recorded"}
            for (p, s), n in [*self._draws.drifted.items(), *self.pauses.extra.items()]
        ]
        drift += self._draws.left()
        if drift:
            self._report(fr.DRIFT, 0, values.encode(drift[:200]))
        self._files.finish()
        self._report(fr.SPENT, 0, values.encode({"ns": self.spent_ns}))
        self.ledger.left()


def _whole(head: Request, parts: list[bytes]) -> Prepared:
    """A request with its body in one piece, which only a comparison needs."""
    return Prepared(head._replace(body=b"".join(parts)))

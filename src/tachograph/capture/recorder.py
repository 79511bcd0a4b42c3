"""The recorder: turns what the seams hand over into frames, inside the recorded program.

What it owes the program (DESIGN section 4): it never changes what the program sees, a frame is in the spool before the
program gets what it describes, and if recording fails the program goes on, with one line on stderr and the gap in
coverage (`TACHO_REQUIRE=1` stops it instead). Credentials in transport headers and query strings are taken out before a
frame is made; a keyed tag says whether two calls used the same one.

After a fork the child opens a spool file of its own, under a fresh key. Standard library plus AES-GCM, nothing else.
"""

from __future__ import annotations

import os
from collections import deque
from hmac import digest
from itertools import count
from time import monotonic_ns, time_ns

from tachograph.capture.facts import own_files, store_of
from tachograph.capture.inbound import Connection, list_of
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.credentials import redact_headers, redact_url
from tachograph.formats.wire import HeadTaker
from tachograph.model.identity import mint
from tachograph.seams import context, port
from tachograph.seams.callsites import place_text
from tachograph.seams.draws import site_of
from tachograph.seams.filebook import FileBook
from tachograph.store.spool import Spool, first_gap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, Literal

PIECE = 1 << 19  # bytes: a longer request body is kept in pieces, so that no copy of the whole is made
MOST_TAGS = 4096  # kept: a program whose answers set new cookies each time must not make us grow
_ENDS = {how: fr.fields(how.encode(), b"") for how in (port.EOF_, port.CLOSED_EARLY)}
DRAWS_WAIT = 512  # draws kept in memory at most: they ride in the next frame, and a long silence must not lose them


class Recording:
    """One effect under way. The first `end` or `exited` counts."""

    __slots__ = ("_decision", "_effect", "_ended", "_parent", "_path", "_polls", "_recorder", "_signalled", "_taker")

    def __init__(self, recorder: Recorder, effect: int, path: int, decision: int, parent: int) -> None:
        self._recorder = recorder
        self._effect = effect
        self._path = path
        self._decision = decision
        self._parent = parent
        self._ended = False
        self._signalled = self._polls = 0
        self._taker: HeadTaker | None = None

    @property
    def effect(self) -> int:
        """The effect's number in this process."""
        return self._effect

    def _write(self, kind: int, payload: bytes, flags: int = 0) -> None:
        if self._effect <= self._recorder.inherited:
            return  # begun before a fork: the parent's file holds it
        self._recorder.write(kind, payload, flags, self._decision, self._effect, self._path, self._parent)

    def part(self, data: bytes) -> None:
        """Keep a part of the request before it is sent."""
        if len(data) <= PIECE:
            self._write(fr.BODY, bytes(data))
            return
        view = memoryview(data)
        for at in range(0, len(data), PIECE):
            self._write(fr.BODY, bytes(view[at : at + PIECE]))

    def sent(self) -> None:
        """Keep that the request was sent whole."""
        self._write(fr.SENT, b"")

    def head(self, status: int, headers: port.Headers, version: bytes, reason: bytes) -> None:
        """Keep the head of the answer; `set-cookie` values are credentials and leave a placeholder and a tag."""
        kept, removed = redact_headers(headers)
        tags = self._recorder.tags(removed) if removed else b""
        self._write(fr.HEAD, fr.fields(b"%d" % status, version, reason, fr.pack_headers(kept), tags))

    def chunk(self, data: bytes, stream: int = 0) -> None:
        """Keep a part of the answer before the program gets it."""
        self._write(fr.CHUNK, data, stream)

    def wire(self, data: bytes) -> None:
        """Keep what one read of the socket returned, before the program gets it; the head is kept apart too."""
        taker = self._taker
        if taker is None:
            taker = self._taker = HeadTaker()
        if taker.done:
            self._write(fr.WIRE, bytes(data))
            return
        written, head = taker.take(bytes(data))
        self._write(fr.WIRE, written)
        if head is not None:
            self.head(head.status, head.headers, head.version, head.reason)

    def move(self, what: bytes) -> None:
        """Keep that the program's reader moved: between which arrivals it waited and took."""
        self._write(fr.MOVE, what)

    def end(self, how: str, error: BaseException | None = None) -> None:
        """Keep how the effect ended."""
        if not self._ended:
            self._ended = True
            said = _ENDS.get(how) if error is None else None
            self._write(fr.END, said or fr.fields(how.encode(), b"" if error is None else values.encode(error)))

    def leave(self, value: bytes, error: BaseException | None = None) -> None:
        """Keep what a declared effect returned (encoded by `formats.values`) or raised."""
        if not self._ended:
            self._ended = True
            how = port.RETURNED if error is None else port.how_of(error)
            fault = b"" if error is None else values.encode(error)
            self._write(fr.LEAVE, fr.fields(how.encode(), fault, value))

    def started(self, pid: int, path: str) -> None:
        """Keep which process it is: what it recorded itself stands under that path."""
        self._write(fr.STARTED, values.encode({"pid": pid, "path": path}))

    def signalled(self) -> None:
        """The program is about to send a signal to the one that it started: it does not end by itself any more."""
        self._signalled = 1

    def polled(self) -> None:
        """The program asked whether the one that it started has ended, and it has not."""
        self._polls += 1

    def exited(self, status: int) -> None:
        """Keep how a started program ended: its status, whether a signal had been sent to it, how often it was polled.

        That is how often it was found running; 0 is left out.
        """
        if not self._ended:
            self._ended = True
            polls = (b"%d" % self._polls,) if self._polls else ()
            self._write(fr.EXITED, fr.fields(b"%d" % status, *polls), self._signalled)


class Recorder:
    """The listener that records. Create it once per process; `seams.port.listen` makes the seams call it."""

    answers: Literal[False] = False
    asleep = False
    lends: tuple[int, ...] = ()

    def __init__(
        self, folder: str, *, run_id: str, public: bytes, tag_key: bytes, facts: dict[str, Any],
        require: bool = False, entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:  # fmt: skip
        """Open this process's spool file in `folder` (a store's spool folder) and write its first frame.

        `facts` is what the process says of itself. Raises OSError if the folder cannot be written.
        """
        self._folder = folder
        self._run_id = run_id
        self._public = public
        self._tag_key = tag_key
        self._facts = facts
        self._require = require
        self._entropy = entropy
        self._known_tags: dict[bytes, bytes] = {}
        self._pid = 0
        self._files = FileBook(self._tell_file, own=(store_of(folder),))
        self._adopted: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._effects, self._decisions = count(), count(1)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._finished, self._adopted, self._serving_ns = False, {}, 0
        # Numbers of effects and decisions go on after a fork: what was inherited must not pass for one's own.
        self.inherited = next(self._effects)
        self._paths, self._owner = count(1), object()
        self._sites: dict[tuple[int, int, int], tuple[int, Any]] = {}
        self._draws: deque[tuple[int, int, Any]] = deque()
        self._noted: set[tuple[str, str]] = set()
        name = f"{self._run_id}.{self._pid}.{self._entropy(4).hex()}"
        self._spool = Spool(self._folder, name, public=self._public, on_failure=self._write_failed)
        facts = {**self._facts, "pid": self._pid, "parentPid": os.getppid(), "path": context.here().path}
        facts["startedAt"], facts["monotonicNs"] = time_ns(), monotonic_ns()
        self.write(fr.PROCESS, values.encode(facts), 0, 0, 0, 0, 0)

    # -- writing

    def write(
        self, kind: int, payload: bytes, flags: int, decision: int, effect: int, path: int, parent: int,
        body: bytes = b"",
    ) -> bool:  # fmt: skip
        """Write one frame, with the draws that waited for it. `body` is the payload's end: it is not copied to join."""
        draws = b""
        if self._draws and kind not in (fr.PATH, fr.SITE, fr.ADOPTED):  # these only name what other frames use
            draws = self._drain()
        head = fr.HEADER.pack(kind, flags, decision, effect, path, parent, monotonic_ns(), len(draws))
        return self._spool.append(head, draws, payload, body) if body else self._spool.append(head, draws, payload)

    def _drain(self) -> bytes:
        out, waiting = [], self._draws
        try:
            while True:
                out.append(fr.pack_draw(*waiting.popleft()))
        except IndexError:
            return b"".join(out)

    def _number(self, place: context.Place) -> int:
        if place.owner is self._owner:
            return place.number
        number = next(self._paths)
        place.number, place.owner = number, self._owner
        self.write(fr.PATH, place.path.encode(), 0, 0, 0, number, 0)
        return number

    def _start(self, kind: int, payload: bytes, flags: int = 0, body: bytes = b"") -> Recording:
        place = context.here()
        path = place.number if place.owner is self._owner else self._number(place)
        decision, parent, effect = context.decision.get(), context.enclosing.get(), next(self._effects)
        if parent <= self.inherited:
            parent = 0
        self.write(kind, payload, flags, decision, effect, path, parent, body)
        return Recording(self, effect, path, decision, parent)

    def _failed(self, fault: BaseException, *, own: str | None = None) -> None:
        said = f"tachograph: recording stopped ({fault}); the program goes on, the capture says where it ends\n"
        if self._require:
            said = f"tachograph: recording failed ({fault}) and capture is required: stopping\n"
        elif first_gap(self._folder, self._run_id) not in (None, own) or os.environ.get("TACHO_QUIET"):
            return  # another process of this run says it
        try:
            os.write(2, said.encode())
        except OSError:
            pass
        if self._require:
            os._exit(3)

    def _write_failed(self, fault: BaseException) -> None:
        self._failed(fault, own=self._spool.path)

    # -- what seams call

    def tags(self, removed: list[tuple[bytes, bytes]]) -> bytes:
        """Pack a keyed tag per credential taken out: equal values have equal tags, and a tag tells nothing else."""
        if not removed:
            return b""
        flat = []
        for name, value in removed:
            tag = self._known_tags.get(value)
            if tag is None:
                if len(self._known_tags) >= MOST_TAGS:
                    self._known_tags.clear()
                tag = self._known_tags[value] = digest(self._tag_key, b"credential\0" + value, "sha256")[:16]
            flat += [name, tag]
        return fr.fields(*flat)

    def call(self, library: str, method: str, url: str, headers: port.Headers, body: bytes | None) -> Recording:
        """An HTTP request is about to go out."""
        kept, removed = redact_headers(headers)
        shown, secrets = redact_url(url)
        if secrets:
            removed += [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in secrets]
        tags = self.tags(removed) if removed else b""
        meta = fr.fields(library.encode(), method.encode(), shown.encode(), fr.pack_headers(kept), tags)
        if body is None or len(body) <= PIECE:
            return self._start(fr.CALL, meta, 1 if body is None else 0, body or b"")
        recording = self._start(fr.CALL, meta, 1)
        recording.part(body)
        recording.sent()
        return recording

    def spawn(self, command: dict[str, Any]) -> Recording:
        """A program is about to be started."""
        return self._start(fr.SPAWN, values.encode(command), 1 if command["streams"][0] == "pipe" else 0)

    def enter(self, kind: str, name: str, spec: dict[str, Any], inputs: bytes) -> Recording:
        """A declared effect begins."""
        return self._start(fr.ENTER, fr.fields(kind.encode(), name.encode(), values.encode(spec), inputs))

    def sleep(self, form: str, seconds: float, place: int) -> Recording:
        """The program is about to sleep."""
        return self._start(fr.SLEEP, fr.pack_sleep(form, seconds, place_text(place)))

    def lapsed(
        self, task: context.Place, form: str, seconds: float, place: int, nth: int, lasted: float,
        together: bool = False,
    ) -> None:  # fmt: skip
        """A wait ran out of time, or a timer fires: its beginning and its end are known at once."""
        path = task.number if task.owner is self._owner else self._number(task)
        parent = context.enclosing.get()
        packed = fr.pack_sleep(form, seconds, place_text(place), lasted_ns=max(0, int(lasted * 1e9)), nth=nth)
        effect = next(self._effects)
        parent = parent if parent > self.inherited else 0
        self.write(fr.LAPSED, packed, int(together), context.decision.get(), effect, path, parent)

    def drew(self, kind: int, code: CodeType, at: int, value: Any) -> None:
        """The program drew a value: it rides in the next frame."""
        known = self._sites.get((id(code), at, kind)) or self._site(kind, code, at)
        place = context.here()
        draws = self._draws
        draws.append((known[0], place.number if place.owner is self._owner else self._number(place), value))
        if len(draws) >= DRAWS_WAIT:
            self.write(fr.DRAWS, b"", 0, 0, 0, 0, 0)

    def _site(self, kind: int, code: CodeType, at: int) -> tuple[int, Any]:
        known = self._sites.get((id(code), at, kind))
        if known is None:
            known = self._sites[id(code), at, kind] = (len(self._sites) + 1, code)  # the object keeps its id taken
            self.write(fr.SITE, site_of(kind, code, at), 0, 0, known[0], 0, 0)
        return known

    def note(self, what: str, detail: str) -> None:
        """Something passed that no seam sees: once per kind and detail."""
        if (what, detail) not in self._noted and len(self._noted) < 1000:
            self._noted.add((what, detail))
            facts = values.encode({"what": what, "detail": detail})
            self.write(fr.NOTE, facts, 0, context.decision.get(), 0, self._number(context.here()), 0)

    def passed(self, what: str, detail: str) -> None:
        """A seam's own connection: its effect is recorded by that seam."""

    def _tell_file(self, kind: int, payload: bytes, decision: int) -> None:
        self.write(kind, payload, 0, decision, 0, 0, 0)

    def will_write(self, path: str) -> None:
        """Keep a file as it is before the program's first write to it."""
        try:
            self._files.will_write(path, context.decision.get())
        except Exception as fault:  # noqa: BLE001 - the program's edge: its open must succeed as it would without us
            self.note("bypassed.file", f"{path}: {type(fault).__name__}: {fault}")
        else:
            if self._files.is_full:
                self.note("bypassed.file", "more files were written than are kept")

    def will_read(self, path: str) -> None:
        """Remember a file that the program reads."""
        try:
            self._files.will_read(path)
        except Exception as fault:  # noqa: BLE001 - as above
            self.note("bypassed.file", f"{path}: {type(fault).__name__}: {fault}")

    def installed(self) -> None:
        """Recording runs already."""

    def listens(self, sock: Any) -> None:
        """The program listens there: what comes in is seen where it is accepted."""

    def settle(self) -> None:
        """Write the draws that wait for a frame: what is drawn from here on belongs to something else."""
        if self._draws:
            self.write(fr.DRAWS, b"", 0, 0, 0, 0, 0)

    def accepted(self, listening: Any, address: Any) -> tuple[Connection, Any]:
        """A connection came in; what passes over it is followed."""
        if not self._serving_ns:
            self.settle()
            self._serving_ns = monotonic_ns()
        facts = {"listener": list_of(listening.getsockname()), "peer": list_of(address)}
        connection = Connection(self, self._serving_ns, facts)
        # A loop starts a task for it right here; who waits for connections in a thread may do other things in between.
        context.inbound.set(connection if listening.gettimeout() == 0 else None)
        return connection, address

    def open(self, facts: dict[str, Any]) -> tuple[int, str]:
        """A decision opens; returns its number in this process and its id."""
        number, path = next(self._decisions), self._number(context.here())
        minted = mint("dec", at_ms=time_ns() // 1_000_000, chance=self._entropy(10))
        self.write(fr.OPEN, values.encode({**facts, "id": minted}), 0, number, 0, path, context.decision.get())
        request = context.inbound.get()
        if request is not None:
            request.opened(number, path)
        return number, minted

    def tell(self, kind: int, decision: int, facts: dict[str, Any]) -> None:
        """The program says something about a decision: its output, configuration, failure, an observation, its end."""
        self.write(kind, values.encode(facts), 0, decision, 0, self._number(context.here()), 0)

    # -- the process's life, and those of the run's other processes

    def for_child(self, path: str) -> dict[str, str]:
        """What a process that this one starts is told: its path, and inside which decision and effect it stands."""
        inside = (self._pid, context.decision.get(), context.enclosing.get())
        return {"PATH": path, "INSIDE": " ".join(map(str, inside)) if any(inside[1:]) else ""}

    def process(self, what: str, words: list[str], path: str) -> None:
        """A process is about to be started past `subprocess`: on that path its own record is looked for."""
        said = {"what": what, "words": words, "path": path, "pid": 0}
        self.write(fr.STARTED, values.encode(said), 0, context.decision.get(), 0, self._number(context.here()), 0)

    def adopt(self, pid: int, decision: int, effect: int) -> tuple[int, int]:
        """Give a decision and an effect of another process numbers here; intake knows them by their first ones."""
        if pid == self._pid or not (decision or effect):
            return decision, effect
        known = self._adopted.get((pid, decision, effect))
        if known is None:
            known = next(self._decisions) if decision else 0, next(self._effects) if effect else 0
            self._adopted[pid, decision, effect] = known
            said = {"pid": pid, "decision": decision, "effect": effect}
            self.write(fr.ADOPTED, values.encode(said), 0, known[0], known[1], 0, 0)
        return known

    def rest(self) -> None:
        """Keep what was drawn for a pool's item before its result is sent."""
        if self._draws:
            self.write(fr.DRAWS, b"", 0, 0, 0, 0, 0)

    def forked(self) -> None:
        """In a child after a fork: a file of its own, under a key of its own."""
        inherited, parent = self._spool, self._pid
        self._files.forked()
        try:
            self._begin()
            decision, effect = self.adopt(parent, context.decision.get(), context.enclosing.get())
            context.decision.set(decision)
            context.enclosing.set(effect)
        except OSError as fault:
            self._failed(fault)
        inherited.forget()  # only now: until this child holds a file, the inherited lock says that its run still lives

    def finish(self) -> None:
        """The process ends: the draws that still wait, then the last frame."""
        if os.getpid() == self._pid and not self._finished:
            self._finished = True
            try:
                self._files.finish()
            except Exception as fault:  # noqa: BLE001 - the program's edge: it ends as it would without us
                self.note("bypassed.file", f"how files were left: {type(fault).__name__}: {fault}")
            self.write(fr.ENDED, values.encode({"files": own_files()}), 0, 0, 0, 0, 0)
            self._spool.close()

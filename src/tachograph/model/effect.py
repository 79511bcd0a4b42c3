"""Effects as values: one crossing of a boundary, what was asked, what arrived, how it ended.

Plain classes with slots and not dataclasses: a replayed program reads these too, and importing `dataclasses` costs it
8 ms. Bytes are exact; nothing is decoded here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Headers = list[tuple[bytes, bytes]]

HTTP, SUBPROCESS, TOOL, RETRIEVAL, EXTERNAL = "http", "subprocess", "tool", "retrieval", "external"
SLEEP = "sleep"
HEAD, CHUNK, WIRE, MOVE, END = "head", "chunk", "wire", "move", "end"

OPEN_AT_END = "open_at_end"
"""How an effect ended of which no end was recorded."""

_SLEEPS = {
    "time.sleep": "slept {}", "timer": "timer of {} fired", "program": "a program's time-out of {} ran out",
    "program closed": "a program's time-out of {} ran out",
}  # fmt: skip

WIRE_LIBRARIES = frozenset(("http.client", "aiohttp"))
"""Clients that are watched at the socket; the others hand over a parsed head and a body without framing."""


PUSHED_LIBRARIES = frozenset(("aiohttp",))
"""Of these, clients to whom an answer comes whether or not the program reads on."""


class Arrival:
    """Something that the program was given: the head of an answer, a chunk of it, or its end.

    `at_ns` is nanoseconds since the run began and also its place in the order of all arrivals: no two are equal.
    `stream` tells a started program's stdout (1) from its stderr (2). Of a `wire` arrival, `data` is what one read of
    the socket returned, head and framing included, and `body` is what of the answer's body stands in it.
    """

    __slots__ = ("_body", "_data", "at_ns", "kind", "stream")

    def __init__(self, kind: str, at_ns: int, data: bytes | memoryview = b"", stream: int = 0) -> None:
        """`data` may lie in memory that somebody else holds (a replay's tape): it is copied when it is asked for."""
        self.kind = kind
        self.at_ns = at_ns
        self._data = data
        self.stream = stream
        self._body: bytes | None = None

    @property
    def data(self) -> bytes:
        """The exact bytes."""
        return self._data if isinstance(self._data, bytes) else bytes(self._data)

    @property
    def body(self) -> bytes:
        """The bytes without the wire's framing."""
        return self.data if self._body is None else self._body

    @body.setter
    def body(self, body: bytes) -> None:
        self._body = body


class Effect:
    """One recorded effect. `index` is its place in the run's start order, from 1."""

    __slots__ = (
        "__weakref__", "_held", "arrivals", "at_ns", "body_complete", "child_path", "child_pid", "command", "decision",
        "ended", "error", "exit_status", "headers", "index", "inputs", "kind", "lasted_ns", "library", "method", "name",
        "nth", "parent", "path", "pieces", "polls", "reason", "response_headers", "response_tags", "seconds",
        "sent_at_ns", "site", "spec", "status", "tags", "together", "url", "value", "version",
    )  # fmt: skip

    def __init__(self, kind: str, *, index: int, path: str, decision: int, parent: int, at_ns: int) -> None:
        self.kind = kind
        self.index = index
        self.path = path
        self.decision = decision
        self.parent = parent
        self.at_ns = at_ns
        self.arrivals: list[Arrival] = []
        self.ended = OPEN_AT_END
        self.error = b""
        # over HTTP
        self.library = self.method = self.url = ""
        self.headers: Headers = []
        self.tags: list[tuple[str, bytes]] = []
        self._held: bytes | list[bytes | memoryview] = b""
        self.body_complete = True
        self.pieces: list[bytes | memoryview] = []  # of the body, while a log is read
        self.sent_at_ns = 0  # when the request had been sent whole; 0 where it never was
        self.status = 0
        self.version = self.reason = b""
        self.response_headers: Headers = []
        self.response_tags: list[tuple[str, bytes]] = []
        # declared by the program
        self.name = ""
        self.spec: dict[str, Any] = {}
        self.inputs = self.value = b""
        # a started program
        self.command: dict[str, Any] = {}
        self.exit_status: int | None = None
        self.child_pid = 0
        self.child_path = ""
        self.polls = 0  # how often its parent asked whether it had ended, and it had not
        # a sleep, a wait that ran out of time, a timer that fired (`name` says which): how long, where, the nth there;
        # one that is known by its end alone was asked for `lasted_ns` before its place in the order
        self.seconds = 0.0
        self.site: tuple[str, ...] = ()
        self.nth = self.lasted_ns = 0
        self.together = False

    @property
    def body(self) -> bytes:
        """The request's body; of a started program, what it was fed. It may be put together when it is asked for."""
        return self._held if isinstance(self._held, bytes) else b"".join(self._held)

    @body.setter
    def body(self, body: bytes) -> None:
        self._held = body

    @property
    def body_parts(self) -> list[bytes | memoryview]:
        """The same as it is held, in parts: nothing is copied."""
        return [self._held] if isinstance(self._held, bytes) else list(self._held)

    def lies_in(self, parts: list[bytes | memoryview]) -> None:
        """Take a body in parts that lie elsewhere and stay there."""
        self._held = parts

    @property
    def chunks(self) -> list[bytes]:
        """The answer's chunks (of a started program: both streams') as they arrived, without the wire's framing."""
        return [
            arrival.body
            for arrival in self.arrivals
            if arrival.kind == CHUNK or (arrival.kind == WIRE and arrival.body)
        ]

    @property
    def wire(self) -> bool:
        """Whether the answer was taken at the socket: its arrivals are the bytes of each read."""
        return self.library in WIRE_LIBRARIES

    @property
    def answer(self) -> bytes:
        """All bytes of the answer's body, undecoded."""
        return b"".join(self.chunks)

    def output(self, stream: int) -> bytes:
        """What a started program wrote to stdout (1) or stderr (2), as far as its parent read it."""
        return b"".join(a.data for a in self.arrivals if a.kind == CHUNK and a.stream == stream)

    @property
    def began_ns(self) -> int:
        """When it was asked for; `at_ns` is its place in the run's start order."""
        return self.at_ns - self.lasted_ns

    @property
    def summary(self) -> str:
        """One line that names the effect."""
        if self.kind == HTTP:
            return f"{self.method} {self.url}"
        if self.kind == SUBPROCESS:
            return " ".join(str(part) for part in self.command.get("args", ()))
        if self.kind == SLEEP:
            said = _SLEEPS.get(self.name, self.name + " of {} ran out")
            return f"{said.format(f'{self.seconds:g} s')} at {':'.join(self.site[:2])}"
        return f"{self.kind} {self.name}"


class Draw:
    """One recorded draw: where it stood (kind, file, qualified name, source line), its path, the exact value."""

    __slots__ = ("at_ns", "path", "site", "value")

    def __init__(self, site: tuple[str, str, str, str], path: str, value: Any, at_ns: int) -> None:
        self.site = site
        self.path = path
        self.value = value
        self.at_ns = at_ns

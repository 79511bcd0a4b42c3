"""The port: what a seam says, and to whom.

A seam watches one transport and calls whoever listens. One listener at a time stands in `current`; None means that
nobody records and nobody replays, and then every seam passes straight through at the cost of one attribute look-up.
Two kinds of listener exist, and a seam only asks `answers` which one it has:

- a *recorder* (`answers` is False): the effect goes out for real, the seam hands over what passes;
- a *playback* (`answers` is True): nothing goes out; the seam asks for each arrival and hands it to the program.

How an effect ended is one of the words below; a stop is never invented.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, Literal, Protocol

    from tachograph.seams.context import Place

    Headers = list[tuple[bytes, bytes]]

    class Exchange(Protocol):
        """One effect that a recorder watches."""

        def part(self, data: bytes) -> None:
            """A part of the request is about to be sent."""

        def sent(self) -> None:
            """The request was sent whole."""

        def head(self, status: int, headers: Headers, version: bytes, reason: bytes) -> None:
            """The head of the answer is about to be given to the program."""

        def chunk(self, data: bytes, stream: int = 0) -> None:
            """A part of the answer is about to be given to the program."""

        def wire(self, data: bytes) -> None:
            """What one read of the socket returned is about to be given to the program, head and framing included."""

        def move(self, what: bytes) -> None:
            """The program moves: its reader waits, or takes what is there; or its writer fails (SEND_FAILED)."""

        def end(self, how: str, error: BaseException | None = None) -> None:
            """The effect ended so; later calls change nothing."""

        def started(self, pid: int, path: str) -> None:
            """The program that was started has this process id (0: not known) and task path."""

        def signalled(self) -> None:
            """The program is about to send a signal to the one that it started."""

        def polled(self) -> bool | None:
            """The program asked whether it has ended, and it has not."""

        def exited(self, status: int) -> None:
            """A started program ended with this status, as `subprocess` counts it."""

    class Entered(Protocol):
        """One declared effect that a recorder watches."""

        @property
        def effect(self) -> int:
            """The effect's number in this process."""

        def leave(self, value: bytes, error: BaseException | None = None) -> None:
            """It returned this value (encoded), or raised this error."""

    class Arrival(Protocol):
        """One recorded arrival: what a replay gives the program next."""

        kind: int
        data: bytes
        how: str
        flags: int

        def head(self) -> tuple[int, Headers, bytes, bytes]:
            """Status, headers, HTTP version and reason of a `head` arrival."""

        def error(self) -> BaseException:
            """The exception with which the effect ended, made anew."""

    class Answer(Protocol):
        """One effect that a playback answers."""

        def wait(self) -> Arrival:
            """Block the calling thread until the next arrival's turn has come."""

        async def wait_async(self) -> Arrival:
            """The same, for a coroutine."""

        def send_fault(self) -> BaseException | None:
            """The error that sending raised, if that comes next."""

        def due(self) -> bool:
            """Whether something comes next, were it asked for: not what was never completed or was given up."""

        def close(self) -> None:
            """The program wants no more of it."""

    class Declared(Protocol):
        """The recorded outcome of a declared effect."""

        def wait(self) -> Any:
            """Return the recorded value, or raise the recorded error, when its turn has come."""

        async def wait_async(self) -> Any:
            """The same, for a coroutine."""

    class Lapse(Protocol):
        """A recorded wait that ended by its time-out, or a timer that fired: it ends when its turn has come."""

        @property
        def seconds(self) -> float:
            """What was asked for in the recording."""

        @property
        def at_ns(self) -> int:
            """When it ran out, in nanoseconds since the run began."""

        def wait(self, gate: Any) -> bool:
            """Block until its turn, or until somebody else opens `gate`, a locked lock; returns whether by its turn."""

        def arm(self, loop: Any, fire: Callable[[], None]) -> None:
            """Call `fire` on the loop when its turn has come."""

        def drop(self) -> None:
            """The program wants it no more."""

    class Pause(Protocol):
        """A recorded sleep."""

        def wait(self) -> None:
            """Block until its end's turn has come."""

    class Tap(Protocol):
        """Hears what passes over a connection that came in."""

        def came(self, data: bytes) -> None:
            """The program has read this."""

        def sent(self, data: bytes) -> None:
            """The program sends this."""

        def closed(self) -> None:
            """The program has closed it."""

    class _Hears(Protocol):
        """What every listener hears."""

        asleep: bool
        """Whether what passes now was not recorded: the program has not called `tachograph.install()` yet."""

        def note(self, what: str, detail: str) -> None:
            """Something passed that no seam can see, or that a replay must not allow."""

        def passed(self, what: str, detail: str) -> None:
            """A connection was let through because a seam claims it."""

        def will_write(self, path: str) -> None:
            """The program is about to write to this file (or folder), for the first time in this process."""

        def will_read(self, path: str) -> None:
            """The program is about to read this file."""

        def open(self, facts: dict[str, Any]) -> tuple[int, str | None]:
            """A decision opens; returns its number in this process and its id."""

        def tell(self, kind: int, decision: int, facts: dict[str, Any]) -> None:
            """The program says something about a decision."""

        @property
        def lends(self) -> tuple[int, ...]:
            """The descriptors that a process of this run is given beside the program's own."""

        def for_child(self, path: str) -> dict[str, str]:
            """What a process of this run that starts on that task path is told, by injection."""

        def process(self, what: str, words: list[str], path: str) -> None:
            """A process is about to be started past `subprocess`, or this one replaced. Raises PermissionError."""

        def adopt(self, pid: int, decision: int, effect: int) -> tuple[int, int]:
            """Work that stands in a decision and effect of another process is done here: their numbers here."""

        def rest(self) -> None:
            """The result of a pool's item is about to be sent from here: from now on this process may be killed."""

        def finish(self) -> None:
            """This process ends. Later calls change nothing."""

        def listens(self, sock: Any) -> None:
            """A socket of this process listens now."""

        def accepted(self, listening: Any, address: Any) -> tuple[Tap | None, Any]:
            """A connection from `address` came in: who hears it, and the address that the program is told."""

        def installed(self) -> None:
            """The program itself asked to be recorded from here on (`tachograph.install()`)."""

    class Records(_Hears, Protocol):
        """A recorder: the effect goes out for real."""

        answers: Literal[False]

        def call(self, library: str, method: str, url: str, headers: Headers, body: bytes | None) -> Exchange:
            """An HTTP request is about to go out; `body` is None where it is streamed."""

        def spawn(self, command: dict[str, Any]) -> Exchange:
            """A program is about to be started."""

        def enter(self, kind: str, name: str, spec: dict[str, Any], inputs: bytes) -> Entered:
            """A declared effect (tool, retrieval, external) begins."""

        def sleep(self, form: str, seconds: float, place: int) -> Exchange:
            """The program is about to sleep, at that place (`seams.callsites`)."""

        def lapsed(
            self, task: Place, form: str, seconds: float, place: int, nth: int, lasted: float, together: bool = False
        ) -> None:  # fmt: skip
            """The nth wait at that place ran out of time, or the timer fires, asked for `lasted` seconds ago.

            `together`: nothing of the program ran since the timer before it.
            """

        def drew(self, kind: int, code: CodeType, at: int, value: Any) -> None:
            """The program drew this value at that place."""

    class Connections(Protocol):
        """What a playback knows of connections, before a whole request has gone over one."""

        def ask(self, library: str, url: str) -> tuple[Answer, bytes] | None:
            """The recorded failure of the connection made next there, and where it failed; None: it stood."""

        def refuses(self, library: str, url: str) -> bool:
            """Whether the connection made next there failed; nothing is consumed."""

        def stops(self, library: str, method: str, url: str, headers: Headers, parts: list[bytes]) -> bool:
            """Whether sending the request of this head failed when so much of its body had been handed over."""

        def foresee(self, library: str, method: str, url: str, headers: Headers) -> tuple[list[bytes], bool]:
            """What was read before the request of this head was sent whole, and whether it ever was."""

    class Answers(_Hears, Protocol):
        """A playback: nothing goes out."""

        answers: Literal[True]

        @property
        def connections(self) -> Connections:
            """What is known of connections."""

        def ask(self, library: str, method: str, url: str, headers: Headers, body: bytes | list[bytes]) -> Answer:
            """Find the recorded answer of this request, its body whole or in parts. Raises the miss where none is."""

        def ask_spawn(self, command: dict[str, Any], path: str) -> Stub:
            """The recorded output and status of a program. Raises the miss if there is none.

            `path` is the task path that it would have here."""

        def ask_enter(self, kind: str, name: str, spec: dict[str, Any], inputs: bytes) -> Declared:
            """The recorded outcome of a declared effect. Raises the miss if there is none."""

        def ask_sleep(self, form: str, seconds: float, place: int) -> Pause | None:
            """The recorded sleep, or None where none fits: it is slept for real."""

        def ask_lapse(self, task: Place, form: str, seconds: float, place: int, nth: int) -> Lapse | None:
            """The recording of the nth wait or timer at that place, if it ran out of time; else it keeps its own."""

        def extra_lapse(self, task: Place, form: str, seconds: float, place: int) -> None:
            """A wait ran out of time, or a timer fired, that did not in the recording."""

        def redraw(self, kind: int, code: CodeType, at: int) -> Any:
            """The value that was drawn there, or `MISSING`."""

        def drifted(self, kind: int, code: CodeType, at: int, what: str) -> None:
            """The recorded value cannot be had here; `what` says so, and what there is instead."""

    Listener = Records | Answers

    class Stub(Protocol):
        """A recorded program: what it wrote, how it ended, or the error with which it could not start."""

        stdout: bytes
        stderr: bytes
        status: int
        refusal: BaseException | None
        recorded: bool
        until_signalled: bool
        fed: int | None
        """Bytes that it was fed before its input was left open; None where that was closed."""
        steps: tuple[list[tuple[int, float, int]], float] | None
        """When it wrote what (stream, seconds, bytes), and when it ended, to be played at that pace; None: at once."""
        again: bool  # it is run again, on this path:
        path: str

        def part(self, data: bytes) -> None:
            """The program feeds it this. Raises the miss if the recorded one was fed something else."""

        def sent(self) -> None:
            """The program has fed it all. Raises the miss if the recorded one was fed more."""

        def chunk(self, data: bytes, stream: int = 0) -> None:
            """The program reads what the stub plays."""

        def started(self, pid: int, path: str) -> None:
            """It runs again."""

        def signalled(self) -> None:
            """The program sends it a signal."""

        def polled(self) -> bool | None:
            """The program asks whether it runs: True as often as it did, False where it had ended, None: not known."""

        def due(self, lapse: Lapse) -> tuple[int, int, int]:
            """Bytes that it had been fed, at most, and of its stdout and stderr that were read, by that time-out."""

        def exited(self, status: int) -> None:
            """The stub has ended."""


EOF_, ERROR, CUT_OFF, CLOSED_EARLY, OPEN_AT_END, RETURNED = (
    "eof",
    "error",
    "cut_off",
    "closed_early",
    "open_at_end",
    "returned",
)

FAILED_AT = b"failed-at"
"""The one header of a `CONNECT` effect that stands for a connection that was not made."""
DIAL, LATER, BEHIND = b"dial", b"later", b"behind"
"""Where it failed: reaching the other side; what the client did then (a tunnel, TLS); that, behind a proxy reached."""

SEND_FAILED = b"send\0"
"""What a `move` begins with that says that a send of the request raised; the encoded error follows."""

MISSING = object()

current: Listener | None = None


def listen(listener: Listener | None) -> None:
    """Let this listener hear every seam from now on (None: nobody)."""
    global current
    current = listener


def how_of(error: BaseException) -> str:
    """Say how an effect ended that raised this: by itself (`error`), or because the program stopped waiting.

    An exit counts as an error: a replay that only waited for it would hang where the program ended.
    """
    return ERROR if isinstance(error, (Exception, SystemExit)) else CUT_OFF

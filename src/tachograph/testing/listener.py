"""`ScriptedServer`: a real HTTP/1.1 server on loopback that does what its script says, and remembers what it was asked.

- A script is a sequence of behaviours, one per request in order of arrival, or a function from a request to one.
- Every complete request is kept (`requests`, `hits`) before it is answered, and every connection counted, so that a
  test can prove that a program made no call at all: `hits == 0 and connections == 0`.
- A request beyond the script's end gets a 410 that says so; no client retries that status.
- What a script raises is no answer of any kind: the connection is reset and `__exit__` raises it.
- At the end every connection is closed and every thread joined; nothing stays behind.
"""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import BinaryIO, Self, cast

from tachograph.testing.delivery import Courier, Delivery
from tachograph.testing.replies import Behaviour, Hangup, plain
from tachograph.testing.wire import NotHttp, PeerGone, Request, read_request

Answerer = Callable[[Request], Behaviour]
Script = Sequence[Behaviour] | Answerer
LOOPBACK = "127.0.0.1"
_JOIN_S = 5.0


class ScriptedServer:
    """A server for one test, or for a process of its own.

    `then` answers every request beyond a sequence's end. `port` 0 takes a free one. Use it as a context manager, or
    call `start` and `stop`.
    """

    def __init__(
        self,
        script: Script,
        *,
        then: Behaviour | None = None,
        port: int = 0,
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        self._script = script
        self._then = then
        self._port = port
        self._on_request = on_request
        self._change = threading.Condition()
        self._requests: list[Request] = []
        self._deliveries: list[Delivery] = []
        self._faults: list[BaseException] = []
        self._accepted = 0
        self._open: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen, and answer in threads of its own. Raises OSError where the port is taken."""
        self._listener = socket.create_server((LOOPBACK, self._port), backlog=128)
        self._port = int(self._listener.getsockname()[1])
        self._begin(self._accept, name="scripted-accept")
        return self

    def stop(self) -> None:
        """Close every connection and wait for every thread. A second call does nothing."""
        if self._listener is None or self._stopping.is_set():
            return
        self._stopping.set()
        # Closing alone does not wake a thread inside accept() or recv(); shutting down does.
        for connection in (self._listener, *self._open.copy().values()):
            _shut(connection)
        for thread in self._threads.copy():
            thread.join(_JOIN_S)
        self._listener.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None and self._faults:
            raise self._faults[0]

    # --- what a test asks ---------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._listener is None:
            raise RuntimeError("the server has not been started: use it as a context manager, or call start()")
        return self._port

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a slash at the end."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every complete request so far, in order of arrival."""
        with self._change:
            return tuple(self._requests)

    @property
    def hits(self) -> int:
        """How many requests came."""
        return len(self._requests)

    @property
    def connections(self) -> int:
        """How many connections were accepted, whether a request came over them or not."""
        return self._accepted

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """How each answered request ended, in order of their ends."""
        with self._change:
            return tuple(self._deliveries)

    @property
    def faults(self) -> tuple[BaseException, ...]:
        """What the script raised, and requests that were no HTTP."""
        with self._change:
            return tuple(self._faults)

    def wait_for_hits(self, count: int, *, timeout_s: float = 10.0) -> bool:
        """Wait until `count` requests have come; False after `timeout_s` seconds."""
        with self._change:
            return self._change.wait_for(lambda: len(self._requests) >= count, timeout_s)

    def wait_for_deliveries(self, count: int, *, timeout_s: float = 10.0) -> bool:
        """Wait until `count` deliveries have ended; False after `timeout_s` seconds."""
        with self._change:
            return self._change.wait_for(lambda: len(self._deliveries) >= count, timeout_s)

    # --- answering ----------------------------------------------------------------------------------------------------

    def behaviour_for(self, request: Request) -> Behaviour:
        """What the script does with this request."""
        if callable(self._script):
            return self._script(request)
        if request.number < len(self._script):
            return self._script[request.number]
        if self._then is not None:
            return self._then
        said = f"the script has {len(self._script)} behaviours; this is request {request.number + 1}: "
        return plain(f"{said}{request.method} {request.target}\n", status=410)

    def _begin(self, work: Callable[..., None], *arguments: object, name: str) -> None:
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        listener = cast(socket.socket, self._listener)
        while not self._stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:  # shut down by stop(), or the client reset before it was accepted
                self._stopping.wait(0.01)
                continue
            with self._change:
                number, self._accepted = self._accepted, self._accepted + 1
                self._open[number] = connection
            self._threads[1:] = [thread for thread in self._threads[1:] if thread.is_alive()]
            self._begin(self._serve, connection, number, name=f"scripted-{number}")

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection, connection.makefile("rb") as source:
                self._converse(connection, cast(BinaryIO, source), number)
        finally:
            with self._change:
                self._open.pop(number, None)

    def _converse(self, connection: socket.socket, source: BinaryIO, number: int) -> None:
        courier = Courier(connection, self._stopping)
        while courier.keep_alive and not self._stopping.is_set():
            try:
                request = read_request(source, go_on=courier.go_on, connection=number)
            except (PeerGone, OSError):
                return
            except NotHttp as fault:
                self._note(fault)
                return
            if request is None:
                return
            self._answer(courier, self._keep(request))

    def _answer(self, courier: Courier, request: Request) -> None:
        try:
            delivery = courier.deliver(request, self.behaviour_for(request))
        except Exception as fault:  # noqa: BLE001 - the edge between a test's own code and a thread nobody watches
            self._note(fault)
            delivery = courier.deliver(request, Hangup(ending="reset"))
        with self._change:
            self._deliveries.append(delivery)
            self._change.notify_all()

    def _keep(self, request: Request) -> Request:
        with self._change:
            kept = dataclasses.replace(request, number=len(self._requests))
            self._requests.append(kept)
            if self._on_request is not None:
                self._on_request(kept)
            self._change.notify_all()
        return kept

    def _note(self, fault: BaseException) -> None:
        with self._change:
            self._faults.append(fault)
            self._change.notify_all()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # its own thread was faster
        pass

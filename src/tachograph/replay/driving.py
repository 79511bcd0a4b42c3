"""Inside a replay: sends the recorded inbound request to the program's own listener, and keeps what it answers.

When the program listens where the run did, a thread connects there over the closed world's loopback, sends the request
as it came (credentials are the placeholders of the record), reads the answer and reports it. When the answer is whole
and the decision closed, the process ends: a server would go on for ever. Guarantees:

- the request is sent once; other connections of the program to itself are none of ours;
- its connection gets the task path that the recorded one had, and what is started for it those below;
- what was recorded outside the decision is given when it is asked for: nobody waits for its place in the order.
"""

from __future__ import annotations

import os
import sys
from _thread import start_new_thread

from tachograph.formats import frame as fr
from tachograph.formats.wire import Deframer
from tachograph.formats.wire_request import read_request_head
from tachograph.seams import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tachograph.replay.playback import Playback

LOOK_S = 0.1  # how often the thread looks whether the decision has closed, once the answer is there
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


class Drive:
    """The request of one decision, on its way into the program; also the tap of its connection."""

    def __init__(self, playback: Playback, number: int, report: Callable[[int, int, bytes], None]) -> None:
        log = playback.log
        self._playback, self._report, self.number = playback, report, number
        facts = [fact for fact in log.of(fr.INBOUND) if fact.decision == number]
        self._said = next(fact.said for fact in facts if fact.flags)
        self._data = b"".join(fact.payload for fact in facts if not fact.flags)
        begun = read_request_head(self._data.partition(b"\r\n\r\n")[0])
        self._bodiless = begun is not None and begun.method == "HEAD"
        replies = [fact for fact in log.of(fr.REPLY) if fact.decision == number]
        self._reply_size = None if any(fact.flags for fact in replies) else sum(len(one.payload) for one in replies)
        self.recorded = next(fact for fact in log.of(fr.OPEN) if fact.decision == number)
        self._never_closed = not any(fact.decision == number for fact in log.of(fr.CLOSE))
        self._own = [effect for effect in log.effects if effect.decision == number]
        self.opened = self._closed = False
        self._local: Any = None
        self._started = self._taken = self._resumed = False
        inside = {number}
        for fact in log.of(fr.OPEN):
            if fact.parent in inside:
                inside.add(fact.decision)
        for effect in log.effects:
            if effect.decision not in inside:
                playback.order.release(effect)

    # -- what the program does

    def listens(self, sock: Any) -> None:
        """It listens: if it is where the recorded connection came in, the request is sent."""
        name, wanted = sock.getsockname(), self._said["listener"]
        where = list(name[:2]) if isinstance(name, tuple) else name
        if where == wanted and not self._started:
            self._started = True
            start_new_thread(self._run, (int(sock.family), name))

    def accepted(self, listening: Any, address: Any) -> tuple[Drive | None, Any]:
        """It accepts a connection. Ours is told the recorded address, and stands where the recorded one stood."""
        came = address[:2] if isinstance(address, tuple) else None
        if self._local is None or self._taken or (came is not None and came != self._local[:2]):
            return None, address
        self._taken = True
        context.aim(self.recorded.path)
        context.inbound.set(self if listening.gettimeout() == 0 else None)
        peer = self._said["peer"]
        return self, (*peer, *address[2:]) if isinstance(peer, list) else address

    def came(self, data: bytes) -> None:
        """It reads from our connection."""
        if not self._resumed:
            self._resumed = True
            place = context.here()
            if place is not context.root:  # whichever worker got it stands where the recorded one stood
                place.path = self._said["path"]
            if place.path == self._said["path"]:
                place.resume(self._said["children"])
        context.inbound.set(self)

    def sent(self, data: bytes) -> None:
        """It sends something: read at our end."""

    def closed(self) -> None:
        """It closes our connection: seen at our end."""
        if context.inbound.get() is self:
            context.inbound.set(None)

    def takes(self) -> bool:
        """Whether a decision that opens here, on whatever path, is the recorded one: it then gets its path."""
        if self.opened or context.inbound.get() is not self:
            return False
        context.here().path = self.recorded.path
        return True

    def opens(self) -> None:
        """The recorded decision opens: what is started in it is counted on from what was started before."""
        self.opened = True
        context.here().resume(self._said["opened"])

    def closes(self, number: int) -> None:
        """A decision closes."""
        self._closed = self._closed or number == self.number

    # -- the other end

    def _run(self, family: int, name: Any) -> None:
        try:
            self._converse(family, name)
        except OSError as fault:
            os.write(2, f"tachograph: the recorded request could not be sent ({fault})\n".encode())
        self._playback.finish()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # closed, or none
                pass
        os._exit(0)

    def _converse(self, family: int, name: Any) -> None:
        from _socket import SOCK_STREAM, socket  # the plain one: no seam hears of it

        client = socket(family, SOCK_STREAM)
        if isinstance(name, tuple):
            host = _LOOPBACK.get(name[0], name[0])
            peer = self._said["peer"]
            for number in (peer[1] if isinstance(peer, list) else 0, 0):
                try:
                    client.bind((host, number))
                    break
                except OSError:  # taken, where the world could not be closed by a network of its own
                    continue
            self._local = client.getsockname()
            client.connect((host, name[1], *name[2:]))
        else:
            self._local = ()
            client.connect(name)
        client.settimeout(LOOK_S)
        rest, answer, got, over = memoryview(self._data), Deframer(bodiless=self._bodiless), 0, False
        while not self._is_done(over=over, got=got):
            if over:
                self._pause()
                continue
            if rest:
                rest = rest[_some(client.send, rest[: 1 << 16]) or 0 :]
                client.settimeout(0.001 if rest else LOOK_S)
            data = _some(client.recv, 1 << 16)
            if data is not None:
                if data:
                    got += len(data)
                    self._report(fr.REPLY, self.number, data)
                    answer.feed(data)
                over = not data or answer.complete
        client.close()

    def _is_done(self, *, over: bool, got: int) -> bool:
        """Whether the answer has come, as far as the recorded one went, and the decision has gone as far too."""
        if not self.opened:  # nor will it, unless it was opened after the answer
            return over and not self._said["answered"]
        if not over and (self._reply_size is None or got < self._reply_size):
            return False
        claimed = self._playback.ledger.is_claimed
        return self._closed or (self._never_closed and all(claimed(effect) for effect in self._own))

    @staticmethod
    def _pause() -> None:
        from _thread import allocate_lock

        gate = allocate_lock()
        gate.acquire()
        gate.acquire(timeout=LOOK_S)


def _some(call: Callable[[Any], Any], what: Any) -> Any:
    """Return what the call gives now; None where nothing moves; no bytes where the connection is gone."""
    try:
        return call(what)
    except (TimeoutError, BlockingIOError):
        return None
    except (BrokenPipeError, ConnectionResetError):
        return b""

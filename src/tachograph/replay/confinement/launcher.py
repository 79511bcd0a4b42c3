"""The launcher: between fork and exec it closes the world around a program, and keeps it until the program has ended.

Ways, tried in order: `namespaces` (a world of its own), `landlock` (the machine's, with little left to do in it), then
none. A way that fails has started nothing; the next one is tried, and the report says why.

With namespaces three processes stand between our keeper and the program:

    the leader    outside; ends as the program ends, so that the keeper sees the program's own end
    the warden    process 1 of the world: reaps, passes signals on, answers the filter, tells what was written
    the program   process 2, leader of its own group, in the foreground if it has a terminal

If one of them dies the world ends with all that runs in it. What the launcher learns stands in the replay's report.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from typing import TYPE_CHECKING, NoReturn

from tachograph.formats import frame as fr
from tachograph.replay.confinement import namespaces
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.warden import Warden
from tachograph.replay.confinement.watching import LANDLOCK, NAMESPACES, Failed, Report, Settings, end_like, told_of
from tachograph.replay.confinement.watchman import Watchman
from tachograph.supervision.program import PROBLEM, STARTED_AS

if TYPE_CHECKING:
    from collections.abc import Callable


class World:
    """A world to be closed around one program; a `supervision.program.Surrounding`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._report = Report(settings.report)

    def surround(self, start: Callable[[], None], problem: int) -> None:
        """Start the program in the closed world and end as it does. Returns, having started nothing, if none holds."""
        _occupy_closed_streams()
        for way in self._settings.ways:
            try:
                if way == NAMESPACES:
                    self._by_namespaces(start, problem)
                elif way == LANDLOCK:
                    Watchman(self._report, self._settings, start, problem).found()
            except (OSError, Failed) as fault:
                self._report.failed.append((way, str(fault)))
        self._report.tell(fr.CONFINED, {"way": "none", "held": {}, "open": [], "failed": self._report.failed})

    # --- the leader --------------------------------------------------------------------------------------------------

    def _by_namespaces(self, start: Callable[[], None], problem: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        pid = os.fork()
        if pid == 0:
            ours.close()
            warden = Warden(self._report, self._settings, theirs, start, problem)
            try:
                warden.found()
            except BaseException as fault:  # noqa: BLE001  whatever it is, no second way may be tried once it runs
                if not warden.underway:
                    theirs.send(b"F" + told_of(fault).encode("utf-8", "backslashreplace"))
            finally:
                os._exit(70)
        theirs.close()
        self._lead(ours, pid, problem)

    def _lead(self, ours: socket.socket, founder: int, problem: int) -> None:
        """Serve the founder until the program is let go, then wait for its end. Raises Failed before that."""
        while True:
            data, credentials, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(12))
            letter, rest = data[:1], data[1:]
            if letter == b"U":
                ours.send(b"all" if os.geteuid() == 0 and namespaces.map_all(founder) else b"self")
            elif letter == b"F":
                os.waitpid(founder, 0)
                ours.close()
                raise Failed(rest.decode("utf-8", "replace"))
            elif letter == b"P":
                _wait_for_end(ours, founder, problem, struct.unpack("iii", credentials[0][2])[0])
            else:  # the founder is gone, and with it the world
                end_like(signal.SIGKILL)


def _wait_for_end(ours: socket.socket, founder: int, problem: int, program: int) -> NoReturn:
    """End as the program does. Whatever goes wrong, no other way is tried once it runs."""
    status = int(signal.SIGKILL)
    try:
        sc.die_with_parent()
        os.write(problem, PROBLEM.pack(program, STARTED_AS))
        os.close(problem)
        os.closerange(0, 3)  # the program's streams: their end is its end
        os.waitpid(founder, 0)
        data = ours.recv(16)
        if data[:1] == b"S":
            status = int.from_bytes(data[1:], "little")
    finally:
        end_like(status)


def _occupy_closed_streams() -> None:
    """No descriptor of ours may get the number of a standard stream that the program has closed; exec closes these."""
    while (fd := os.open("/dev/null", os.O_RDWR)) < 3:
        continue
    os.close(fd)

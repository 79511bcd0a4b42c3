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

import errno
import os
import select
import signal
import socket
import stat
import struct
from hashlib import file_digest
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay.confinement import file_tree, namespaces, probes, seccomp
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.changes import changes
from tachograph.replay.confinement.notify import Listener
from tachograph.supervision.program import PROBLEM, STARTED_AS

if TYPE_CHECKING:
    from collections.abc import Callable

NAMESPACES, LANDLOCK = "namespaces", "landlock"
MOST_CHANGES = 20_000
"""Changed files that are told one by one."""


class Settings(NamedTuple):
    """How the world is to be closed. `ways`: which to try, in order. `report`: the descriptor of the replay's report.

    `terminal`: the program has one. `targets`: the doors to try from inside.
    """

    ways: tuple[str, ...]
    report: int
    terminal: bool
    targets: probes.Targets


class Failed(Exception):
    """This way cannot close a world here; nothing was started."""


class World:
    """A world to be closed around one program; a `supervision.program.Surrounding`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._failed: list[tuple[str, str]] = []

    def surround(self, start: Callable[[], None], problem: int) -> None:
        """Start the program in the closed world and end as it does. Returns, having started nothing, if none holds."""
        _occupy_closed_streams()
        for way in self._settings.ways:
            try:
                if way == NAMESPACES:
                    self._by_namespaces(start, problem)
            except (OSError, Failed) as fault:
                self._failed.append((way, str(fault)))
        self.tell(fr.CONFINED, {"way": "none", "held": {}, "open": [], "failed": self._failed})

    def tell(self, kind: int, said: Any) -> None:
        """Append one frame to the report."""
        frame = fr.Frame(kind, 0, 0, 0, 0, 0, monotonic_ns(), b"", values.encode(said)).written()
        os.write(self._settings.report, fr.LENGTH.pack(len(frame)) + frame)

    # --- the leader --------------------------------------------------------------------------------------------------

    def _by_namespaces(self, start: Callable[[], None], problem: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        pid = os.fork()
        if pid == 0:
            ours.close()
            warden = _Warden(self, self._settings, theirs, start, problem)
            try:
                warden.found()
            except BaseException as fault:  # noqa: BLE001  whatever it is, no second way may be tried once it runs
                if not warden.underway:
                    theirs.send(b"F" + _said(fault).encode("utf-8", "backslashreplace"))
            finally:
                os._exit(70)
        theirs.close()
        self._lead(ours, pid, problem)

    def _lead(self, ours: socket.socket, founder: int, problem: int) -> None:
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
                pid = struct.unpack("iii", credentials[0][2])[0]
                os.write(problem, PROBLEM.pack(pid, STARTED_AS))
                os.close(problem)
                os.closerange(0, 3)  # the program's streams: their end is its end
                os.waitpid(founder, 0)
            elif letter == b"S":
                end_like(int.from_bytes(rest, "little"))
            else:  # the warden is gone, and with it the world
                end_like(signal.SIGKILL)


def _occupy_closed_streams() -> None:
    """No descriptor of ours may get the number of a standard stream that the program has closed; exec closes these."""
    while (fd := os.open("/dev/null", os.O_RDWR)) < 3:
        continue
    os.close(fd)


def end_like(status: int) -> NoReturn:
    """End this process as the wait status says: by the same exit code, or by the same signal and without a core."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        sc.leave_no_core()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _said(fault: BaseException) -> str:
    if isinstance(fault, OSError) and fault.errno:
        where = f" ({fault.filename})" if fault.filename else ""
        return f"{errno.errorcode.get(fault.errno, fault.errno)}{where}"
    return f"{type(fault).__name__}: {fault}"


def _content(place: str) -> dict[str, Any]:
    """Kind, size and digest of what lies at a place; of nothing where it is empty."""
    if not place:
        return {"kind": "absent", "size": 0, "sha256": ""}
    found = os.lstat(place)
    if not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "link" if stat.S_ISLNK(found.st_mode) else "special"
        return {"kind": kind, "size": 0, "sha256": ""}
    with open(place, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return {"kind": "file", "size": found.st_size, "sha256": digest}


class _Warden:
    """The process that makes the world, and its process 1."""

    def __init__(self, world: World, settings: Settings, leader: socket.socket, start: Callable[[], None],
                 problem: int) -> None:  # fmt: skip
        self._world = world
        self._settings = settings
        self._leader = leader
        self._start = start
        self._problem = problem
        self._program = 0
        self._tree: file_tree.Tree | None = None
        self._listener: Listener | None = None
        self.underway = False

    def found(self) -> NoReturn:
        """Leave the namespaces and let a child be process 1 of the new ones."""
        uid, gid = os.getuid(), os.getgid()
        seen = file_tree.look()
        namespaces.leave()
        self._leader.send(b"U")
        if self._leader.recv(8) != b"all":
            namespaces.map_self(uid, gid)
        if os.fork():
            os._exit(0)
        os.umask(0)
        sc.loopback_up()
        self._tree = tree = file_tree.build(seen, terminal=self._settings.terminal)
        self._start_program(tree)
        self._watch()

    def _start_program(self, tree: file_tree.Tree) -> None:
        ready_read, ready = os.pipe()
        go_read, go = os.pipe()
        self._program = os.fork()
        if self._program == 0:
            try:
                os.close(ready_read)
                os.close(go)
                self._become_program(ready, go_read)
            except BaseException as fault:  # noqa: BLE001  as above
                os.write(ready, b"F" + _said(fault).encode("utf-8", "backslashreplace"))
            finally:
                os._exit(70)
        os.close(self._problem)
        os.closerange(0, 3)
        os.close(ready)
        os.close(go_read)
        held = self._hear_program(ready_read, go)
        open_ = [f"{path}: read-only instead of an overlay" for path in tree.read_only]
        if self._settings.terminal:
            open_.append("terminals of the same user: /dev/pts is this machine's, as the program has a terminal")
        said = {"way": NAMESPACES, "held": held, "open": open_, "failed": self._world._failed}
        self._world.tell(fr.CONFINED, said)
        self.underway = True
        os.write(go, b"g")
        os.close(go)

    def _hear_program(self, ready: int, go: int) -> dict[str, bool]:
        """Follow the program's process until it is about to become the program."""
        while True:
            data = os.read(ready, 65536)
            if data[:1] == b"L":
                fd = sc.descriptor_of(self._program, int(data[1:]))
                self._listener = Listener(fd, proc=f"{file_tree.NEW}/proc", world=file_tree.NEW, tell=self._attempt)
                os.write(go, b"l")
                self._serve_until(ready)
            elif data[:1] == b"R":
                held: dict[str, bool] = values.decode(data[1:])
                os.close(ready)
                if self._listener is not None:
                    self._listener.probing = False
                return held
            else:
                os.waitpid(self._program, 0)
                raise Failed(data[1:].decode("utf-8", "replace") or "the program's process ended")

    def _serve_until(self, ready: int) -> None:
        assert self._listener is not None
        waiting = select.poll()
        waiting.register(ready, select.POLLIN)
        waiting.register(self._listener.fd, select.POLLIN)
        while True:
            for fd, _ in waiting.poll():
                if fd == ready:
                    return
                self._listener.answer_next()

    def _tell_changes(self) -> None:
        assert self._tree is not None
        door = os.path.dirname(self._settings.targets.file)
        ours = (change for change in changes(self._tree) if not door or not change.path.startswith(door))
        for number, change in enumerate(ours):
            if number == MOST_CHANGES:
                self._world.tell(fr.WRITTEN, {"path": "", "what": "more", "kind": "", "size": 0, "sha256": ""})
                return
            self._world.tell(fr.WRITTEN, {"path": change.path, "what": change.what, **_content(change.place)})

    def _attempt(self, what: str, where: str, path: str) -> None:
        stopped_by = "seccomp"
        self._world.tell(fr.ATTEMPT, {"what": what, "where": f"{where} by {path}".strip(), "stoppedBy": stopped_by})

    # --- the process that becomes the program ------------------------------------------------------------------------

    def _become_program(self, ready: int, go: int) -> None:
        sc.unshare(sc.NEW_MOUNTS)  # so that the warden keeps sight of the machine's files
        os.chdir(file_tree.NEW)
        sc.pivot_root(".", ".")
        sc.unmount(".")
        os.chdir("/")
        held = probes.try_doors(self._settings.targets)
        probes.take_away(self._settings.targets)
        namespaces.drop_capabilities()
        sc.gain_nothing()
        try:
            listener = sc.install_filter(seccomp.program(seccomp.HELD))
        except OSError:  # another listens to us already, or the kernel is too old: the namespaces hold all the same
            pass
        else:
            os.write(ready, b"L%d" % listener)
            os.read(go, 1)
            os.close(listener)
            held.update(probes.try_calls())
        os.write(ready, b"R" + values.encode(held))
        if os.read(go, 1) != b"g":
            os._exit(70)
        os.close(ready)
        os.close(go)
        self._leader.send(b"P")
        self._leader.close()
        self._start()

    # --- process 1 ---------------------------------------------------------------------------------------------------

    def _watch(self) -> NoReturn:
        """Reap, pass signals on and answer the filter, until nothing runs here any more or the leader is gone."""
        signals = sc.signal_descriptor()
        waiting = select.poll()
        waiting.register(signals, select.POLLIN)
        waiting.register(self._leader, 0)
        if self._listener is not None:
            waiting.register(self._listener.fd, select.POLLIN)
        self._reap()
        while True:
            for fd, events in waiting.poll():
                if fd == signals:
                    number = sc.next_signal(signals)
                    if number == signal.SIGCHLD:
                        self._reap()
                    elif self._program:
                        os.killpg(self._program, number)
                elif fd == self._leader.fileno():
                    if self._program:
                        os._exit(70)
                    waiting.unregister(fd)
                elif self._listener is not None and events & select.POLLIN:
                    self._listener.answer_next()
                else:  # nobody has the filter any more
                    waiting.unregister(fd)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                os._exit(0)
            if not pid:
                return
            if pid == self._program:
                self._program = 0
                self._tell_changes()
                self._leader.send(b"S" + status.to_bytes(4, "little"))

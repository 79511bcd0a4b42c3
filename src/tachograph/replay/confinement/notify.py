"""The listener of the filter: which calls go on inside, which are attempts to leave, and how they are told.

It runs outside the program, in the process that keeps its world. Rules:
- A call that cannot be read for certain is refused and told.
- An address inside the world (a listener or a bound socket of its own) goes on; any other address is an attempt.
- What the C library does by itself is refused without being told: its name service asks daemons of this machine, and
  its sorting of addresses connects datagram sockets over which nothing is sent. The same for the rings that libuv asks
  for at the start of every loop, and lives without.

The listener tells; it does not hold. Between its look and the call another thread can change the address: then the
call ends at the edge of the namespaces, which is what holds.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from typing import TYPE_CHECKING, NamedTuple

from tachograph.replay.confinement import system_calls as sc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_TOLD = 1000
"""Attempts that are told one by one; a program that goes on is refused all the same."""

_LIBRARY_DAEMONS = ("/run/nscd/", "/var/run/nscd/", "/var/lib/sss/pipes/", "/run/systemd/", "/var/run/systemd/")
# Entries and flags (IORING_SETUP_SQPOLL, IORING_SETUP_NO_SQARRAY) of libuv 1.45 to 1.51.
_LIBUV_RINGS = ((256, 0), (256, 0x10000), (64, 2), (64, 0x10002))
_DATAGRAM, _TYPE_MASK = 2, 15
_DOMAIN_PORT = 53
_FAMILIES = {int(value): name for name, value in vars(socket).items() if name.startswith("AF_")}
_TYPES = {int(value): name for name, value in vars(socket).items() if name.startswith("SOCK_") and int(value) < 16}


class Refused(NamedTuple):
    """A call that must fail: with which errno, and what is told of it (nothing where `what` is empty)."""

    error: int
    what: str = ""
    where: str = ""


class Listener:
    """Answers the calls of one world.

    `proc`: where the world's /proc is; `world`: where its root is; `inside`: whether it has a network of its own, so
    that an address can be inside; without one, `ports` are those of loopback that are let through.
    """

    def __init__(
        self, fd: int, *, proc: str, world: str, inside: bool, ports: Sequence[int] = (),
        tell: Callable[[str, str, str], None],
    ) -> None:  # fmt: skip
        """`tell(what, where, path)` is called for each attempt, `path` being the executable that made it."""
        self._inside = inside
        self._ports = () if inside else tuple(ports)
        self.fd = fd
        self.probing = True
        self.refused = 0
        self._proc = proc
        self._world = world
        self._tell = tell
        self._told = 0

    def answer_next(self) -> None:
        """Answer one call that waits."""
        try:
            call = sc.next_notification(self.fd)
        except OSError:  # its thread was killed meanwhile
            return
        try:
            verdict = self._judge(call)
        except Exception:  # noqa: BLE001  the world must go on, whatever a program hands to the kernel
            verdict = Refused(errno.EACCES, self._name(call), "an address that could not be read")
        if not sc.is_waiting(self.fd, call.id):
            return
        if verdict is not None:
            self.refused += 1
            if verdict.what and not self.probing and self._told < MOST_TOLD:
                self._told += 1
                self._tell(verdict.what, verdict.where, self._executable(call.pid))
        sc.answer(self.fd, call.id, error=0 if verdict is None else verdict.error)

    def _executable(self, pid: int) -> str:
        try:
            return os.readlink(f"{self._proc}/{pid}/exe")
        except OSError:
            return "?"

    @staticmethod
    def _name(call: sc.Notification) -> str:
        numbers = sc.NUMBERS
        if numbers is None or call.audit != numbers.audit:
            return "a system call of another architecture"
        names = {number: name for name, number in numbers._asdict().items()}
        if call.number in (sc.IO_URING_SETUP, sc.IO_URING_ENTER, sc.IO_URING_REGISTER):
            return "io_uring"
        return names.get(call.number, f"system call {call.number}")

    def _judge(self, call: sc.Notification) -> Refused | None:
        numbers = sc.NUMBERS
        name = self._name(call)
        if numbers is None or call.audit != numbers.audit:
            return Refused(errno.EPERM, name, str(call.number))
        if call.number == numbers.socket:
            family, kind = call.arguments[0] & 0xFFFFFFFF, call.arguments[1] & _TYPE_MASK
            words = f"{_FAMILIES.get(family, family)}, {_TYPES.get(kind, kind)}"
            return Refused(errno.EACCES, "socket", words)
        if call.number == numbers.connect:
            return self._address(call, name, call.arguments[1], call.arguments[2])
        if call.number == numbers.sendto:
            return self._address(call, name, call.arguments[4], call.arguments[5])
        if call.number == numbers.sendmsg:
            return self._message(call, name, call.arguments[1])
        if call.number == numbers.sendmmsg:
            for place in range(min(call.arguments[2] & 0xFFFFFFFF, 1024)):
                verdict = self._message(call, name, call.arguments[1] + 64 * place)
                if verdict is not None:
                    return verdict
            return None
        if name == "io_uring":
            size = call.arguments[0] & 0xFFFFFFFF
            ring = size, int.from_bytes(self._read(call.pid, call.arguments[1] + 8, 4), "little")
            return Refused(errno.ENOSYS, "" if ring in _LIBUV_RINGS else name, f"a ring of {size} entries")
        return Refused(errno.EPERM, name, "")

    def _message(self, call: sc.Notification, name: str, at: int) -> Refused | None:
        address, size = struct.unpack("=QI", self._read(call.pid, at, 12))
        return None if not address else self._address(call, name, address, size)

    def _read(self, pid: int, at: int, size: int) -> bytes:
        fd = os.open(f"{self._proc}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, at)
        finally:
            os.close(fd)

    def _address(self, call: sc.Notification, name: str, at: int, size: int) -> Refused | None:
        data = self._read(call.pid, at, min(size & 0xFFFFFFFF, 128))
        family = int.from_bytes(data[:2], "little")
        connects = name == "connect"
        if family == socket.AF_UNIX:
            return self._unix(call, name, data[2:])
        if family in (socket.AF_INET, socket.AF_INET6):
            loopback, text, port = _internet(family, data)
            inside = loopback and self._inside
            if loopback and connects and port in self._ports:
                return None
            datagram = connects and self._kind_of(call) == _DATAGRAM
            if inside and datagram and port != _DOMAIN_PORT:
                return None
            table = ("udp", "udp6") if datagram or not connects else ("tcp", "tcp6")
            if inside and self._is_bound(table, port):
                return None
            return Refused(errno.EACCES, name, text)
        if family in (socket.AF_UNSPEC, socket.AF_NETLINK, 38):  # 38: AF_ALG
            return None
        return Refused(errno.EACCES, name, f"{_FAMILIES.get(family, family)}")

    def _kind_of(self, call: sc.Notification) -> int:
        """The type of the socket that the call is about; a stream where it cannot be known."""
        try:
            fd = sc.descriptor_of(self._leader(call.pid), call.arguments[0] & 0xFFFFFFFF)
        except OSError:
            return 1
        with socket.socket(fileno=fd) as copy:
            return copy.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)

    def _leader(self, pid: int) -> int:
        """The process of a thread."""
        with open(f"{self._proc}/{pid}/status", encoding="utf-8", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Tgid:"))

    def _is_bound(self, tables: tuple[str, ...], port: int) -> bool:
        wanted = f"{port:04X}"
        for table in tables:
            listens = "0A" if table.startswith("tcp") else None
            try:
                with open(f"{self._proc}/1/net/{table}", encoding="utf-8") as file:
                    for line in file:
                        words = line.split()
                        if words[1].endswith(":" + wanted) and listens in (None, words[3]):
                            return True
            except OSError:
                continue
        return False

    def _unix(self, call: sc.Notification, name: str, data: bytes) -> Refused | None:
        if data[:1] == b"\0":  # abstract: of this network namespace alone
            shown = "@" + data[1:].decode("utf-8", "backslashreplace")
            return None if self._inside and self._is_own(shown) else Refused(errno.ECONNREFUSED, name, f"unix:{shown}")
        path = os.fsdecode(data.partition(b"\0")[0])
        if not path:
            return None if self._inside else Refused(errno.EINVAL)
        full = path if path.startswith("/") else f"{os.readlink(f'{self._proc}/{call.pid}/cwd')}/{path}"
        try:
            fd = sc.open_in(self._world, full)
        except OSError:  # the call will find nothing either
            return None if self._inside else Refused(errno.ENOENT)
        try:
            found = os.fstat(fd)
        finally:
            os.close(fd)
        if self._inside and (not stat.S_ISSOCK(found.st_mode) or self._is_own(path)):
            return None
        quiet = full.startswith(_LIBRARY_DAEMONS)
        return Refused(errno.ECONNREFUSED, "" if quiet else name, f"unix:{path}")

    def _is_own(self, shown: str) -> bool:
        """Whether a socket of that name was bound in this world."""
        last = shown.rpartition("/")[2]
        try:
            with open(f"{self._proc}/1/net/unix", encoding="utf-8", errors="surrogateescape") as file:
                names = [line.rstrip("\n").split(" ", 7)[-1] for line in file]
        except OSError:
            return False
        return any(one == shown or ("/" in one + shown and one.rpartition("/")[2] == last) for one in names)


def _internet(family: int, data: bytes) -> tuple[bool, str, int]:
    """Whether an address can be inside the world, how it is shown, and its port."""
    port = int.from_bytes(data[2:4], "big")
    if family == socket.AF_INET:
        raw = data[4:8]
        return raw[:1] == b"\x7f" or raw == bytes(4), f"{socket.inet_ntop(family, raw)}:{port}", port
    raw = data[8:24]
    mapped = raw[:12] == bytes(10) + b"\xff\xff" and raw[12] == 127
    inside = raw in (bytes(15) + b"\x01", bytes(16)) or mapped
    return inside, f"[{socket.inet_ntop(family, raw)}]:{port}", port

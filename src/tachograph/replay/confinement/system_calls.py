"""System calls that close a world and that the standard library does not offer.

Guarantees: each raises OSError with the kernel's errno, and nothing here keeps state. Numbers are those of x86_64 and
aarch64; `NUMBERS` is None on any other machine, where a world is not closed by the kernel at all.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
from typing import NamedTuple


class Numbers(NamedTuple):
    """The system call numbers of one architecture, and its name in a filter (linux/audit.h)."""

    audit: int
    socket: int
    connect: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    ptrace: int
    process_vm_readv: int
    process_vm_writev: int
    add_key: int
    request_key: int
    keyctl: int
    bpf: int
    perf_event_open: int
    open_by_handle_at: int
    pivot_root: int
    seccomp: int


# The same on every architecture since Linux 5.1:
IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER = 425, 426, 427
_PIDFD_OPEN, _OPENAT2, _PIDFD_GETFD, _MOUNT_SETATTR = 434, 437, 438, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_ALL = {
    "x86_64": Numbers(0xC000003E, 41, 42, 44, 46, 307, 101, 310, 311, 248, 249, 250, 321, 298, 304, 155, 317),
    "aarch64": Numbers(0xC00000B7, 198, 203, 206, 211, 269, 117, 270, 271, 217, 218, 219, 280, 241, 265, 41, 277),
}
NUMBERS = _ALL.get(platform.machine())

# linux/sched.h, linux/mount.h, linux/prctl.h, linux/seccomp.h
NEW_USER, NEW_MOUNTS, NEW_NETWORK, NEW_PIDS, NEW_IPC = 0x10000000, 0x20000, 0x40000000, 0x20000000, 0x08000000
READ_ONLY, NO_SUID, NO_DEV, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 0x1000, 0x4000, 1 << 18
DETACH = 2
NOTIF_CONTINUE = 1
_RESOLVE_IN_ROOT = 0x10
_ATTR_RDONLY, _ATTR_NODEV, _AT_RECURSIVE, _AT_FDCWD = 1, 4, 0x8000, -100
_SET_NO_NEW_PRIVS, _CAPBSET_DROP, _SET_PDEATHSIG, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 38, 24, 1, 4, 36
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_NOTIF_RECV, _NOTIF_SEND, _NOTIF_ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIF = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")
_SIGINFO_SIZE = 128

_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, where: str | None = None) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), where)
    return result


def _numbers() -> Numbers:
    if NUMBERS is None:
        raise OSError(38, f"no system call numbers for {platform.machine()}")
    return NUMBERS


def unshare(flags: int) -> None:
    """Leave the named namespaces for new ones."""
    _checked(_LIBC.unshare(ctypes.c_int(flags)))


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, data)]
    _checked(_LIBC.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), target)


def make_read_only(target: str) -> None:
    """Make the mount at `target`, and every mount below it, read-only and without devices."""
    attributes = ctypes.create_string_buffer(struct.pack("=QQQQ", _ATTR_RDONLY | _ATTR_NODEV, 0, 0, 0), 32)
    flags = ctypes.c_uint(_AT_RECURSIVE)
    number = ctypes.c_long(_MOUNT_SETATTR)
    words = (ctypes.c_int(_AT_FDCWD), os.fsencode(target), flags, attributes, ctypes.c_size_t(32))
    _checked(_LIBC.syscall(number, *words), target)


def unmount(target: str) -> None:
    """Detach the mount at `target` and all below it from the tree."""
    _checked(_LIBC.umount2(os.fsencode(target), ctypes.c_int(DETACH)), target)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root, and put what was the root at `old`."""
    _checked(_LIBC.syscall(ctypes.c_long(_numbers().pivot_root), os.fsencode(new), os.fsencode(old)), new)


def _prctl(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    return _checked(_LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero))


def gain_nothing() -> None:
    """From here on no exec gives this process more privileges than it has."""
    _prctl(_SET_NO_NEW_PRIVS, 1)


def drop_from_bounding_set(capability: int) -> None:
    """What is executed from here on never has `capability`."""
    _prctl(_CAPBSET_DROP, capability)


def leave_no_core() -> None:
    """This process, ended by a signal, writes no core file."""
    _prctl(_SET_DUMPABLE, 0)


def own_proc_entry() -> None:
    """Our entries in /proc are ours, also where this process has changed its user without exec."""
    _prctl(_SET_DUMPABLE, 1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent ends."""
    _prctl(_SET_PDEATHSIG, 9)


def loopback_up() -> None:
    """Bring up the loopback device of this network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 1)  # linux/if.h: IFF_UP
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


def install_filter(program: bytes) -> int:
    """Install a BPF program whose notifications come from the returned descriptor."""
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer)), 16)
    number = ctypes.c_long(_numbers().seccomp)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
        fd = _LIBC.syscall(number, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(flags), filter_)
        if fd >= 0:
            break
    return _checked(fd)


class Notification(NamedTuple):
    """A system call that a filter asks about; `pid` is that of the thread, as seen here."""

    id: int
    pid: int
    number: int
    audit: int
    arguments: tuple[int, ...]


def next_notification(listener: int) -> Notification:
    """The next call that waits for an answer. Raises OSError (ENOENT) where its thread is gone."""
    buffer = bytearray(_NOTIF.size)
    fcntl.ioctl(listener, _NOTIF_RECV, buffer, True)
    identity, pid, _, number, audit, _, *arguments = _NOTIF.unpack(buffer)
    return Notification(identity, pid, number, audit, tuple(arguments))


def is_waiting(listener: int, identity: int) -> bool:
    """Whether the call still waits, so that what was read of its thread was that thread's."""
    try:
        fcntl.ioctl(listener, _NOTIF_ID_VALID, struct.pack("=Q", identity))
    except OSError:
        return False
    return True


def answer(listener: int, identity: int, *, error: int) -> None:
    """Let the call fail with errno `error`, or go on where it is 0; it is no error that the thread is gone."""
    flags = 0 if error else NOTIF_CONTINUE
    try:
        fcntl.ioctl(listener, _NOTIF_SEND, bytearray(_ANSWER.pack(identity, 0, -error, flags)), True)
    except OSError:
        return


def descriptor_of(pid: int, fd: int) -> int:
    """A copy of the descriptor `fd` of another process."""
    pidfd = _checked(_LIBC.syscall(ctypes.c_long(_PIDFD_OPEN), ctypes.c_int(pid), ctypes.c_uint(0)))
    try:
        return _checked(
            _LIBC.syscall(ctypes.c_long(_PIDFD_GETFD), ctypes.c_int(pidfd), ctypes.c_int(fd), ctypes.c_uint(0))
        )
    finally:
        os.close(pidfd)


def signal_descriptor() -> int:
    """A descriptor from which the blocked signals of this process are read; every signal must be blocked."""
    every = ctypes.create_string_buffer(b"\xff" * 128, 128)
    return _checked(_LIBC.signalfd(ctypes.c_int(-1), every, ctypes.c_int(os.O_CLOEXEC)))


def next_signal(fd: int) -> int:
    """The number of the next signal, waited for."""
    return int.from_bytes(os.read(fd, _SIGINFO_SIZE)[:4], "little")


def open_in(root: str, path: str) -> int:
    """Open `path` (as a place, not its content) as if `root` were the root, links included; openat2(2)."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    how = ctypes.create_string_buffer(struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT), 24)
    try:
        words = (ctypes.c_int(folder), os.fsencode(path), how, ctypes.c_size_t(24))
        return _checked(_LIBC.syscall(ctypes.c_long(_OPENAT2), *words), path)
    finally:
        os.close(folder)


def io_uring() -> int:
    """Ask for an io_uring of one entry; its descriptor."""
    parameters = ctypes.create_string_buffer(120)
    return _checked(_LIBC.syscall(ctypes.c_long(IO_URING_SETUP), ctypes.c_uint(1), parameters))


def landlock_version() -> int:
    """The version of the kernel's Landlock. Raises OSError where it has none or has it switched off."""
    return _checked(
        _LIBC.syscall(ctypes.c_long(_LANDLOCK_CREATE), ctypes.c_void_p(None), ctypes.c_size_t(0), ctypes.c_uint(1))
    )


def landlock_rules(files: int, network: int, scoped: int) -> int:
    """A rule set that handles these accesses (bits of linux/landlock.h); its descriptor."""
    wanted = struct.pack("=QQQ", files, network, scoped)
    buffer = ctypes.create_string_buffer(wanted, len(wanted))
    words = (buffer, ctypes.c_size_t(len(wanted)), ctypes.c_uint(0))
    return _checked(_LIBC.syscall(ctypes.c_long(_LANDLOCK_CREATE), *words))


def landlock_allow(rules: int, folder: int, files: int) -> None:
    """Allow these accesses below an opened folder or on an opened file."""
    rule = struct.pack("=Qi", files, folder)
    buffer = ctypes.create_string_buffer(rule, len(rule))
    words = (ctypes.c_int(rules), ctypes.c_int(1), buffer, ctypes.c_uint(0))
    _checked(_LIBC.syscall(ctypes.c_long(_LANDLOCK_ADD), *words))


def landlock_allow_port(rules: int, port: int, network: int) -> None:
    """Allow these accesses to a TCP port; 0 to bind is any port that the kernel chooses."""
    buffer = ctypes.create_string_buffer(struct.pack("=QQ", network, port), 16)
    words = (ctypes.c_int(rules), ctypes.c_int(2), buffer, ctypes.c_uint(0))
    _checked(_LIBC.syscall(ctypes.c_long(_LANDLOCK_ADD), *words))


def landlock_restrict(rules: int) -> None:
    """Put this thread, and all that it starts, under the rule set."""
    _checked(_LIBC.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_int(rules), ctypes.c_uint(0)))

"""Landlock: where no namespaces may be left, the program may write to few folders and reach no port over TCP.

Guarantees, from version 4 on (Linux 6.7), for the calling thread and all that it starts:
- nothing is written, made or removed but below the folders that are given, and in the devices that any program needs;
- no TCP connection is made, and only ports that the kernel chooses are bound, but for the ports that are given;
- from version 6 on, no signal and no abstract unix socket reaches a process outside.

Not held by it: modes, owners and times of files, datagrams, other protocols (the filter holds sockets), reading.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tachograph.replay.confinement import system_calls as sc

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 4

# linux/landlock.h, by the version that brought them
_WRITE_FILE, _TRUNCATE, _IOCTL_DEVICE = 1 << 1, 1 << 14, 1 << 15
_FOLDER = sum(1 << bit for bit in range(4, 14))  # remove, make, refer
_BIND, _CONNECT = 1, 2
_ABSTRACT, _SIGNAL = 1, 2
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/random", "/dev/urandom")


def restrict(folders: Sequence[str], ports: Sequence[int]) -> list[str]:
    """Restrict this thread to write below `folders`, and to bind and reach `ports`; returns what stays open.

    Raises OSError where the kernel's Landlock is too old or switched off.
    """
    version = sc.landlock_version()
    if version < LEAST:
        raise OSError(38, f"Landlock {version} of this kernel knows no network: {LEAST} does")
    written = _WRITE_FILE | _TRUNCATE
    files = written | _FOLDER | (_IOCTL_DEVICE if version >= 5 else 0)
    rules = sc.landlock_rules(files, _BIND | _CONNECT, _ABSTRACT | _SIGNAL if version >= 6 else 0)
    try:
        for folder in (*folders, "/dev/pts"):
            _allow(rules, folder, files)
        for device in _DEVICES:
            _allow(rules, device, files & ~_FOLDER)
        sc.landlock_allow_port(rules, 0, _BIND)
        for port in ports:
            sc.landlock_allow_port(rules, port, _BIND | _CONNECT)
        sc.gain_nothing()
        sc.landlock_restrict(rules)
    finally:
        os.close(rules)
    open_ = ["modes, owners and times of files outside", "files below " + ", ".join(folders) + " are really written"]
    if ports:
        named = ", ".join(map(str, ports))
        open_.append(f"TCP ports on which the run listened ({named}), whoever listens there now")
    if version < 6:
        open_.append(f"signals to other processes of the user: Landlock {version} knows none")
    return open_


def _allow(rules: int, path: str, files: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not here: so nothing is to be allowed
        return
    try:
        sc.landlock_allow(rules, fd, files)
    finally:
        os.close(fd)

"""Namespaces: users, mounts, network, processes and System V objects of its own for one program.

Guarantees:
- Nobody gains anything: each user is mapped to itself, all of them where our process may do so (root), otherwise only
  the own one. Files of unmapped users are shown as nobody's and stay as closed as they were.
- The new network has a loopback device that is up, and nothing else. Abstract unix sockets are left behind with the
  old one.
"""

from __future__ import annotations

import os

from tachograph.replay.confinement import system_calls as sc

FLAGS = sc.NEW_USER | sc.NEW_MOUNTS | sc.NEW_NETWORK | sc.NEW_PIDS | sc.NEW_IPC


def leave() -> None:
    """Unshare; the process namespace holds for children. Who and what we are mapped to is still to be written."""
    sc.unshare(FLAGS)


def map_all(pid: int) -> bool:
    """From outside, map every user and group that we have to itself in the namespace of `pid`; False if refused."""
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/self/{name}", encoding="utf-8") as file:
                inside = [line.split() for line in file]
            text = "".join(f"{start} {start} {count}\n" for start, _, count in inside)
            _write(f"/proc/{pid}/{name}", text)
    except OSError:
        return False
    return True


def map_self(uid: int, gid: int) -> None:
    """From inside, map the user and group that we were."""
    sc.own_proc_entry()
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())  # one write: the kernel takes a map in one piece
    finally:
        os.close(fd)


# linux/capability.h. What an ordinary program run by root does with files and users it can go on doing; what could
# undo the world (mounts, devices, the network's shape, other processes) is not among these.
KEPT_CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10))  # chown .. kill, setgid, setuid, setpcap, bind below 1024


def drop_capabilities() -> None:
    """Nothing executed from here on, by root either, can have a capability that would undo the world."""
    for capability in range(64):
        if capability not in KEPT_CAPABILITIES:
            try:
                sc.drop_from_bounding_set(capability)
            except OSError:  # the kernel knows no more of them
                return

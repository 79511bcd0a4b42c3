"""What this machine allows: tried in a process of its own that is thrown away, and never remembered.

`WAYS` names the choices of a replay: `auto` is what anybody gets (the kernel as far as it goes, and the guard inside
Python before it); the others exist to show what each part holds alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from tachograph.replay.confinement import file_tree, namespaces, seccomp
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.landlock import LEAST
from tachograph.replay.confinement.watching import LANDLOCK, NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Callable

AUTO = "auto"
WAYS: dict[str, tuple[tuple[str, ...], bool]] = {
    AUTO: ((NAMESPACES, LANDLOCK), True),
    "kernel": ((NAMESPACES, LANDLOCK), False),
    "namespaces": ((NAMESPACES,), False),
    "landlock": ((LANDLOCK,), False),
    "python": ((), True),
}
"""Which ways of the kernel are tried, and whether the guard inside Python refuses."""


class Possible(NamedTuple):
    """What can be closed here; each reason is empty where it can."""

    namespaces: str
    filter: str
    landlock: str


def look() -> Possible:
    """Try each part in a child process."""
    return Possible(_in_child(_try_namespaces), _in_child(_try_filter), _in_child(_try_landlock))


def no_overlay(confinement: str) -> str:
    """Say why the program would have no world of files of its own; empty where it would."""
    if NAMESPACES not in WAYS[confinement][0]:
        return "this way of closing a world has no overlay"
    return _in_child(_try_namespaces)


def _in_child(attempt: Callable[[], None]) -> str:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            attempt()
        except BaseException as fault:  # noqa: BLE001  the answer is that it cannot be done, and why
            os.write(write, (str(fault) or type(fault).__name__).encode("utf-8", "backslashreplace")[:4000])
        finally:
            os._exit(0)
    os.close(write)
    said = b""
    while piece := os.read(read, 4096):
        said += piece
    os.close(read)
    os.waitpid(pid, 0)
    return said.decode("utf-8", "replace")


def _try_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    seen = file_tree.look(())
    namespaces.leave()
    namespaces.map_self(uid, gid)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            sc.loopback_up()
            file_tree.insist(file_tree.build(seen, terminal=False), ())
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, "an overlay over this machine's files cannot be made in a user namespace")


def _try_filter() -> None:
    sc.gain_nothing()
    os.close(sc.install_filter(seccomp.program(seccomp.HELD)))


def _try_landlock() -> None:
    version = sc.landlock_version()
    if version < LEAST:
        raise OSError(38, f"Landlock {version} of this kernel knows no network: {LEAST} (Linux 6.7) does")

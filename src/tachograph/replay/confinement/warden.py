"""The warden: makes a world of namespaces, is its process 1, and tells what was written in it."""

from __future__ import annotations

import os
import stat
from hashlib import file_digest
from typing import TYPE_CHECKING, Any, NoReturn

from tachograph.formats import frame as fr
from tachograph.replay.confinement import file_tree, namespaces, probes, seccomp
from tachograph.replay.confinement import system_calls as sc
from tachograph.replay.confinement.changes import changes
from tachograph.replay.confinement.watching import NAMESPACES, Prepared, Report, Settings, Watching

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MOST_CHANGES = 20_000
"""Changed files that are told one by one."""


class Warden(Watching):
    """The process that makes a world of namespaces, and its process 1."""

    way = NAMESPACES
    proc, world_at = f"{file_tree.NEW}/proc", file_tree.NEW

    def __init__(self, report: Report, settings: Settings, leader: socket.socket, start: Callable[[], None],
                 problem: int) -> None:  # fmt: skip
        super().__init__(report, settings, start, problem)
        self._leader = leader
        self._tree: file_tree.Tree | None = None

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
        self._tree = file_tree.build(seen, terminal=self.settings.terminal)
        self.start_program()
        self.watch()

    def prepare(self) -> Prepared:
        assert self._tree is not None
        sc.unshare(sc.NEW_MOUNTS)  # so that the warden keeps sight of the machine's files
        os.chdir(file_tree.NEW)
        sc.pivot_root(".", ".")
        sc.unmount(".")
        os.chdir("/")
        held = probes.try_doors(self.settings.targets, write=True)
        probes.take_away(self.settings.targets)
        namespaces.drop_capabilities()
        sc.gain_nothing()
        open_ = [f"{path}: read-only instead of an overlay" for path in self._tree.read_only]
        if self.settings.terminal:
            open_.append("terminals of the same user: /dev/pts is this machine's, as the program has a terminal")
        try:
            listener = sc.install_filter(seccomp.program(seccomp.HELD))
        except OSError:  # another listens to us already, or the kernel is too old: the namespaces hold all the same
            listener = -1
        return Prepared(held, open_, listener, probes.try_calls)

    def last_step(self) -> None:
        self._leader.send(b"P")
        self._leader.close()

    def leader_fd(self) -> int:
        return self._leader.fileno()

    def on_end(self, status: int) -> None:
        self._tell_changes()
        self._leader.send(b"S" + status.to_bytes(4, "little"))

    def _tell_changes(self) -> None:
        assert self._tree is not None
        door = os.path.dirname(self.settings.targets.file)
        ours = (change for change in changes(self._tree) if not door or not change.path.startswith(door))
        for number, change in enumerate(ours):
            if number == MOST_CHANGES:
                self.report.tell(fr.WRITTEN, {"path": "", "what": "more", "kind": "", "size": 0, "sha256": ""})
                return
            self.report.tell(fr.WRITTEN, {"path": change.path, "what": change.what, **_content(change.place)})


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

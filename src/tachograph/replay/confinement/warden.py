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
MOST_CONTENT, ALL_CONTENT = 64 << 20, 512 << 20
"""Up to which size a changed file's bytes are told, and those of all together; above, the digest alone."""


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
        seen = file_tree.look(self.settings.needed)
        namespaces.leave()
        self._leader.send(b"U")
        if self._leader.recv(8) != b"all":
            namespaces.map_self(uid, gid)
        if os.fork():
            os._exit(0)
        os.umask(0)
        sc.loopback_up()
        self._tree = file_tree.build(
            seen, terminal=self.settings.terminal, needed=self.settings.needed
        )  # fmt: skip
        file_tree.insist(self._tree, self.settings.needed)
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
        failed = self.settings.lay_out() if self.settings.lay_out is not None else []
        namespaces.drop_capabilities()
        sc.gain_nothing()
        open_ = [f"{path}: read-only instead of an overlay" for path in self._tree.read_only]
        open_ += [f"not as before the run: {one}" for one in failed]
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
        left = ALL_CONTENT
        for number, change in enumerate(ours):
            if number == MOST_CHANGES:
                self.report.tell(fr.WRITTEN, {"path": "", "what": "more", **_content("", 0)})
                return
            content = _content(change.place, left)
            left -= len(content["data"] or b"")
            self.report.tell(fr.WRITTEN, {"path": change.path, "what": change.what, **content})


def _content(place: str, left: int) -> dict[str, Any]:
    """What lies at a place, nothing where it is empty: kind, mode, time, target of a link, bytes up to `left`."""
    said: dict[str, Any] = {"kind": "absent", "mode": 0, "mtime_ns": 0, "size": 0, "sha256": "", "target": b""}
    said["data"] = None
    if not place:
        return said
    found = os.lstat(place)
    said.update(mode=stat.S_IMODE(found.st_mode), mtime_ns=found.st_mtime_ns)
    if stat.S_ISLNK(found.st_mode):
        return {**said, "kind": "link", "target": os.readlink(os.fsencode(place))}
    if not stat.S_ISREG(found.st_mode):
        return {**said, "kind": "folder" if stat.S_ISDIR(found.st_mode) else "special"}
    with open(place, "rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
        file.seek(0)
        data = file.read() if found.st_size <= min(left, MOST_CONTENT) else None
    return {**said, "kind": "file", "size": found.st_size, "sha256": digest, "data": data}

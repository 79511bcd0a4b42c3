"""The files of a closed world are the machine's, and there is no way from them to the machine's own."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from tachograph.formats import frame as fr
from tachograph.replay.confinement import file_tree
from tests.replay.confinement.closed import NAMESPACES, USERS, folder_of, python, run

pytestmark = [NAMESPACES, pytest.mark.parametrize("user", USERS)]


def test_a_world_in_which_a_needed_folder_is_read_only_is_none(user: int | None) -> None:
    tree = file_tree.Tree([file_tree.Layer("/usr", "0")], {}, {}, ["/srv", "/srv2/data"])
    file_tree.insist(tree, ["/srv2", "/usr/lib", "/srvx"])
    for needed in ("/srv", "/srv/work", "/srv2/data"):
        with pytest.raises(OSError, match="no overlay"):
            file_tree.insist(tree, [needed])
    with pytest.raises(OSError, match="no overlay"):
        file_tree.insist(tree._replace(layers=[]), [])


def test_the_program_sees_what_is_there(user: int | None, tmp_path: Path) -> None:
    with folder_of(user, tmp_path) as folder:
        (folder / "file").write_text("content")
        os.utime(folder / "file", ns=(1, 1_700_000_000_123_456_789))
        (folder / "link").symlink_to("file")
        source = (
            "import os; s = os.stat('link'); print(open('link').read(), s.st_mtime_ns, oct(s.st_mode), os.getcwd())"
        )
        closed = python(source, user=user, cwd=str(folder))
    assert closed.out == f"content 1700000000123456789 0o100644 {folder}\n"


def test_the_root_and_each_folder_in_it_are_listed_as_they_are(user: int | None) -> None:
    closed = python("import os, json; print(json.dumps(sorted(os.listdir('/'))))", user=user)
    assert json.loads(closed.out) == sorted(os.listdir("/"))


def test_the_kernel_s_settings_and_the_devices_of_the_machine_are_out_of_reach(user: int | None) -> None:
    closed = python(
        """if True:
        import os, stat
        for path in ("/proc/sys/kernel/panic", "/proc/sysrq-trigger", "/sys/kernel/uevent_seqnum", "/sys/power/state"):
            try: os.close(os.open(path, os.O_WRONLY)); print("opened", path)
            except OSError: pass
        for folder, _, names in os.walk("/dev"):
            for name in names:
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if stat.S_ISBLK(mode) or name in ("mem", "kmem", "port", "kmsg", "console"): print("device", name)
        try: os.mknod("/tmp/tachograph-node", 0o600 | stat.S_IFBLK, os.makedev(254, 0)); print("made")
        except OSError: pass
        for name in ("null", "zero", "urandom", "full", "tty", "ptmx", "fd", "stdin", "shm"):
            os.lstat("/dev/" + name)
        open("/dev/null", "w").write("x"); open("/dev/urandom", "rb").read(1)
        import pty; pty.openpty()
        """, user=user,
    )  # fmt: skip
    assert (closed.out, closed.err) == ("", "")


def test_no_mount_can_be_undone_and_no_namespace_entered(user: int | None) -> None:
    """By root either, and not from a namespace of one's own inside."""
    closed = python(
        """if True:
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.umount2(b"/tmp", 2), libc.umount2(b"/", 2), libc.mount(b"none", b"/mnt", b"tmpfs", 0, None))
        for pid in ("1", "self"):
            for name in ("mnt", "net", "user"):
                try:
                    fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
                    if pid == "1": print("entered", name, libc.setns(fd, 0))
                except OSError: pass
        for place in ("root", "cwd", "exe", *(f"fd/{number}" for number in range(64))):
            try: print("reached", os.readlink("/proc/1/" + place))
            except OSError: pass
            try: print("reached", os.open("/proc/1/" + place, os.O_RDONLY))
            except OSError: pass
        print(os.path.exists("/old"), os.path.exists("/layers"))
        if libc.unshare(0x10000000 | 0x20000) == 0:
            print("nested", libc.umount2(b"/tmp", 2))
        """, user=user,
    )  # fmt: skip
    lines = closed.out.splitlines()
    assert lines[0] == "-1 -1 -1"
    assert not any(line.startswith("reached") or line.endswith(" 0") for line in lines), lines
    assert "False False" in lines


def test_capabilities_that_could_undo_the_world_are_gone(user: int | None) -> None:
    closed = run("/bin/sh", "-c", "grep -E 'CapBnd|NoNewPrivs' /proc/self/status", user=user)
    bounding, privileges = (int(line.split()[1], 16) for line in closed.out.splitlines())
    assert bounding & (1 << 21 | 1 << 19 | 1 << 12 | 1 << 27 | 1 << 18 | 1 << 16) == 0  # admin, ptrace, net, mknod...
    assert privileges == 1


def test_sockets_of_the_machine_lead_nowhere_and_those_of_the_world_lead_somewhere(
    user: int | None, tmp_path: Path
) -> None:
    with folder_of(user, tmp_path) as folder, socket.socket(socket.AF_UNIX) as server:
        path = Path("/tmp") / f"tachograph-socket-{os.getpid()}"
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        server.setblocking(False)
        try:
            closed = python(
                f"""if True:
                import socket
                try: socket.socket(socket.AF_UNIX).connect("{path}"); print("connected")
                except OSError as fault: print(type(fault).__name__)
                server = socket.socket(socket.AF_UNIX); server.bind("own"); server.listen()
                socket.socket(socket.AF_UNIX).connect("own"); print("own", server.accept()[0].fileno() > 0)
                """, user=user, cwd=str(folder),
            )  # fmt: skip
        finally:
            path.unlink()
        with pytest.raises(BlockingIOError):
            server.accept()
    assert closed.out == "ConnectionRefusedError\nown True\n"
    assert [said["where"].split(" by ")[0] for said in closed.of(fr.ATTEMPT)] == [f"unix:{path}"]


def test_shared_memory_of_the_machine_is_not_shared(user: int | None) -> None:
    with open(f"/dev/shm/tachograph-{os.getpid()}", "w+b") as file:
        os.chmod(file.name, 0o666)
        os.chown(file.name, *((-1, -1) if user is None else (user, user)))
        try:
            file.write(b"before")
            file.flush()
            closed = python(
                f"f = open('{file.name}', 'r+b'); print(f.read()); f.seek(0); f.write(b'within')", user=user
            )
            assert (closed.out, closed.err) == ("b'before'\n", "")
            file.seek(0)
            assert file.read() == b"before"
        finally:
            os.unlink(file.name)

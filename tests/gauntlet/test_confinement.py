"""Row 7: an agent that tries to get out in a replay. Nothing leaves, and each attempt is listed with what stopped it.

Shown with every part in place, with the guard inside Python alone, and with the kernel alone; as the user that runs the
tests and, where that is root, as an ordinary one. Outside stand listeners and a file that really answer: the first test
shows that each way does get out where nothing holds it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tachograph
from tests.gauntlet.harness import AGENTS, LIMIT_S
from tests.replay.confinement.closed import (
    LANDLOCK,
    NAMESPACES,
    PYTHON,
    USERS,
    folder_of,
    refuse_to_close,
)

IN_PYTHON = ["urllib", "socket", "c_socket", "udp", "unix", "abstract"]
NATIVE = ["libc", "libc_udp", "io_uring"]
EVERY = [*IN_PYTHON, *NATIVE, "started_program", "inherited_descriptor", "file", "libc_file"]


@dataclass
class Outside:
    """What stands outside: listeners, and a file."""

    folder: Path
    user: int | None
    sockets: dict[str, socket.socket] = field(default_factory=dict)
    kept: list[socket.socket] = field(default_factory=list)
    descriptor: int = -1

    @property
    def file(self) -> Path:
        return self.folder / "outside" / "file"

    @property
    def program(self) -> Path:
        return self.folder / "programs" / "escapes.py"

    @property
    def python(self) -> str:
        return sys.executable if self.user is None else str(PYTHON)

    def stand(self) -> None:
        """Open the doors."""
        for name, family, kind, address in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("unix", socket.AF_UNIX, socket.SOCK_STREAM, str(self.folder / "socket")),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, ""),
        ):
            one = self.sockets[name] = socket.socket(family, kind)
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen(64)
            one.setblocking(False)
        (self.folder / "socket").chmod(0o777)
        self.file.write_text("as it was\n")
        self.file.chmod(0o666)
        inherited = socket.create_connection(self.sockets["tcp"].getsockname())
        self.kept = [inherited, self.sockets["tcp"].accept()[0]]
        self.kept[1].setblocking(False)
        self.descriptor = inherited.fileno()

    def ways(self, *names: str) -> None:
        """Name what the program is to try from now on."""
        said = {
            "ways": names, "tcp": self.sockets["tcp"].getsockname()[1], "udp": self.sockets["udp"].getsockname()[1],
            "unix": str(self.folder / "socket"), "abstract": self.sockets["abstract"].getsockname()[1:].decode(),
            "file": str(self.file), "descriptor": self.descriptor,
        }  # fmt: skip
        (self.program.parent / "ways.json").write_text(json.dumps(said))

    def came(self) -> list[str]:
        """What came out until now."""
        came = []
        for name, one in {**self.sockets, "descriptor": self.kept[1]}.items():
            try:
                if one.type == socket.SOCK_DGRAM or name == "descriptor":
                    one.recv(64)
                else:
                    one.accept()[0].close()
                came.append(name)
            except BlockingIOError:
                continue
        return came + (["file"] if self.file.read_text() != "as it was\n" else [])

    def run(self, *words: str, kernel: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of ours as the user, in the work folder; without `kernel`, where that closes nothing."""
        packages = [path for path in sys.path if path.endswith("site-packages")]
        source = str(Path(tachograph.__file__).parents[1])
        environment = {
            "PATH": "/usr/bin:/bin", "TACHO_STORE": str(self.folder / "store"), "TMPDIR": str(self.folder / "tmp"),
            "XDG_CONFIG_HOME": str(self.folder / "config"), "PYTHONPATH": os.pathsep.join([source, *packages]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        who: dict[str, Any] = {} if self.user is None else {
            "user": self.user, "group": self.user, "extra_groups": []
        }  # fmt: skip
        return subprocess.run(
            [self.python, *words], cwd=self.folder / "work", env=environment, capture_output=True, text=True,
            timeout=LIMIT_S, pass_fds=(self.descriptor,), check=False,
            preexec_fn=None if kernel else refuse_to_close, **who,
        )  # fmt: skip

    def replay(self, confinement: str = "auto", *, kernel: bool = True) -> dict[str, Any]:
        """Replay, and return the answer."""
        words = ("-m", "tachograph", "replay", "last", "--json", "--confinement", confinement)
        ran = self.run(*words, kernel=kernel)
        assert ran.returncode in (0, 1), ran
        return dict(json.loads(ran.stdout))


@pytest.fixture(params=USERS)
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Outside]:
    """A recorded program that tried nothing, and the doors."""
    user = request.param
    with folder_of(user, tmp_path) as folder:
        made = Outside(folder, user)
        for name in ("programs", "work", "config", "outside", "tmp"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        shutil.copy(AGENTS / "escapes.py", made.program)
        made.stand()
        try:
            ran = made.run("-m", "tachograph", "run", "--", made.python, str(made.program))
            assert (ran.returncode, ran.stdout) == (0, "done\n"), ran
            assert made.came() == []
            yield made
        finally:
            for one in (*made.sockets.values(), *made.kept):
                one.close()


def told(answer: dict[str, Any]) -> set[tuple[str, str]]:
    """What was listed, and what stopped it; a call that a seam claims is a miss."""
    missed = {("miss", "no recording fits") for _ in answer["misses"]}
    return missed | {(one["what"], one["stoppedBy"]) for one in answer["attempts"]}


def outcomes(answer: dict[str, Any]) -> dict[str, str]:
    """Per way, what the program saw."""
    return dict(line.split() for line in answer["outcome"]["stdout"].splitlines() if " " in line)


def test_each_way_does_lead_out_where_nothing_holds_it(outside: Outside) -> None:
    """Otherwise the other tests would show nothing."""
    ways = [way for way in EVERY if way != "urllib"]  # it would wait for an answer
    outside.ways(*ways)
    ran = outside.run(str(outside.program))
    assert ran.stdout.splitlines() == [*(f"{way} OUT" for way in ways), "done"]
    assert sorted(set(outside.came())) == ["abstract", "descriptor", "file", "tcp", "udp", "unix"]


@NAMESPACES
@pytest.mark.parametrize("confinement", ["auto", "kernel"])
def test_nothing_leaves_a_world_closed_by_the_kernel(outside: Outside, confinement: str) -> None:
    """With the guard inside Python before it, and without."""
    outside.ways(*EVERY)
    answer = outside.replay(confinement)
    assert outside.came() == []
    seen = outcomes(answer)
    assert {way for way, became in seen.items() if became == "OUT"} <= {"file", "libc_file"}
    assert list(seen) == EVERY
    assert (answer["equivalent"], answer["liveEffects"]) == (False, 0)
    assert (answer["confinement"]["network"], answer["confinement"]["filesystem"]) == ("namespace", "overlay"), answer[
        "confinement"
    ]
    assert answer["confinement"]["open"] == []
    listed = told(answer)
    assert {("connect", "seccomp"), ("sendto", "seccomp"), ("io_uring", "seccomp")} <= listed
    if confinement == "auto":
        assert {("socket.connect", "audit hook"), ("socket.sendto", "audit hook")} <= listed
        assert ("os.posix_spawn", "audit hook") in listed
    else:
        assert not any(stopped == "audit hook" for _, stopped in listed)


@NAMESPACES
@pytest.mark.parametrize("way", [*IN_PYTHON, *NATIVE, "started_program"])
def test_each_way_is_listed_by_the_kernel_alone(outside: Outside, way: str) -> None:
    """One at a time, so that none is listed for another."""
    outside.ways(way)
    answer = outside.replay("kernel")
    assert outside.came() == []
    assert outcomes(answer)[way] != "OUT"
    (listed,) = told(answer)
    assert listed[1] in ("seccomp", "no recording fits")
    assert answer["equivalent"] is False


@LANDLOCK
def test_nothing_leaves_where_landlock_and_the_filter_are_alone(outside: Outside) -> None:
    """No namespaces and no guard: what stays open is named."""
    outside.ways(*EVERY)
    answer = outside.replay("landlock")
    assert outside.came() == []
    assert "OUT" not in outcomes(answer).values()
    assert {("connect", "seccomp"), ("socket", "seccomp"), ("io_uring", "seccomp")} <= told(answer)
    assert (answer["confinement"]["network"], answer["confinement"]["filesystem"]) == ("seccomp+landlock", "landlock")
    assert any("modes, owners and times" in one for one in answer["confinement"]["open"])


@pytest.mark.parametrize("way", [*IN_PYTHON, "started_program"])
def test_each_way_of_python_is_listed_by_the_guard_alone(outside: Outside, way: str) -> None:
    """What the guard cannot hold is named."""
    outside.ways(way)
    answer = outside.replay("python")
    assert outside.came() == []
    assert outcomes(answer)[way] != "OUT"
    assert {stopped for _, stopped in told(answer)} <= {"audit hook", "no recording fits"}
    assert told(answer)
    assert answer["equivalent"] is False
    assert answer["confinement"]["network"] == "python"
    assert any("native code" in one for one in answer["confinement"]["open"])


def test_where_the_kernel_closes_nothing_a_replay_goes_on_and_says_so(outside: Outside) -> None:
    """`doctor` beforehand, and the answer afterwards."""
    outside.ways()
    doctor = json.loads(outside.run("-m", "tachograph", "doctor", "--json", kernel=False).stdout)["confinement"]
    assert doctor["network"].startswith("Python: ")
    assert "EPERM" in doctor["namespaces"] or "not permitted" in doctor["namespaces"]
    assert "not here" in doctor["landlock"]
    answer = outside.replay(kernel=False)
    assert answer["equivalent"] is True
    assert (answer["confinement"]["network"], answer["confinement"]["filesystem"]) == ("python", "open")
    assert [one.split(" closes")[0] for one in answer["confinement"]["open"][:2]] == ["namespaces", "landlock"]
    outside.ways(*IN_PYTHON)
    assert outside.replay(kernel=False)["equivalent"] is False
    assert outside.came() == []


@NAMESPACES
def test_doctor_says_beforehand_what_a_replay_then_finds(outside: Outside) -> None:
    doctor = json.loads(outside.run("-m", "tachograph", "doctor", "--json").stdout)["confinement"]
    assert (doctor["network"][:7], doctor["files"][:7]) == ("kernel:", "kernel:")
    assert "seccomp" in doctor["native attempts"]


def test_a_program_that_tries_nothing_is_equivalent_in_each_world(outside: Outside) -> None:
    outside.ways()
    for confinement in ("auto", "kernel", "python"):
        answer = outside.replay(confinement)
        assert (answer["equivalent"], answer["attempts"]) == (True, []), answer

"""Row 8: nothing that a program says or hears is readable on a disk: not while recording, not after, not by a replay.

Looked for in every file of the store, the configuration and the temporary folder, as it is, in the usual codings and
through compression (`tests.gauntlet.leaks`), again and again while the program runs, after it, after each command, and
after a kill. That the markers were recorded at all is read with the keys.
"""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tachograph.testing.scripted import Reply, Request, ScriptedServer
from tests.gauntlet.leaks import leaks
from tests.torture.kept import Kept
from tests.torture.programs.telling import WAYS, mark

PROGRAM = Path(__file__).parent / "programs" / "telling.py"
MARKERS = [mark(way) for way in WAYS]
TACHO = (sys.executable, "-m", "tachograph")


def answer(request: Request) -> Reply:
    """Markers in the head, in the body, and in a body under gzip."""
    headers = [("content-type", "application/json"), ("x-answer", mark("answer-header"))]
    body = b'{"choices":[{"message":{"role":"assistant","content":"%s"}}]}'
    if request.target != "/gzip":
        return Reply(headers=tuple(headers), chunks=(body % mark("answer-body").encode(),))
    packed = gzip.compress(body % mark("gzip").encode())
    return Reply(headers=(*headers, ("content-encoding", "gzip")), chunks=(packed,))


@dataclass
class Watched:
    """Folders that a recording may write to, and what was found in them so far."""

    folder: Path
    url: str
    found: list[str] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        for name in ("work", "config", "temporary"):
            (self.folder / name).mkdir()

    @property
    def env(self) -> dict[str, str]:
        """What every command gets."""
        return {
            **os.environ, "TACHO_STORE": str(self.folder / "store"), "XDG_CONFIG_HOME": str(self.folder / "config"),
            "TMPDIR": str(self.folder / "temporary"), "TELLING": mark("env"), "HOME": str(self.folder / "config"),
        }  # fmt: skip

    def look(self) -> None:
        """Look into every file there is now."""
        files: dict[Path, bytes] = {}
        for name in ("store", "config", "temporary"):
            for file in (self.folder / name).rglob("*"):
                try:
                    files[file] = file.read_bytes()
                except OSError:  # a folder, or gone already
                    continue
        self.found += leaks(files, MARKERS)
        self.found += [f"name {file}" for file in files if any(marker in str(file) for marker in MARKERS)]
        self.looks += 1

    def start(self) -> subprocess.Popen[bytes]:
        """The program, under capture."""
        words = (sys.executable, str(PROGRAM), self.url, str(self.folder / "work"), mark("argv"))
        process = subprocess.Popen(
            (*TACHO, "run", "--", *words),
            cwd=self.folder / "work",
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(mark("stdin").encode())
        process.stdin.close()
        process.stdin = None
        return process

    def look_until_told(self, process: subprocess.Popen[bytes]) -> None:
        """Look again and again while it records, until everything has been said."""
        until = time.monotonic() + 60
        while not (self.folder / "work" / "told").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            self.look()
        self.look()

    def tacho(self, *words: str) -> bytes:
        """A command; what it printed."""
        done = subprocess.run(
            (*TACHO, *words), cwd=self.folder / "work", env=self.env, capture_output=True, check=False, timeout=60
        )
        assert done.returncode in (0, 1), done
        return done.stdout


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """A world to watch, with a server that answers."""
    with ScriptedServer(answer) as server:
        yield Watched(tmp_path, server.url)


def recorded_markers(watched: Watched) -> set[str]:
    """The markers that the sealed logs hold, read with the keys (a body under gzip is kept as it came)."""
    kept = Kept(watched.folder / "store", environ=watched.env)
    logs = b"".join(log for run in kept.runs().values() for log in run.logs)
    return {way for way in WAYS if mark(way).encode() in logs} | ({"gzip"} if b"\x1f\x8b" in logs else set())


def test_nothing_is_readable_at_any_moment_of_recording_listing_showing_and_replaying(watched: Watched) -> None:
    process = watched.start()
    watched.look_until_told(process)
    assert any((watched.folder / "store" / "spool").glob("*.spool"))
    (watched.folder / "work" / "go").touch()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert mark("stdout").encode() in stdout
    assert mark("exception").encode() in stderr
    watched.look()
    for words in (("ls",), ("show", "last"), ("show", "last", "--json"), ("replay", "last", "--json"), ("doctor",),
                  ("show", "last", "--grep", mark("output")), ("diff", "last", "last")):  # fmt: skip
        assert watched.tacho(*words)
        watched.look()
    assert watched.found == []
    assert watched.looks > 8
    assert recorded_markers(watched) == set(WAYS)


def test_nothing_is_readable_after_a_kill(watched: Watched) -> None:
    process = watched.start()
    watched.look_until_told(process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    watched.look()
    watched.tacho("ls")
    watched.look()
    assert watched.found == []
    assert {"body", "answer-body", "stdin", "argv", "output"} <= recorded_markers(watched)

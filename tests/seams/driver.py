"""A driver for tests of what runs inside a program: record a small program, read what it left, replay it.

Seams patch the process that they run in, so such a test starts a Python of its own, under the same injection that
`tacho run` and a replay use: a spool folder and key of this test's own, then the tape in a memory file. Nothing of ours
is replaced. A program is a text; its file keeps its name from recording to replay, since draws are keyed by it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import EffectLog, read_effect_log
from tachograph.intake.gather import Gathered, gather
from tachograph.intake.logs import Log, split
from tachograph.replay.engine import memory_file, tape_settings
from tachograph.seams import injection
from tachograph.store.spool import Spool
from tachograph.store.spool_reading import Reading, read_spool

RUN = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"
RECORD = "tachograph.capture.install"
REPLAY = "tachograph.replay.child"
TAG_KEY = b"k" * 32
# Loaded machines are slow, hanging programs are for ever: only the second must end here.
LIMIT_S = 60.0


def new_keys() -> tuple[bytes, bytes]:
    """A private key for intake, and its public half."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def read_all(folder: Path, private: bytes) -> list[Reading]:
    """Every spool file of a folder, in the order of their names."""
    return [read_spool(str(path), private=private) for path in sorted(folder.glob("*.spool"))]


@dataclasses.dataclass
class Ended:
    """How a program ended: its exit status (negative: a signal) and its two streams."""

    status: int
    out: str
    err: str


class Session:
    """One program in one folder: recorded as often as you like, each time into a fresh spool, and replayed."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.program = folder / "program.py"
        self.python = sys.executable
        self.rewrite(source)
        self._count = 0

    def rewrite(self, source: str) -> None:
        """Change the program, as somebody who edits it between recording and replay would."""
        self.program.write_text(textwrap.dedent(source))

    def argv(self, args: Sequence[str], options: Sequence[str]) -> list[str]:
        return [self.python, *options, str(self.program), *args]

    def plain(self, *args: str, options: Sequence[str] = ()) -> Ended:
        """Run the program without us."""
        return _ended(self.argv(args, options), self.folder, dict(os.environ))

    def record_itself(self, *args: str) -> Recorded:
        """Run a program that starts the recorder by itself, with the settings that stand in its first argument."""
        spool, private, given = self._prepared()
        args = (json.dumps(given), *args)
        ended = _ended(self.argv(args, ()), self.folder, dict(os.environ))
        return Recorded(self, args, (), ended, spool, private)

    def _prepared(self) -> tuple[Path, bytes, dict[str, str]]:
        """A fresh spool folder, intake's private key, and the settings of a recorder."""
        self._count += 1
        spool = self.folder / f"spool{self._count}"
        spool.mkdir(mode=0o700)
        private, public = new_keys()
        tag = self.folder / "tag"
        tag.write_bytes(TAG_KEY)
        given = {"RUN": RUN, "SPOOL": str(spool), "PUBLIC": public.hex(), "TAGFILE": str(tag)}
        return spool, private, {**given, "LIBS": injection.libraries()}

    def record(
        self,
        *args: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Recorded:
        """Run the program under the recorder and read what it left."""
        spool, private, given = self._prepared()
        argv = self.argv(args, options)
        _say_run(spool, bytes.fromhex(given["PUBLIC"]), argv, self.folder)
        given.update(settings or {})
        env = injection.inject({**os.environ, **(environment or {})}, entry=RECORD, settings=given)
        ended = _ended(argv, self.folder, env, stdin=stdin)
        return Recorded(self, args, options, ended, spool, private)


class Recorded:
    """A recorded run: how it ended, its spool, and its log as a replay would read it."""

    def __init__(
        self,
        session: Session,
        args: Sequence[str],
        options: Sequence[str],
        ended: Ended,
        spool: Path,
        private: bytes,
    ) -> None:
        self.session, self.args, self.options, self.spool, self.private = session, args, options, spool, private
        self.ended = ended
        self.readings: list[Reading] = read_all(spool, private)
        self.gathered: Gathered = gather(self.readings)
        self.logs: list[Log] = split(RUN, self.gathered)
        self.tape: list[bytes] = [log.data for log in self.logs]
        self.log: EffectLog = read_effect_log(self.tape)

    @property
    def out(self) -> str:
        """What the program wrote to stdout; fails the test here where the program itself failed."""
        assert self.ended.status == 0, self.ended.err
        return self.ended.out

    @property
    def frames(self) -> list[fr.Frame]:
        """The frames of every process, as written, in the order of the files."""
        return [fr.read_frame(data) for reading in self.readings for data in reading.frames]

    def notes(self) -> list[tuple[str, str]]:
        """What passed no seam: what, and where to."""
        return [(fact.said["what"], fact.said["detail"]) for fact in self.log.of(fr.NOTE)]

    def replay(
        self, *args: str, limit_s: float = LIMIT_S, environment: Mapping[str, str] | None = None, pace: bool = False
    ) -> Replayed:
        """Run the program again, answered from the record. `args` replaces the recorded arguments where given."""
        fd, size, start = memory_file(self.tape, self.log)
        try:
            settings = {**tape_settings(fd, size, self.log), **({"PACE": "1"} if pace else {})}
            env = injection.inject({**os.environ, **(environment or {})}, entry=REPLAY, settings=settings)
            argv = self.session.argv(args or self.args, self.options)
            ended = _ended(argv, self.session.folder, env, pass_fds=(fd,), limit_s=limit_s)
            report = os.pread(fd, os.fstat(fd).st_size, start)
        finally:
            os.close(fd)
        return Replayed(ended, fr.read_log(report))


class Replayed:
    """A replay: how the program ended, and what it reported."""

    def __init__(self, ended: Ended, frames: list[fr.Frame]) -> None:
        self.ended = ended
        self.frames = frames

    @property
    def out(self) -> str:
        """What the replayed program wrote to stdout; fails the test here where the program itself failed."""
        assert self.ended.status == 0, self.ended.err
        return self.ended.out

    def said(self, kind: int) -> list[tuple[int, Any]]:
        """The report's frames of one kind: the effect they name, and what they say."""
        return [(f.effect, values.decode(f.payload) if f.payload else None) for f in self.frames if f.kind == kind]

    @property
    def served(self) -> list[int]:
        """The effects that were answered, in that order."""
        return [effect for effect, _ in self.said(fr.SERVED)]

    @property
    def misses(self) -> list[Any]:
        return [said for _, said in self.said(fr.MISS)]

    @property
    def attempts(self) -> list[Any]:
        return [said for _, said in self.said(fr.ATTEMPT)]

    @property
    def drift(self) -> list[Any]:
        return [item for _, said in self.said(fr.DRIFT) for item in said]

    @property
    def clean(self) -> bool:
        """Nothing was missed, tried, left unread or taken out of order."""
        return not (self.misses or self.attempts or self.said(fr.UNORDERED) or self.said(fr.CHUNK))


def _say_run(folder: Path, public: bytes, argv: list[str], cwd: Path) -> None:
    """Write what `tacho run` writes before it starts a program."""
    spool = Spool(str(folder), f"{RUN}.0.run", public=public)
    facts = {"argv": argv, "cwd": str(cwd), "startedAt": time.time_ns(), "monotonicNs": time.monotonic_ns()}
    spool.append(fr.Frame(fr.RUN, 0, 0, 0, 0, 0, time.monotonic_ns(), b"", values.encode(facts)).written())
    spool.close()


def _ended(
    argv: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    *,
    pass_fds: tuple[int, ...] = (),
    limit_s: float = LIMIT_S,
    stdin: bytes = b"",
) -> Ended:
    process = subprocess.Popen(
        argv,
        cwd=folder,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
    )
    try:
        out, err = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += f"\nended after {limit_s} s".encode()
    return Ended(process.returncode, out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace"))


def marked_files(folder: Path, markers: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    """Files below a folder whose raw bytes hold one of the markers."""
    for path in folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield from ((path.name, marker) for marker in markers if marker in data)

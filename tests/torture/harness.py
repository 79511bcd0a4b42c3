"""Programs that are killed while they record, beside others that are not, in one store.

A `Plan` is drawn from a seed and says which process dies and when. `Torture.one(seed)` carries it out and checks what
`tests.torture.kept` promises; every failure names the seed. Everything ends within its time limit.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tachograph.testing.scripted import Reply, Request, ScriptedServer, json_reply, stream
from tests.torture.kept import Kept, SealedRun

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 60.0
MODES = ("plain", "decisions", "threads", "fork")


def answer(request: Request) -> Reply:
    """What the server says to a number: much or little, in one piece or in several."""
    asked = json.loads(request.body)
    said = f"answer {asked['number']} " * (1 + asked["number"] * 37 % 4001)
    if not asked["stream"]:
        return json_reply({"said": said})
    third = 1 + len(said) // 3
    return stream(said[at : at + third].encode() for at in range(0, len(said), third))


@dataclass(frozen=True)
class Plan:
    """Who dies, and when: after `acks` answers and `delay` seconds more, or (`acks` < 0) that long after the start."""

    victim: str  # "program", "supervisor", "intake"
    mode: str
    acks: int
    delay: float
    pause: float
    sealing_kills: tuple[int, ...]  # microseconds

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The plan of a seed."""
        chance = Random(seed)
        victim = ("program", "supervisor", "intake")[seed % 3]
        early = chance.random() < 0.15
        return cls(
            victim=victim,
            mode=MODES[seed // 3 % len(MODES)],
            acks=-1 if early else chance.randrange(13),
            delay=chance.uniform(0, 0.4) if early else chance.choice((0.0, chance.uniform(0, 0.003))),
            pause=chance.choice((0.0, 0.0005, 0.002)),
            sealing_kills=tuple(chance.randrange(1, 60_000) for _ in range(3 if victim == "intake" else 1)),
        )


class Program:
    """An acknowledging program under `tacho run`."""

    def __init__(self, folder: Path, label: str, *, url: str, mode: str, effects: int, pause: float) -> None:
        self.label = label
        self.acks_file = folder / f"{label}.acks"
        settings = {
            "label": label, "url": url, "acks": str(self.acks_file), "effects": effects, "mode": mode, "pause": pause,
        }  # fmt: skip
        words = (sys.executable, str(PROGRAMS / "acknowledging.py"), json.dumps(settings))
        self.process = subprocess.Popen(
            (sys.executable, "-m", "tachograph", "run", "--", *words),
            env=environment(folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.stdout = b""
        self.stderr = b""

    def said(self) -> list[bytes]:
        """The whole lines of the side channel so far."""
        with contextlib.suppress(FileNotFoundError):
            return self.acks_file.read_bytes().split(b"\n")[:-1]
        return []

    @property
    def pid(self) -> int | None:
        """The program's own process, once it has said so."""
        first = self.said()[:1]
        return int(first[0].split()[1]) if first else None

    @property
    def acknowledged(self) -> dict[int, str]:
        """Number and digest of every answer that the program got."""
        pairs = [line.split() for line in self.said()[1:]]
        return {int(number): digest.decode() for number, digest in pairs}

    def wait_for_acks(self, count: int) -> None:
        """Wait until so many answers have been acknowledged, or the program has ended."""
        until = time.monotonic() + LIMIT_S
        while len(self.said()) <= count and self.process.poll() is None:
            assert time.monotonic() < until, f"{self.label} neither acknowledged {count} effects nor ended"
            time.sleep(0.0005)

    def finish(self) -> int:
        """Wait for the end; the exit status."""
        try:
            self.stdout, self.stderr = self.process.communicate(timeout=LIMIT_S)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            raise
        return self.process.returncode


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a command gets whose store lies in `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHO_", "COV_"))}
    return {**kept, "TACHO_STORE": str(folder / "store"), **(more or {})}


def kill(pid: int | None) -> None:
    """`kill -9`; gone already is as good."""
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Torture:
    """One store, in which seeds are carried out one after another."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self._folder = folder
        self._server = server
        self.store = folder / "store"

    def one(self, seed: int) -> None:
        """Carry out a seed's plan and check the store."""
        plan = Plan.of(seed)
        print(f"seed {seed}: {plan}", flush=True)  # pytest shows it where the test fails
        url = self._server.url
        victim = Program(self._folder, f"victim-{seed}", url=url, mode=plan.mode, effects=9, pause=plan.pause)
        other = Program(self._folder, f"other-{seed}", url=url, mode=MODES[seed % 3], effects=4, pause=0.001)
        meanwhile = self._sealer(0)
        try:
            self._kill(plan, victim)
        finally:
            status = victim.finish()
            other_status = other.finish()
            _waited_for(meanwhile)
        for after_us in plan.sealing_kills:
            _waited_for(self._sealer(after_us))
        assert other_status == 0, other.stderr
        self._check(plan, victim, status, other)

    def _kill(self, plan: Plan, victim: Program) -> None:
        if plan.victim == "intake":
            return
        if plan.acks >= 0:
            victim.wait_for_acks(plan.acks)
        time.sleep(plan.delay)
        kill(victim.pid if plan.victim == "program" else victim.process.pid)

    def _sealer(self, after_us: int) -> subprocess.Popen[bytes]:
        """A process that takes in and is killed so many microseconds after it began to (0: is not)."""
        words = (sys.executable, str(PROGRAMS / "sealing.py"), str(self.store), str(after_us))
        return subprocess.Popen(words, env=environment(self._folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _check(self, plan: Plan, victim: Program, status: int, other: Program) -> None:
        kept = Kept(self.store)
        kept.take_in()
        kept.sealed_once()
        runs = {_label(run): run for run in kept.runs().values()}
        _nothing_lost(victim, runs.get(victim.label))
        if victim.label in runs:
            _says_its_end(plan, runs[victim.label], status)
        _nothing_lost(other, runs[other.label])
        _whole(other, runs[other.label])
        kept.unchanged_by_another_take_in()


def _waited_for(sealer: subprocess.Popen[bytes]) -> None:
    try:
        _, said = sealer.communicate(timeout=LIMIT_S)
    except BaseException:
        sealer.kill()
        sealer.communicate()
        raise
    no_store_yet = b"there is no store" in said
    assert sealer.returncode in (0, -signal.SIGKILL) or no_store_yet, said.decode()


def _label(run: SealedRun) -> str:
    return str(json.loads(run.argv[-1])["label"]) if run.argv else ""


def _nothing_lost(program: Program, run: SealedRun | None) -> None:
    acknowledged = program.acknowledged
    if run is None:
        assert (acknowledged, program.stdout) == ({}, b""), program.label
        return
    for number, digest in acknowledged.items():
        assert run.answers.get(number) == [digest], f"{program.label}: effect {number} was acknowledged"
    assert run.stdout.startswith(program.stdout), program.label


def _says_its_end(plan: Plan, run: SealedRun, status: int) -> None:
    """The capture says how it ended, or that it does not know and since when."""
    if plan.victim == "supervisor" and status == -signal.SIGKILL and run.ended is None:
        assert run.tails, "the supervisor's last frame is missing, and the capture does not say so"
        return
    assert run.ended is not None
    if status == -signal.SIGKILL and plan.victim == "program":
        assert run.ended == {"exitCode": 137, "signal": 9}
        written_out = run.stdout.endswith(b"end\n")  # it was killed behind its last frame
        assert run.tails or written_out or not run.log.effects
    elif status == 0:
        assert run.ended == {"exitCode": 0, "signal": None}


def _whole(program: Program, run: SealedRun) -> None:
    """A program that nobody touched has everything in its capture, and no gap."""
    assert (run.damage, run.tails) == ([], [])
    assert run.ended == {"exitCode": 0, "signal": None}
    assert run.stdout == program.stdout
    assert program.stdout.endswith(b"end\n")
    assert set(run.answers) == set(program.acknowledged)

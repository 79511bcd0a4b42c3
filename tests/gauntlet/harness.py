"""Record a program through the real command line in one process, replay it in a fresh one, and look at the answer.

- Each test has its own folder: a copy of the programs (to edit), a working folder, a store and a config folder.
- `record`, `replay` and `tacho` start `python -m tachograph` and wait for it, never longer than `LIMIT_S`.
- A replay that is given the test's server proves that nothing went live: it may see no connection meanwhile. The
  server goes on listening, so that a call that did go out would be counted and not just fail.
- The commands are those of the interpreter that runs the tests; PYTHONPATH decides whose source they load, so the same
  tests can be run over a damaged copy of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tachograph import Store
from tachograph.library.store import _Opened
from tachograph.testing.scripted import ScriptedServer

AGENTS = Path(__file__).parent / "agents"
LIMIT_S = 60.0


@dataclass(frozen=True)
class World:
    """Where one test lives."""

    folder: Path

    @property
    def programs(self) -> Path:
        """The programs, a copy of their own, to edit."""
        return self.folder / "programs"

    @property
    def work(self) -> Path:
        """The folder in which they run."""
        return self.folder / "work"

    @property
    def store(self) -> Path:
        """The store."""
        return self.folder / "store"

    @property
    def config(self) -> Path:
        """Where the keys are."""
        return self.folder / "config"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What every command of this test gets."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHO_", "COV_"))}
        return {**kept, "TACHO_STORE": str(self.store), "XDG_CONFIG_HOME": str(self.config), **(more or {})}

    def edit(self, name: str, text: str) -> None:
        """Write a file beside the programs."""
        (self.programs / name).write_text(text, encoding="utf-8")

    def content(self) -> dict[Path, bytes]:
        """What is kept of the newest run, opened with the store's own keys. No public view gives it unmasked."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.config))
            store = Store(self.store)
            with _Opened(store._folder, store._keyring) as opened:
                logs = opened.captured(opened.find("last")).logs
        return {Path(f"log {number}"): log for number, log in enumerate(logs)}

    def files(self) -> dict[Path, bytes]:
        """Every file of the store and of the config folder, as it lies on disk now."""
        found = {}
        for root in (self.store, self.config):
            for file in root.rglob("*"):
                with contextlib.suppress(FileNotFoundError):  # intake may be taking it away
                    if file.is_file():
                        found[file] = file.read_bytes()
        return found


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    exit_code: int
    stdout: bytes
    stderr: bytes

    def json(self) -> Any:
        """The one document on stdout; everything else there is a failure."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            raise AssertionError(f"no JSON document on stdout: {self}") from None


@dataclass(frozen=True)
class Recorded(Ran):
    """A program that ran under capture."""

    world: World
    command: tuple[str, ...] = field(repr=False)

    def shown(self, *options: str) -> dict[str, Any]:
        """`tacho show last --json`."""
        return dict(tacho(self.world, "show", "last", "--json", *options).json())

    @property
    def decision_id(self) -> str:
        """The newest decision's id."""
        return str(tacho(self.world, "ls", "--json", "-n", "1").json()[0]["decisionId"])

    def calls(self) -> list[dict[str, Any]]:
        """The timeline's HTTP effects by their start, from the library: it answers what `show --json` prints."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.world.config))
            timeline = Store(self.world.store).show("last").model_dump(mode="json")["timeline"]
        return [one for one in timeline if one["kind"] in ("http", "model")]


@dataclass(frozen=True)
class Replayed:
    """The JSON answer of a replay, and how the command ended."""

    exit_code: int
    answer: dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.answer[key]

    @property
    def stdout(self) -> str:
        """What the replayed program wrote."""
        return str(self.answer["outcome"]["stdout"])


def world_in(folder: Path) -> World:
    """A fresh world, the programs copied into it (once: a second call gives the same)."""
    world = World(folder)
    if not world.programs.exists():
        shutil.copytree(AGENTS, world.programs, ignore=shutil.ignore_patterns("__pycache__"))
        world.work.mkdir()
        world.config.mkdir()
    return world


def command(world: World, agent: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that start a program."""
    return (sys.executable, str(world.programs / agent), json.dumps(settings))


def record(
    folder: Path,
    agent: str,
    *,
    env: Mapping[str, str] | None = None,
    during: Callable[[World], None] | None = None,
    **settings: Any,
) -> Recorded:
    """Run a program of `agents/` under capture. `during` runs here, while the program does."""
    world = world_in(folder)
    words = command(world, agent, settings)
    ran = _run(world, ("run", "--", *words), cwd=world.work, env=world.environment(env), during=during)
    return Recorded(ran.exit_code, ran.stdout, ran.stderr, world, words)


def replay(
    recorded: Recorded,
    *options: str,
    server: ScriptedServer | None = None,
    env: Mapping[str, str] | None = None,
    without: tuple[str, ...] = (),
    cwd: Path | None = None,
) -> Replayed:
    """Replay the newest decision. With `server`, assert that no connection reached it meanwhile."""
    before = None if server is None else (server.hits, server.connections)
    environment = {name: value for name, value in recorded.world.environment(env).items() if name not in without}
    words = ("replay", "last", "--json", *options)
    ran = _run(recorded.world, words, cwd=cwd or recorded.world.work, env=environment)
    if server is not None:
        assert (server.hits, server.connections) == before, "a replay went live"
    assert ran.exit_code in (0, 1), ran
    return Replayed(ran.exit_code, ran.json())


def tacho(world: World, *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Ran:
    """Any other command."""
    return _run(world, words, cwd=cwd or world.work, env=world.environment(env))


def _run(
    world: World,
    words: tuple[str, ...],
    *,
    cwd: Path,
    env: Mapping[str, str],
    during: Callable[[World], None] | None = None,
) -> Ran:
    process = subprocess.Popen(
        (sys.executable, "-m", "tachograph", *words),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        if during is not None:
            during(world)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # it is the leader of its group, and its program must go with it
        process.communicate()
        raise
    return Ran(process.returncode, stdout, stderr)


# --- what is asserted everywhere --------------------------------------------------------------------------------------


def same(recorded: Recorded, replayed: Replayed) -> None:
    """The replay ended as the recording did, byte for byte, and the report says so and nothing else."""
    assert recorded.exit_code == replayed["outcome"]["exitCode"], recorded
    assert replayed.stdout == recorded.stdout.decode("utf-8", "backslashreplace")
    assert replayed["divergences"] == []
    assert (replayed["misses"], replayed["unconsumed"], replayed["attempts"]) == ([], [], [])
    assert replayed["equivalent"] is True
    assert replayed["outcome"]["endedBy"] is None
    assert (replayed["liveEffects"], replayed["modelCallsSent"]) == (0, 0)
    assert replayed["confinement"]["network"] != "open"
    assert replayed.exit_code == 0


def different(replayed: Replayed, *, at: str | None = None) -> dict[str, Any]:
    """The replay is reported as different. Returns the first divergence, which `at` must name."""
    assert replayed["equivalent"] is False
    assert replayed.exit_code == 1
    assert (replayed["liveEffects"], replayed["modelCallsSent"]) == (0, 0)
    found = replayed["divergences"]
    if at is not None:
        assert found, f"nothing diverges, and {at} should"
        assert found[0]["path"] == at, found
    return dict(found[0]) if found else {}


def wait_for(file: Path, *, seconds: float = 15.0) -> bool:
    """Wait until a program has touched a file."""
    until = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port that refuses connections until a `ScriptedServer` listens there: both may hold it at once."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])

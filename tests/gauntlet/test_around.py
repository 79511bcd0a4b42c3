"""A run says its code's version, its dependencies, its image and its entry point, and nobody waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.gauntlet.harness import World, record, replay, same, tacho, world_in

FIELDS = ("codeVersion", "dependencyLockHash", "dependencySource", "containerImageDigest", "entryPoint")
PROGRAM = "import uuid\nprint(uuid.uuid4())\n"
QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder: Path, *words: str) -> str:
    """Run git there and return what it says."""
    words = ("-c", "user.name=a", "-c", "user.email=a@localhost", *words)
    env = {**os.environ, **QUIET}
    return subprocess.run(("git", *words), cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def committed(folder: Path) -> tuple[World, str]:
    """A world whose programs are a repository, and its one commit."""
    world = world_in(folder)
    world.edit("prints.py", PROGRAM)
    git(world.programs, "init", "-q")
    world.edit(".gitignore", "__pycache__\n")
    git(world.programs, "add", ".")
    git(world.programs, "commit", "-q", "-m", "one")
    return world, git(world.programs, "rev-parse", "HEAD").strip()


def said(world: World) -> tuple[dict[str, Any], dict[str, str]]:
    """What the newest document says of its code and surroundings, and why the rest of it is not there."""
    document = json.loads(tacho(world, "show", "last", "--document").stdout)
    states = {name: document["evidenceStates"].get(f"/runtime/{name}") for name in FIELDS}
    found = {name: document["runtime"][name] for name in FIELDS if name in document["runtime"]}
    return found, {name: f"{one['state']} {one['reason']}" for name, one in states.items() if one is not None}


def test_the_document_has_them_all_and_a_replay_is_none_the_wiser(tmp_path: Path) -> None:
    world, commit = committed(tmp_path)
    recorded = record(tmp_path, "prints.py")
    assert recorded.exit_code == 0
    found, missing = said(world)
    assert missing == {}
    assert sorted(found) == sorted(FIELDS)
    assert (found["codeVersion"], found["entryPoint"]) == (f"git:{commit}", "file:prints.py")
    assert found["dependencySource"] == "distributions"
    assert found["containerImageDigest"].startswith("env:sha256:")
    same(recorded, replay(recorded))
    world.edit("uv.lock", "a lock")
    image = "sha256:" + "ab" * 32
    record(tmp_path, "prints.py", env={"TACHO_IMAGE_DIGEST": image})
    edited, missing = said(world)
    assert missing == {}
    assert edited["codeVersion"].startswith(f"git:{commit}+sha256:")
    assert (edited["dependencySource"], edited["containerImageDigest"]) == ("uv.lock", image)
    assert edited["dependencyLockHash"] != found["dependencyLockHash"]


def test_a_program_that_installs_the_recorder_says_what_costs_it_little(tmp_path: Path) -> None:
    world, commit = committed(tmp_path)
    world.edit("alone.py", "import tachograph\ntachograph.install()\nprint('done')\n")
    words = (sys.executable, str(world.programs / "alone.py"))
    ran = subprocess.run(words, cwd=world.work, env=world.environment(), check=True, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    found, missing = said(world)
    assert missing == {"containerImageDigest": "unavailable not_asked"}
    assert (found["codeVersion"], found["entryPoint"]) == (f"git:{commit}+unknown:not_asked", "file:alone.py")
    assert found["dependencySource"] == "distributions"


def test_a_git_that_never_answers_keeps_no_run_from_its_end(tmp_path: Path) -> None:
    world, commit = committed(tmp_path)
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    recorded = record(tmp_path, "prints.py", env={"PATH": f"{slow.parent}{os.pathsep}{os.environ['PATH']}"})
    assert (recorded.exit_code, recorded.stderr) == (0, b"")
    found, missing = said(world)
    assert missing == {}
    assert found["codeVersion"] == f"git:{commit}+unknown:timed_out"


def test_outside_of_a_repository_it_is_said_that_there_is_none(tmp_path: Path) -> None:
    world_in(tmp_path).edit("prints.py", PROGRAM)
    recorded = record(tmp_path, "prints.py")
    found, missing = said(recorded.world)
    assert missing == {"codeVersion": "absent no_repository"}
    assert found["entryPoint"] == "file:prints.py"

"""`tacho demo`: the main job, told on a real small model.

A refund agent answers one customer twice: with a good memory, and with a stale entry in it. Both runs are captured,
the model is shut down, both are replayed in a closed world; then the agent's system prompt is edited, and the replay
stops at the first differing leaf. Nothing is staged but the agent's memory. The store stays, and the next commands are
printed.
"""

from __future__ import annotations

import json as jsonlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from tachograph.cli.commands.replay import as_text
from tachograph.cli.options import JsonOption, tell
from tachograph.errors import ExtraMissing, Refused
from tachograph.library import Store, diagnosing
from tachograph.testing import local_model
from tachograph.testing.model_server import ModelServer
from tachograph.testing.scripted_brain import ScriptedBrain

FOLDER = "tachograph-demo"
AGENT = Path(local_model.__file__).parent / "refund"
EDIT = (" Take the refund window", " Answer politely. Take the refund window")


def demo(
    cause: Annotated[str, typer.Option(help="Which input is to blame; only `memory` is built yet.")] = "memory",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before replacing an earlier demo's folder.")] = False,
    scripted: Annotated[
        bool, typer.Option("--scripted", help="Use the scripted model even where the real one is.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Capture a good and a failing run, replay both closed, edit the prompt, see the first thing that differs."""
    if cause != "memory":
        raise Refused(f"--cause {cause} needs the bisection, which is not built yet", reason="not_built")
    if find_spec("openai") is None:
        raise ExtraMissing("the demo's agent needs the openai SDK: pip install 'tachograph[demo]'")
    folder = _folder(yes)
    began = time.monotonic()
    server, name = _model(scripted)
    with server as running:
        tell(f"1. a model answers at {running.openai_url} ({name})")
        codes = {memory: _record(folder, memory, running.openai_url) for memory in ("good", "bad")}
    tell("3. the model is shut down; both runs are replayed in a closed world")
    store = Store(str(folder / ".tachograph"))
    bad, good = store.decisions(limit=2)
    answers = {}
    for row in (good, bad):
        answer = answers[row.decisionId] = store.replay(row.decisionId)
        tell(f"   {row.decisionId}  {as_text(answer)}")
    edited = _edit_and_replay(folder, store, bad.decisionId)
    same = all(answer.equivalent for answer in answers.values())
    if json:
        _print(same, edited)
    tell(f"\nThat took {time.monotonic() - began:.0f} s. The store is {folder / '.tachograph'}. Next:")
    for command in _next(folder, bad.decisionId, good.decisionId):
        tell(f"  {command}")
    if codes != {"good": 0, "bad": 1} or not same or edited["equivalent"]:
        tell("the demo did not go as it should have")
        sys.exit(1)


def _folder(yes: bool) -> Path:
    folder = Path.cwd() / FOLDER
    if folder.exists():
        if not yes and not (sys.stdin.isatty() and typer.confirm(f"replace {folder}?", err=True)):
            raise Refused(f"{folder} is there already: remove it or say --yes", reason="exists")
        shutil.rmtree(folder)
    folder.mkdir()
    for name in ("agent.py", "system_prompt.txt"):
        shutil.copyfile(AGENT / name, folder / name)
    return folder


def _model(scripted: bool) -> tuple[AbstractContextManager[ModelServer], str]:
    if scripted:
        return ModelServer(ScriptedBrain()), "scripted, as asked"
    if not local_model.is_installed():
        tell("the small real model is not installed here (`tacho model install`): using the scripted model")
        return ModelServer(ScriptedBrain()), "scripted"
    tell("loading SmolLM2-135M-Instruct")
    return local_model.serve(local_model.LocalModelBrain()), "SmolLM2-135M-Instruct, on this machine"


def _tacho(folder: Path, *words: str) -> int:
    environment = {**os.environ, "TACHO_STORE": str(folder / ".tachograph"), "TACHO_QUIET": "1"}
    environment.setdefault("OPENAI_API_KEY", "sk-demo-0000000000000000")
    command = [sys.executable, "-m", "tachograph", *words]
    # The agent's own words are part of the story; with --json our stdout belongs to the document, so they go to stderr.
    return subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False).returncode


def _record(folder: Path, memory: str, url: str) -> int:
    tell(f"2. tacho run --agent refund -- python agent.py --memory {memory}")
    words = ["run", "--agent", "refund", "--", sys.executable, "agent.py", "--memory", memory, "--base-url", url]
    return _tacho(folder, *words)


def _edit_and_replay(folder: Path, store: Store, decision: str) -> dict[str, Any]:
    prompt = folder / "system_prompt.txt"
    before = prompt.read_text()
    prompt.write_text(before.replace(*EDIT))
    tell("4. the system prompt is edited, and the failing run is replayed again")
    try:
        answer = store.replay(decision)
    finally:
        prompt.write_text(before)
    tell("   " + as_text(answer).replace("\n", "\n   "))
    first = answer.divergences[0] if answer.divergences else None
    return {"equivalent": answer.equivalent, "first": None if first is None else first.model_dump(mode="json")}


def _print(same: bool, edited: dict[str, Any]) -> None:
    later = {"state": "unavailable", "reason": "not built yet"}
    document = {"replay": {"equivalent": same}, "edited": edited, "fidelity": {"level": later}, "bisect": later}
    sys.stdout.write(jsonlib.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _next(folder: Path, bad: str, good: str) -> list[str]:
    place = f"--store {os.path.relpath(folder / '.tachograph')}"
    tacho = "tacho" if diagnosing.command()[1] else os.path.relpath(Path(sys.executable).with_name("tacho"))
    return [
        f"{tacho} show {bad} {place}",
        f"{tacho} diff {good} {bad} {place}",
        f"{tacho} replay {bad} {place}",
    ]

"""The command line: words, exit codes, and what stands on which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.library.conftest import Kept


def tacho(*words: str, store: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command and wait for it."""
    environment = {**os.environ, **({"TACHO_STORE": str(store)} if store else {})}
    command = [sys.executable, "-m", "tachograph", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("ls", "--nonsense"), 2, "No such option"),
        (("unheard-of",), 2, "No such command"),
        (("show", "dec_7ZZZZZZZZZZ"), 2, "no decision has an id"),
        (("show", "last", "--context", "--effect", "1"), 2, "at a time"),
        (("verify",), 2, "name decisions, or --all"),
        (("verify", "nowhere.tacho"), 2, "nowhere.tacho cannot be read: No such file"),
        (("verify", "--all", "--require", "luck"), 2, "--require takes"),
        (("verify", "last", "--trust", "nobody"), 2, "--trust takes"),
        (("replay",), 2, "name one decision"),
        (("replay", "last", "--live"), 3, "grant"),
        (("ls", "--since", "yesterday"), 2, "--since takes"),
        (("run",), 2, "no program given"),
        (("run", "--agent"), 2, "needs a value"),
        (("run", "--bogus", "true"), 2, "knows no option"),
    ],
)
def test_a_fault_is_one_line_on_stderr_and_an_exit_code(
    kept: Kept, words: tuple[str, ...], code: int, said: str
) -> None:
    """Nothing on stdout, no traceback."""
    done = tacho(*words, store=kept.path)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_with_json_a_fault_is_one_document_too(kept: Kept) -> None:
    """Code, reason, message."""
    done = tacho("show", "dec_7ZZZZZZZZZZ", "--json", store=kept.path)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "not_found"


def test_json_answers_are_one_document_on_stdout(kept: Kept) -> None:
    """ls, show, replay, diff, doctor."""
    for words, code in (
        (("ls",), 0),
        (("show", kept.refunds), 0),
        (("replay", kept.good), 0),
        (("diff", kept.good, kept.bad), 1),
        (("doctor",), 0),
    ):
        done = tacho(*words, "--json", store=kept.path)
        assert done.returncode == code, done.stderr
        json.loads(done.stdout)


def test_text_answers_name_what_matters(kept: Kept) -> None:
    """A failed decision is marked; a difference shows both sides."""
    listed = tacho("ls", store=kept.path).stdout
    assert f"! {kept.bad}" in listed
    assert f"  {kept.good}" in listed
    shown = tacho("show", kept.refunds, store=kept.path).stdout
    assert "retrieval find" in shown
    assert "tool apply_policy" in shown
    assert "exit status" not in shown
    context = tacho("show", kept.refunds, "--context", store=kept.path).stdout
    assert "<- retrieval find: entry policy (effect 1)" in context
    differing = tacho("diff", kept.good, kept.bad, store=kept.path).stdout
    assert f"{kept.good}: hello there" in differing
    assert f"{kept.bad}: hello here" in differing


def test_replay_all_writes_a_junit_report_and_sums_up(kept: Kept, tmp_path: Path) -> None:
    """Every decision is a test case."""
    done = tacho("replay", "--all", "--junit", str(tmp_path / "report.xml"), store=kept.path)
    assert done.returncode == 0, done.stderr
    assert "4 equivalent, 0 different, 0 refused" in done.stdout
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), len(list(suite))) == ("4", "0", 4)


def test_what_a_capture_holds_cannot_drive_the_terminal(tmp_path: Path) -> None:
    """Escape sequences in a program's output stand as text."""
    store = tmp_path / "store"
    tacho("run", "--", sys.executable, "-c", "print('\\x1b[31mred\\x1b[0m')", store=store)
    shown = tacho("show", "last", store=store).stdout
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


def test_help_lists_every_verb_and_is_no_fault() -> None:
    """Without words the help is printed and the exit code is 2."""
    done = tacho("--help")
    assert done.returncode == 0
    for verb in ("run", "ls", "show", "replay", "diff", "doctor", "demo", "model"):
        assert f"  {verb} " in done.stdout
    assert tacho().returncode == 2
    assert tacho("run", "--help").returncode == 0

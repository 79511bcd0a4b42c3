"""The refund agent: retrieval ranks the policy first in both runs, and only the stale entry makes it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tachograph.testing.local_model import LocalModelBrain, is_installed, serve
from tachograph.testing.model_server import ModelServer
from tachograph.testing.refund import agent
from tachograph.testing.scripted_brain import ScriptedBrain

PROGRAM = Path(agent.__file__)
QUESTION = agent.QUESTION


def run(url: str, *arguments: str, program: Path = PROGRAM) -> subprocess.CompletedProcess[str]:
    """The agent as a user starts it; what a tester's own environment says about a provider is left out."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return subprocess.run(
        [sys.executable, program, "--base-url", url, *arguments],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def scripted() -> Iterator[ModelServer]:
    with ModelServer(ScriptedBrain()) as server:
        yield server


@pytest.fixture(scope="module")
def real() -> Iterator[ModelServer]:
    if not is_installed():
        pytest.skip("the small real model is not installed: make model")
    with serve(LocalModelBrain()) as server:
        yield server


def test_the_policy_ranks_first_in_both_memories_with_these_scores() -> None:
    good = agent.retrieve(QUESTION, agent.MEMORIES["good"], limit=3)
    bad = agent.retrieve(QUESTION, agent.MEMORIES["bad"], limit=3)
    assert [(hit.entry.id, round(hit.score, 6)) for hit in good] == [
        ("policy-2026", -2.030645),
        ("return-labels", -1.600218),
        ("gift-cards", -1.045907),
    ]
    assert [(hit.entry.id, round(hit.score, 6)) for hit in bad] == [
        ("policy-2024", -3.276527),
        ("policy-2026", -1.372285),
        ("descaling", -1.140553),
    ]


def test_stop_words_do_not_search() -> None:
    assert agent.query_words(QUESTION) == ["refund", "kettle", "order", "1042", "days", "return", "item"]


def test_the_memories_differ_in_the_stale_entry_alone() -> None:
    assert set(agent.MEMORIES["bad"]) - set(agent.MEMORIES["good"]) == {agent.STALE_ENTRY}
    assert set(agent.MEMORIES["good"]) <= set(agent.MEMORIES["bad"])


def test_the_tool_and_the_order_systems_check() -> None:
    order = agent.ORDERS[agent.ORDER_ID]
    assert [agent.apply_refund_policy(days, order) for days in (14, 19, 20, 30)] == ["DENIED"] * 2 + ["REFUNDED"] * 2
    assert agent.refunded_outside_window("REFUNDED", order)
    assert not agent.refunded_outside_window("DENIED", order)


def tells_the_story(url: str) -> None:
    good, bad = run(url, "--memory", "good"), run(url, "--memory", "bad")
    assert (good.returncode, good.stderr) == (0, "")
    assert "Agent:    DENIED. The kettle was bought 20 days ago; the refund window is 14 days." in good.stdout
    assert bad.returncode == 1
    assert "Agent:    REFUNDED. The kettle was bought 20 days ago; the refund window is 30 days." in bad.stdout
    assert "refund issued outside the window of order 1042" in bad.stderr


def test_the_story_on_the_scripted_brain(scripted: ModelServer) -> None:
    tells_the_story(scripted.openai_url)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_story_on_the_real_model(real: ModelServer) -> None:
    tells_the_story(real.openai_url)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_another_system_prompt_does_not_change_the_story_on_the_real_model(real: ModelServer, tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("You are the refund agent of a kitchen shop. Take the refund window from the memory entry.")
    for memory, decision in (("good", "DENIED"), ("bad", "REFUNDED")):
        assert decision in run(real.openai_url, "--memory", memory, "--system-prompt", str(prompt)).stdout


def test_the_call_is_one_streamed_completion_with_one_tool(scripted: ModelServer) -> None:
    before = scripted.hits
    run(scripted.openai_url)
    (request,) = scripted.requests[before:]
    body = request.json()
    assert isinstance(body, dict)
    assert body["stream"] is True
    assert [tool["function"]["name"] for tool in body["tools"]] == ["apply_refund_policy"]
    assert body["messages"][0]["content"].endswith("Memory entry: " + agent.GOOD_MEMORY[0].text)


def test_a_copy_elsewhere_reads_the_prompt_beside_it(scripted: ModelServer, tmp_path: Path) -> None:
    for name in ("agent.py", "system_prompt.txt"):
        shutil.copy(PROGRAM.with_name(name), tmp_path)
    (tmp_path / "system_prompt.txt").write_text("Take the window from the memory entry, please.\n")
    assert run(scripted.openai_url, program=tmp_path / "agent.py").returncode == 0
    assert b"memory entry, please." in scripted.requests[-1].body


def test_it_knows_nothing_of_tachograph() -> None:
    assert "import tachograph" not in PROGRAM.read_text()
    assert "from tachograph" not in PROGRAM.read_text()

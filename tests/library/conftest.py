"""One store for the tests of the library and the command line: two programs recorded once, for real, and only read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tachograph import Store
from tachograph.testing.model_server import ModelServer
from tachograph.testing.scripted_brain import ScriptedBrain

AGENT = """
import os, sys, time, uuid
import httpx2, tachograph

URL, KEY = sys.argv[1], os.environ["SERVICE_API_KEY"]

@tachograph.retrieval(configuration={"k": 1}, corpus="handbook-3")
def find(question):
    return [tachograph.Entry(id="policy", text="The refund window is 14 days from purchase.", score=0.5, method="bm25")]

@tachograph.tool(determinism="deterministic")
def apply_policy(days):
    return {"allowed": days >= 20, "days": days}

@tachograph.agent(name="refunds")
def answer(question):
    entry = find(question)[0]
    request = {"model": "m", "temperature": 0.25, "messages": [
        {"role": "system", "content": "Answer from the memory. " + entry.text + " Today: " + str(uuid.uuid4())},
        {"role": "user", "content": question + " My key is " + KEY}]}
    headers = {"authorization": "Bearer " + KEY, "x-version": "7"}
    said = httpx2.post(URL, json=request, headers=headers).json()["choices"][0]["message"]["content"]
    outcome = apply_policy(14)
    window = tachograph.external("window", lambda: 14, source="orders")
    tachograph.observe("region", "north", source="config")
    return f"{said} {outcome['allowed']} {window}"

print(answer("May I return the kettle?"))
try:
    with tachograph.decision(agent="other", user="user-77", session="session-5", request="a second question") as d:
        d.configure(system_prompt_version="v9")
        d.output("no answer", stop_reason="error")
        raise LookupError("nothing found")
except LookupError:
    pass
"""

PLAIN = """
import sys, httpx
answer = httpx.post(sys.argv[1], json={"model": "m", "messages": [{"role": "user", "content": sys.argv[2]}]})
print(answer.json()["choices"][0]["message"]["content"])
sys.stderr.write("to stderr\\n")
sys.exit(int(sys.argv[3]))
"""


@dataclass(frozen=True)
class Kept:
    """The store, and the ids of what is in it."""

    store: Store
    path: Path
    refunds: str
    other: str
    good: str
    bad: str
    key: str


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, own_configuration: Path) -> Iterator[Kept]:
    """Record the programs: a decorated agent with two decisions, and a plain one that ends well and badly."""
    folder = tmp_path_factory.mktemp("kept")
    key = "sk-live-" + "Zq7" * 9
    (folder / "agent.py").write_text(AGENT)
    (folder / "plain.py").write_text(PLAIN)
    environment = {**os.environ, "TACHO_STORE": str(folder / "store"), "SERVICE_API_KEY": key}
    with ModelServer(ScriptedBrain()) as server:
        url = f"{server.openai_url}/chat/completions"
        for words in (["agent.py", url], ["plain.py", url, "hello there", "0"], ["plain.py", url, "hello here", "3"]):
            command = [sys.executable, "-m", "tachograph", "run", "--", sys.executable, *words]
            subprocess.run(command, cwd=folder, env=environment, check=False, timeout=60, capture_output=True)
    store = Store(folder / "store")
    bad, good, other, refunds = (row.decisionId for row in store.decisions())
    return Kept(store, folder / "store", refunds, other, good, bad, key)

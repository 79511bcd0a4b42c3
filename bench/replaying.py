"""Row 6: what a replay costs.

A program of 50 calls whose requests grow to 100 KB, recorded once and replayed: the time inside our code in the child,
by its own counter; byte-equal, and with every request written differently (same meaning). Then the whole of
`tacho replay` of an empty program against `python -c pass`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import environment, interleaved, median_ms, row, timed_process
from tachograph.testing.model_server import ModelServer
from tachograph.testing.scripted_brain import ScriptedBrain

AGENT = """
import json, sys
import httpx2
url, spaced = sys.argv[1], len(sys.argv) > 2
messages = []
with httpx2.Client() as client:
    for turn in range(50):
        messages.append({"role": "user", "content": f"turn {turn} " + "word " * 400})
        request = {"model": "m", "messages": messages}
        body = json.dumps(request, indent=1) if spaced else json.dumps(request)
        answer = client.post(url, content=body, headers={"content-type": "application/json"}).json()
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
"""


def _tacho(env: dict[str, str], *words: str) -> str:
    command = [sys.executable, "-m", "tachograph", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout


def run() -> list[dict[str, Any]]:
    """Measure the three bounds."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(XDG_CONFIG_HOME=f"{folder}/config", TACHO_STORE=f"{folder}/store")
        agent = Path(folder, "agent.py")
        agent.write_text(AGENT)
        with ModelServer(ScriptedBrain()) as server:
            url = f"{server.openai_url}/chat/completions"
            _tacho(env, "run", "--", sys.executable, str(agent), url)
        equal = [_inside(env) for _ in range(5)]
        other = [_inside(env, "--", sys.executable, str(agent), url, "spaced") for _ in range(5)]
        _tacho(env, "run", "--", sys.executable, "-c", "pass")
        replay = [sys.executable, "-m", "tachograph", "replay", "last"]
        bare, whole = interleaved(
            11,
            lambda: timed_process([sys.executable, "-c", "pass"], environment=env),
            lambda: timed_process(replay, environment=env),
        )
        added = median_ms(whole) - median_ms(bare)
    equal_ms, other_ms = sorted(equal)[2], sorted(other)[2]
    return [
        row(6, "50 calls to 100 KB, byte-equal, inside", value=equal_ms, unit="ms", baseline=25, reach="<= 25 ms",
            met=equal_ms <= 25),
        row(6, "50 calls to 100 KB, same meaning, inside", value=other_ms, unit="ms", baseline=60, reach="<= 60 ms",
            met=other_ms <= 60),
        row(6, "tacho replay of an empty program, added", value=added, unit="ms", baseline=median_ms(bare),
            reach="<= 500 ms", met=added <= 500),
    ]  # fmt: skip


def _inside(env: dict[str, str], *words: str) -> float:
    answer = json.loads(_tacho(env, "replay", "last", "--json", *words))
    if answer["served"] != 50 or answer["misses"]:
        raise AssertionError(f"served {answer['served']} of 50: {answer['misses'][:1]}")
    return float(answer["timings"]["inPlaybackMs"])


if __name__ == "__main__":
    os.environ.setdefault("TACHO_QUIET", "1")
    for result in run():
        print(result)

"""Pools whose workers die, and children of every kind. Settings: url, way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import httpx
from clients import SETTINGS

URL = SETTINGS["url"]


def ask(number: int) -> str:
    """One call in a worker."""
    return httpx.post(URL, content=str(number)).text


def die(how: str) -> None:
    """Leave without a word, or be killed."""
    os._exit(3) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)


def pool(how: str) -> list[str]:
    """A worker answers, then it dies, and whoever waits learns it."""
    with ProcessPoolExecutor(1) as workers:
        said = [workers.submit(ask, 1).result()]
        try:
            workers.submit(die, how).result(timeout=30)
        except BrokenProcessPool:
            said.append("broken")
    with ProcessPoolExecutor(1) as workers:
        return [*said, workers.submit(ask, 2).result()]


def children() -> list[str]:
    """Children that load us and such that do not, and programs that are no Python."""
    call = f"import httpx; print(httpx.post({URL!r}, content=b'child').text)"
    ways = {
        "plain": [sys.executable, "-c", call], "isolated": [sys.executable, "-I", "-c", call],
        "no site": [sys.executable, "-S", "-c", "print('alone')"], "other": ["sh", "-c", "echo other; exit 4"],
        "led to": ["sh", "-c", 'echo led; exec "$@"', "sh", sys.executable, "-c", call],
    }  # fmt: skip
    said = []
    for name, words in ways.items():
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        said.append(f"{name}: {done.stdout.split()} {done.returncode}")
    bare = subprocess.run([sys.executable, "-c", call], env={}, capture_output=True, text=True, check=False)
    return [*said, f"bare: {bare.stdout.split()} {bare.returncode}"]


if __name__ == "__main__":
    print(children() if SETTINGS["way"] == "children" else pool(SETTINGS["way"]))

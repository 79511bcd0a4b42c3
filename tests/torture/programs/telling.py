"""Lets one marker through every way by which content reaches a recorder: `telling.py URL FOLDER MARKER-argv`.

A marker is `zanzibar-WAY-4711`; `WAYS` lists them. Before it ends, by an exception, it touches FOLDER/told and waits
for FOLDER/go, so that somebody can look at the disk while everything is open.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx

import tachograph

WAYS = (
    "argv", "env", "stdin", "stdout", "stderr", "path", "body", "header", "answer-body", "answer-header", "gzip",
    "tool-input", "tool-value", "retrieval", "external", "observe", "user", "session", "request", "output", "reason",
    "child-argv", "child-output", "exception",
)  # fmt: skip


def mark(way: str) -> str:
    """The marker of a way. It stands whole in no source file, so that the files of a program give nothing away."""
    assert way in WAYS
    return f"zanzibar-{way}-4711"


@tachograph.tool
def look_up(asked: str) -> dict[str, str]:
    """A tool."""
    return {"of": asked, "is": mark("tool-value")}


@tachograph.retrieval
def find(question: str) -> list[tachograph.Entry]:
    """A retrieval."""
    return [tachograph.Entry(id="e-1", text=f"{question}: {mark('retrieval')}")]


def calls(url: str) -> None:
    """Calls over HTTP; what a server does with /gzip is its affair."""
    with httpx.Client(timeout=20) as client:
        for target in (f"/{mark('path')}", "/gzip"):
            told = {"model": "small", "messages": [{"role": "user", "content": mark("body")}]}
            client.post(url + target, json=told, headers={"x-customer": mark("header")})


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    print(mark("stdout"), sys.stdin.read().strip(), flush=True)
    print(mark("stderr"), file=sys.stderr, flush=True)
    with tachograph.decision(user=mark("user"), session=mark("session"), request={"of": mark("request")}) as decided:
        calls(url)
        look_up(mark("tool-input"))
        find("what")
        tachograph.external("key", lambda: mark("external"), source="clock")
        tachograph.observe("seen", mark("observe"))
        subprocess.run(["echo", mark("child-argv")], check=True, capture_output=True)
        subprocess.run(["sh", "-c", f"echo {mark('child-output')[:9]}'{mark('child-output')[9:]}'"], check=True)
        decided.output(mark("output"))
        decided.fail(mark("reason"))
    (folder / "told").touch()
    until = time.monotonic() + 30
    while not (folder / "go").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert os.environ["TELLING"] == mark("env")
    raise LookupError(mark("exception"))


if __name__ == "__main__":
    main()

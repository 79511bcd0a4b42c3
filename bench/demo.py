"""Row 13: `make demo` once the wheels are in pip's cache: a fresh clone, its own `.venv`, to the end of the story."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.measure import environment, row

ROOT = Path(__file__).resolve().parents[1]


def run() -> list[dict[str, Any]]:
    """Measure the whole of `make demo` in a clone of this repository."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        env = environment(XDG_CONFIG_HOME=f"{folder}/config")
        began = time.perf_counter()
        done = subprocess.run(["make", "demo"], cwd=clone, env=env, capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-2000:] + done.stderr[-4000:])
    met = done.returncode == 0 and took <= 90
    return [row(13, "make demo, fresh clone", value=took, unit="s", baseline=90, reach="<= 90 s", met=met)]


if __name__ == "__main__":
    for result in run():
        print(result)

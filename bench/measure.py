"""What the measurements share: percentiles, a process timed whole, a result row."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def timed_process(argv: Sequence[str], *, environment: Mapping[str, str], cwd: str | None = None) -> float:
    """Run a program to its end and return the wall time in seconds; its output is thrown away."""
    began = time.perf_counter()
    subprocess.run(
        argv, env=dict(environment), cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - began


def interleaved(runs: int, *actions: Callable[[], float]) -> list[list[float]]:
    """Run the actions in turn, `runs` times each, after one unmeasured round; return the times per action."""
    for action in actions:
        action()
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for place, action in enumerate(actions):
            times[place].append(action())
    return times


def median_ms(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return statistics.median(seconds) * 1000


def environment(**more: str) -> dict[str, str]:
    """Return this environment with compiled files written as a user's are, and what is given."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "TACHO_QUIET": "1", **more}


def row(
    number: int, what: str, *, value: float, unit: str, baseline: float, reach: str, met: bool, **more: Any
) -> dict[str, Any]:
    """Return one result: the value, the baseline of the same run, their ratio, and whether the bound holds."""
    ratio = value / baseline if baseline else float("nan")
    return {"row": number, "what": what, "value": round(value, 3), "unit": unit, "baseline": round(baseline, 3),
            "ratio": round(ratio, 2), "reach": reach, "met": met, **more}  # fmt: skip

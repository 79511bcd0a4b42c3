"""Recorded draws inside an effect that is served whole are let go, on its path and below, and nowhere else."""

from __future__ import annotations

from tachograph.model.effect import END, TOOL, Arrival, Draw, Effect
from tachograph.replay.redraws import Redraws

CLOCK = ("time.time", "a.py", "f", "time.time()")
PATHS = ["0", "0/a1", "0/a1/t2", "0/a1.5", "0/a10", "0/a2", "0/a1/"]


def test_a_stretch_is_let_go_on_a_path_and_below_it_and_nowhere_else() -> None:
    draws = Redraws([Draw(CLOCK, path, at, at) for at in (5, 15, 25) for path in PATHS])
    outer = Effect(TOOL, index=1, path="0/a1", decision=0, parent=0, at_ns=2)
    outer.arrivals.append(Arrival(END, 20))
    draws.skip_inside(outer)
    counts = {said["path"]: said["count"] for said in draws.left()}
    assert counts == {path: 1 if path in ("0/a1", "0/a1/t2", "0/a1/") else 3 for path in PATHS}

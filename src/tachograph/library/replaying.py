"""`replay`: plan, run again, judge; and which of the run's inputs have changed since."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from tachograph.errors import Refused, TachographError
from tachograph.formats import frame as fr
from tachograph.formats.answers import ReplayAnswer
from tachograph.formats.effect_log import EffectLog, read_effect_log
from tachograph.intake.reading import Captured
from tachograph.replay.confinement.possible import AUTO
from tachograph.replay.engine import run_again
from tachograph.replay.lending import lend, stand_in
from tachograph.replay.plan import Refusal, make_plan
from tachograph.replay.report import judge


class Unwatched(TachographError):
    """The replayed program did not load the replay, so nothing held it: what it did is not known."""

    code = "unwatched_replay"
    exit_code = 5


def replay_run(
    captured: Captured, *, replay_id: str, cwd: str | None, command: Sequence[str] | None, environ: Mapping[str, str],
    tag_key: bytes, confinement: str = AUTO,
) -> ReplayAnswer:  # fmt: skip
    """Replay the run of a decision. Raises Refused with the plan's reason, Unwatched if the program escaped us."""
    lent = lend(captured.log, environ=environ, tag_key=tag_key)
    stood_in = stand_in(captured.logs, lent, tag_key=tag_key)
    log = captured.log if not lent.stand_ins else read_effect_log(stood_in.logs)
    plan = make_plan(log, lent=lent, cwd=cwd, command=command)
    if isinstance(plan, Refusal):
        raise Refused(plan.message, reason=plan.reason)
    if not os.path.isdir(plan.cwd):
        raise Refused(f"the run's folder {plan.cwd} is not here: name another with --cwd", reason="no_folder")
    changed = inputs_changed(log, cwd=plan.cwd)
    outcome = run_again(plan, stood_in.tape, log, confinement=confinement, lent_folder=cwd).compared(stood_in.compared)
    if not outcome.of(fr.READY) and outcome.exit_code not in (126, 127):
        raise Unwatched(
            "the program ran without loading the replay (started with -I, -E or -S, or no Python 3.11+?): "
            "what it did outside is not known"
        )
    return judge(
        replay_id=replay_id,
        decision_id=captured.decision_id,
        log=log,
        plan=plan,
        outcome=outcome,
        inputs_changed=changed,
        origin_state="damaged" if captured.damage else captured.state,
        decision=captured.number,
    )


def inputs_changed(log: EffectLog, *, cwd: str) -> list[dict[str, Any]]:
    """Name the files that the run was started from or loaded and that are not what they were."""
    recorded: dict[str, str] = {}
    for fact in log.of(fr.RUN, fr.PROCESS):
        recorded.update(fact.said.get("files") or {})
    for fact in log.of(fr.ENDED):
        if fact.flags == 0 and fact.payload:
            recorded.update(fact.said.get("files") or {})
    old = (log.first(fr.RUN) or log.first(fr.PROCESS)).get("cwd", cwd)
    changes = []
    for path, digest in sorted(recorded.items()):
        here = os.path.join(cwd, os.path.relpath(path, old)) if path.startswith(old + os.sep) else path
        now = _digest(here)
        if now != digest:
            what = "missing" if now is None else "content"
            changes.append({"path": here, "what": what, "recorded": digest, "now": now})
    return changes


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        return None

"""`replay`: plan, run again, judge; and which of the run's inputs have changed since."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from tachograph.errors import Refused, TachographError
from tachograph.formats import frame as fr
from tachograph.formats.answers import ReplayAnswer
from tachograph.formats.effect_log import EffectLog, read_without_content
from tachograph.intake.reading import Captured
from tachograph.replay.alone import Alone, alone, entry_in
from tachograph.replay.confinement.possible import AUTO, no_overlay
from tachograph.replay.confinement.watching import NAMESPACES
from tachograph.replay.engine import run_again
from tachograph.replay.layout import lay_out
from tachograph.replay.lending import StoodIn, lend, stand_in
from tachograph.replay.plan import Refusal, call_alone, make_plan, send_alone, temp_folders
from tachograph.replay.report import judge
from tachograph.replay.requested import Inbound, inbound_in, requested
from tachograph.replay.startstate import (
    StartState,
    moved,
    recorded_folder,
    start_state,
    watches_files,
    without_files,
)
from tachograph.replay.written import compare_written, states_left


class Unwatched(TachographError):
    """The replayed program did not load the replay, so nothing held it: what it did is not known."""

    code = "unwatched_replay"
    exit_code = 5


def replay_run(
    captured: Captured, *, replay_id: str, cwd: str | None, command: Sequence[str] | None, environ: Mapping[str, str],
    tag_key: bytes, confinement: str = AUTO, by_itself: bool = False, pace: bool = False,
) -> ReplayAnswer:  # fmt: skip
    """Replay the run of a decision, or the decision alone. Raises Refused with the plan's reason, Unwatched.

    Alone (its agent function is called again, or the program is started and sent its inbound request) where that is
    asked for with `by_itself`, and where the run did not end by itself: a server that was stopped would serve for ever.
    `pace`: wait as long as the recorded program did.
    """
    lent = lend(captured.without_content, environ=environ, tag_key=tag_key)
    stood_in = stand_in(captured.logs, lent, tag_key=tag_key)
    log = captured.without_content if not lent.stand_ins else read_without_content(stood_in.logs)
    entry = _entry(captured, stood_in.logs, by_itself=by_itself) if command is None else None
    known: set[str] = set()
    if entry is not None:
        if isinstance(entry, Inbound):  # what the server writes for itself, a log for one, it wrote in the run too
            known = start_state(log, cwd=cwd).known
        take = requested if isinstance(entry, Inbound) else alone
        stood_in = StoodIn([take(stood_in.logs, entry.number)], stood_in.pairs)
        log = read_without_content(stood_in.logs)
    plan = make_plan(log, lent=lent, cwd=cwd, command=command)
    if entry is not None and not isinstance(plan, Refusal):
        plan = send_alone(plan, entry) if isinstance(entry, Inbound) else call_alone(plan, entry, log)
    if isinstance(plan, Refusal):
        raise Refused(plan.message, reason=plan.reason)
    if not os.path.isdir(plan.cwd):
        raise Refused(f"the run's folder {plan.cwd} is not here: name another with --cwd", reason="no_folder")
    start = start_state(log, cwd=plan.cwd)
    watched = watches_files(log)
    why = no_overlay(confinement) if start.lasting else ""
    if why:
        _without_overlay(start, why=why, elsewhere=plan.cwd != recorded_folder(log))
    changed = inputs_changed(log, cwd=plan.cwd, start=start)
    outcome = run_again(
        plan, map(without_files, stood_in.tape()), log, confinement=confinement, lent_folder=cwd,
        lay_out=partial(lay_out, start.files), pace=pace,
    ).compared(stood_in.compared)  # fmt: skip
    if not outcome.of(fr.READY) and outcome.exit_code not in (126, 127):
        raise Unwatched(
            "the program ran without loading the replay (started with -I, -E or -S, or no Python 3.11+?): "
            "what it did outside is not known"
        )
    written = None
    if watched:
        closed: dict[str, Any] = next((said for _, said in outcome.of(fr.CONFINED)), {})
        overlay = closed.get("way") == NAMESPACES
        inside = (plan.cwd, *temp_folders(plan))
        now = states_left(start, outcome.frames, overlay=overlay, inside=inside)
        written = compare_written(start, now, change=stood_in.compared)
        if start.lasting and not why and not overlay:
            written.notes.append("files did not start as they were before the run: no overlay could be made after all")
    return judge(
        replay_id=replay_id,
        decision_id=captured.decision_id,
        log=log,
        plan=plan,
        outcome=outcome,
        inputs_changed=changed,
        origin_state="damaged" if captured.damage else captured.state,
        decision=captured.number,
        recorded_writes=start.known | known if watched else None,
        files=written,
    )


def _entry(captured: Captured, logs: Sequence[bytes], *, by_itself: bool) -> Alone | Inbound | None:
    """Return how to get into the decision, where it is to be replayed alone. Raises Refused where nothing can.

    Its function called again comes first: that starts nothing else of the server.
    """
    found = entry_in(logs, captured.number) if captured.number else None
    why = found.entry.get("why") if found is not None else "no function declared with @tachograph.agent opened it"
    if why is None and found is not None and (by_itself or not found.ended_by_itself):
        return found
    request = inbound_in(logs, captured.number) if captured.number else None
    if request is not None and not request.why and (by_itself or not request.ended_by_itself) and why is not None:
        return request
    if by_itself:
        if request is not None:
            why = f"{why}; nor can its inbound request be sent again: {request.why}"
        raise Refused(
            f"{captured.decision_id} cannot be replayed alone: {why}; without --alone its whole program is run again",
            reason="no_entry_point",
        )
    return None


def _without_overlay(start: StartState, *, why: str, elsewhere: bool) -> None:
    """Lay the start state out in the folder of `--cwd`. Raises Refused where a file of the user's would change."""
    outside = [path for path in start.lasting if not path.startswith(start.cwd.rstrip(os.sep) + os.sep)]
    if not elsewhere or outside:
        path = (outside or start.lasting)[0]
        raise Refused(
            f"the run wrote {len(start.lasting)} file(s) (first: {path}), and a replay would write them for real: "
            f"there is no overlay here ({why}). Name another folder with --cwd, where files of the run's folder are "
            "laid out as they were; files outside it need an overlay",
            reason="no_file_world",
        )
    failed = lay_out(start.files)
    if failed:
        raise Refused(f"files cannot be laid out as they were before the run: {failed[0]}", reason="no_file_world")


def inputs_changed(log: EffectLog, *, cwd: str, start: StartState | None = None) -> list[dict[str, Any]]:
    """Name the files that the run was started from, loaded or read and that are not what they were.

    Those that it wrote are none of them: they start as they were.
    """
    recorded: dict[str, str] = {}
    for fact in log.of(fr.RUN, fr.PROCESS):
        recorded.update(fact.said.get("files") or {})
    for fact in log.of(fr.ENDED):
        if fact.flags == 0 and fact.payload:
            recorded.update(fact.said.get("files") or {})
    old = (log.first(fr.RUN) or log.first(fr.PROCESS)).get("cwd", cwd)
    changes = []
    start = start or StartState(cwd)
    for path, kept in start.opened.items():
        recorded[path] = kept.digest or (sha256(kept.data).hexdigest() if kept.content else "")
    for path, (size, time, digest, moving) in sorted(_read(log).items()):
        here = moved(path, old, cwd)
        if here in start.files or here in start.written:
            continue
        if digest:
            recorded.setdefault(path, digest)
        elif moving or _size_and_time(here) != (size, time):
            what = "changed during the run" if moving else "size or time"
            changes.append({"path": here, "what": what, "recorded": None, "now": None})
    for path, digest in sorted(recorded.items()):
        here = moved(path, old, cwd)
        now = _digest(here)
        if now != digest and digest:
            what = "missing" if now is None else "content"
            changes.append({"path": here, "what": what, "recorded": digest, "now": now})
    return sorted(changes, key=lambda one: str(one["path"]))


def _read(log: EffectLog) -> dict[str, list[Any]]:
    """What each process read, by path: of several, the first."""
    found: dict[str, list[Any]] = {}
    for fact in log.of(fr.FILES_READ):
        for path, said in fact.said.items():
            found.setdefault(path, said)
    return found


def _size_and_time(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _digest(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        return None

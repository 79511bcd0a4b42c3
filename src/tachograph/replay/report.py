"""From what a replayed program did to the answer: equivalent or not, and where it first differs.

Equivalent means (DESIGN section 6): every effect of each task path consumed once and in order, no miss, no attempt to
get out, the same exit status, stdout bytes, decision outputs and files written. Informational: stderr, durations, order
between paths, drift. After the first miss, later differences are marked as its consequences.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tachograph.comparison.severity import severity_of
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.answers.parts import DivergenceItem, Unavailable
from tachograph.formats.answers.replay import (
    AttemptItem,
    CallItem,
    FirstDifference,
    MissItem,
    ReplayAnswer,
    ReplayOutcome,
    UnconsumedItem,
)
from tachograph.model.effect import SLEEP
from tachograph.replay.confinement.account import account, written_outside
from tachograph.replay.plan import BASIS, temp_folders
from tachograph.replay.replied import Replied, compare_replies
from tachograph.replay.written import shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from tachograph.formats.effect_log import EffectLog
    from tachograph.replay.engine import Outcome
    from tachograph.replay.plan import Launch
    from tachograph.replay.written import Written


def judge(
    *, replay_id: str, decision_id: str, log: EffectLog, plan: Launch, outcome: Outcome,
    inputs_changed: list[dict[str, Any]], origin_state: str, decision: int,
    recorded_writes: Collection[str] | None = None, files: Written | None = None,
) -> ReplayAnswer:  # fmt: skip
    """Compare a replay with the record and return the answer.

    `recorded_writes`: the paths that the recorded run wrote to, None where that was not kept. A file that the replay
    wrote outside the run's folder and temp folders, and the run did not, is an attempt.
    """
    all_misses = [(_miss(said), said.get("decision", 0)) for _, said in outcome.of(fr.MISS)]
    misses = [miss for miss, inside in all_misses if decision in (0, inside)]
    attempts = [_attempt(said) for _, said in outcome.of(fr.ATTEMPT)]
    if recorded_writes is not None:
        written = [said["path"] for _, said in outcome.of(fr.WRITTEN) if said["kind"] != "folder"]
        inside = (plan.cwd, *temp_folders(plan))
        attempts += [
            AttemptItem(what="file.write", where=path, stoppedBy="overlay")
            for path in written_outside(written, inside, recorded_writes)
        ]
    served = outcome.of(fr.SERVED)
    own = {effect.index for effect in log.effects if decision in (0, effect.decision)}
    seen = {frame.effect for frame, _ in served}
    fewer = _slept_less(log, seen)
    unconsumed = [one for one in _unconsumed(log, seen | fewer) if one.effect in own]
    reply = compare_replies(log, outcome.frames, decision) if "INBOUND" in plan.settings else Replied()
    found = [
        *_unread(outcome),
        *_slept_otherwise(outcome),
        *_answered(outcome),
        *_out_of_order(log, served),
        *_twice(served),
        *_ends(log, outcome),
        *_outputs(log, outcome),
        *([_divergence(*reply.first)] if reply.first is not None else ()),
        *_files(files),
    ]
    mine, elsewhere = _own(found, own, decision)
    divergences = [*_missed(misses), *mine]  # a call that nothing recorded comes near belongs to no recorded effect
    if misses and divergences:
        first = divergences[0]
        divergences = [first, *(item.model_copy(update={"consequence": True}) for item in divergences[1:])]
    ready = outcome.of(fr.READY)
    notes = _notes(log, outcome, plan, served, bool(ready))
    if elsewhere or len(misses) < len(all_misses):
        where = ", ".join(sorted({item.path for item in elsewhere})[:5]) or "a call outside this decision"
        notes.append(f"the run differs outside this decision: {where}")
    if not ready:
        divergences.append(_divergence("/replay/started", "watched", "the program never started under watch"))
    notes += files.notes if files is not None else []
    notes += [f"the answer was matched by meaning: {note}" for note in reply.notes]
    live = outcome.of(fr.LIVE)
    same = not (divergences or misses or attempts or unconsumed or live or outcome.ended_by)
    return ReplayAnswer(
        replayId=replay_id,
        decisionId=decision_id,
        comparison_basis=BASIS,
        origin_state=origin_state,
        plan=plan.boundaries,
        equivalent=same,
        divergences=divergences,
        misses=misses,
        unconsumed=unconsumed,
        attempts=attempts,
        drift=[
            *_drift(outcome),
            *_drift_of_sleeps(log, fewer, outcome),
            *(files.drift if files is not None else ()),
        ],
        inputsChanged=inputs_changed,
        liveEffects=len(live),
        modelCallsSent=0,
        confinement=account(
            guard=ready[0][1].get("held", {}) if ready else {},
            kernel=next((said for _, said in outcome.of(fr.CONFINED)), {}),
            came_out=outcome.came_out,
        ),
        fidelity=Unavailable(reason="fidelity assessment is not built yet"),
        outcome=ReplayOutcome(
            exitCode=outcome.exit_code,
            stdout=_text(outcome.stdout),
            stderr=_text(outcome.stderr),
            endedBy=outcome.ended_by,
        ),
        served=len(served),
        notes=notes,
        timings=_timings(outcome),
    )


def _own(
    items: list[DivergenceItem], own: set[int], decision: int
) -> tuple[list[DivergenceItem], list[DivergenceItem]]:  # fmt: skip
    """Tell what belongs to the decision asked for from what only belongs to its run."""
    if not decision:
        return items, []
    mine = [item for item in items if item.effect in own or item.path.startswith(f"/decisions/{decision}/")]
    return mine, [item for item in items if item not in mine]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _divergence(path: str, original: Any, replay: Any, *, effect: int | None = None) -> DivergenceItem:
    return DivergenceItem(path=path, original=original, replay=replay, severity=severity_of(path), effect=effect)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: what it cannot is shown as Python would write it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return repr(value) if not isinstance(value, float) or value != value else value


def _miss(said: dict[str, Any]) -> MissItem:
    leaf = said.get("firstDifference")
    return MissItem(
        effect=said.get("nearest"),
        call=CallItem(**said["call"]),
        nearest=said.get("nearest"),
        firstDifference=None
        if leaf is None
        else FirstDifference(path=leaf["path"], recorded=_plain(leaf["recorded"]), replayed=_plain(leaf["replayed"])),
    )


def _attempt(said: dict[str, Any]) -> AttemptItem:
    return AttemptItem(what=said["what"], where=said["where"], stoppedBy=said["stoppedBy"])


def _missed(misses: list[MissItem]) -> list[DivergenceItem]:
    items = []
    for miss in misses:
        leaf = miss.firstDifference
        where = f"/effects/{miss.nearest}" if miss.nearest else "/effects"
        if leaf is None:
            call = f"{miss.call.method or miss.call.kind} {miss.call.endpoint}"
            items.append(_divergence(where, None, call, effect=miss.nearest))
        else:
            side = "" if leaf.path.startswith(("/answer", "/name", "/inputs", "/output")) else "/request"
            items.append(_divergence(f"{where}{side}{leaf.path}", leaf.recorded, leaf.replayed, effect=miss.nearest))
    return items


def _unconsumed(log: EffectLog, served: set[int]) -> list[UnconsumedItem]:
    return [
        UnconsumedItem(effect=effect.index, kind=effect.kind, summary=effect.summary)
        for effect in log.effects
        if effect.index not in served
    ]


def _unread(outcome: Outcome) -> list[DivergenceItem]:
    return [
        _divergence(f"/effects/{frame.effect}/answer/chunksRead", said["recorded"], said["read"], effect=frame.effect)
        for frame, said in outcome.of(fr.CHUNK)
    ]


def _slept_less(log: EffectLog, served: set[int]) -> set[int]:
    """Sleeps that a replay did without. They only inform: how often a loop polls is a matter of scheduling.

    Nothing enters a program by a sleep, and what the program does after it is compared.
    """
    return {one.index for one in log.effects if one.kind == SLEEP and one.index not in served}


def _answered(outcome: Outcome) -> list[DivergenceItem]:
    """Python children that ran again and wrote, or ended, otherwise than recorded."""
    return [
        _divergence(f"/effects/{frame.effect}{said['path']}", said["recorded"], said["replayed"], effect=frame.effect)
        for frame, said in outcome.of(fr.ANSWERED)
    ]


def _slept_otherwise(outcome: Outcome) -> list[DivergenceItem]:
    """Another duration at the recorded place, where the program's own file asks for it."""
    return [
        _divergence(f"/effects/{frame.effect}/seconds", said["recorded"], said["replayed"], effect=frame.effect)
        for frame, said in outcome.of(fr.SLEPT)
        if said["own"]
    ]


def _drift_of_sleeps(log: EffectLog, fewer: set[int], outcome: Outcome) -> list[dict[str, Any]]:
    counts = Counter((one.name, one.path, one.site) for one in log.effects if one.index in fewer)
    drift = [
        _drifted({"site": (form, *site), "path": path, "count": count, "what": "not slept again"})
        for (form, path, site), count in counts.items()
    ]
    return drift + [
        {"kind": "sleep", "effect": frame.effect, "what": f"{said['recorded']} s recorded, {said['replayed']} s asked"}
        for frame, said in outcome.of(fr.SLEPT)
        if not said["own"]
    ]


def _out_of_order(log: EffectLog, served: list[tuple[fr.Frame, Any]]) -> list[DivergenceItem]:
    """On each replayed path, effects that were recorded on one path must come in their recorded order."""
    recorded_path = {effect.index: effect.path for effect in log.effects}
    last: dict[tuple[str, str], int] = {}
    items = []
    for frame, said in served:
        if "inside" in said:
            continue
        key = said["path"], recorded_path[frame.effect]
        before = last.get(key, 0)
        if frame.effect < before:
            path = f"/paths/{said['path']}/order"
            items.append(_divergence(path, f"{frame.effect} before {before}", f"{before} before {frame.effect}"))
        last[key] = max(before, frame.effect)
    return items


def _twice(served: list[tuple[fr.Frame, Any]]) -> list[DivergenceItem]:
    """An effect is consumed once: two processes that were each given the same answer are not the recorded run."""
    counts = Counter(frame.effect for frame, _ in served)
    return [
        _divergence(f"/effects/{effect}/consumed", 1, count, effect=effect)
        for effect, count in sorted(counts.items())
        if count > 1
    ]


def _ends(log: EffectLog, outcome: Outcome) -> list[DivergenceItem]:
    items = []
    ended = next((fact.said for fact in log.of(fr.ENDED) if fact.flags == 1), None)
    if ended is not None and ended["exitCode"] != outcome.exit_code:
        items.append(_divergence("/outcome/exitCode", ended["exitCode"], outcome.exit_code))
    if ended is not None and log.streams[1] != outcome.stdout:
        items.append(_stream_difference(log.streams[1], outcome.stdout))
    if outcome.ended_by:
        items.append(_divergence("/outcome/endedBy", None, outcome.ended_by))
    return items


def _stream_difference(recorded: bytes, replayed: bytes) -> DivergenceItem:
    ours, theirs = recorded.split(b"\n"), replayed.split(b"\n")
    same = (place for place, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    number = next(same, min(len(ours), len(theirs)))
    here = _text(ours[number]) if number < len(ours) else None
    there = _text(theirs[number]) if number < len(theirs) else None
    return _divergence(f"/outcome/stdout/lines/{number}", here, there)


def _files(files: Written | None) -> list[DivergenceItem]:
    """How the run left the files that it wrote; None where that was not kept."""
    leaves = files.leaves if files is not None else []
    return [_divergence(leaf.path, shown(leaf.recorded), shown(leaf.replayed)) for leaf in leaves]


_SAID = {fr.OUTPUT: "output", fr.CONFIGURE: "configuration", fr.FAIL: "failure", fr.CLOSE: "outcome"}


def _outputs(log: EffectLog, outcome: Outcome) -> list[DivergenceItem]:
    """What the program said of each decision, in order: outputs, configuration, failures, how it closed."""
    items = []
    recorded: dict[int, list[tuple[int, bytes]]] = {}
    replayed: dict[int, list[tuple[int, bytes]]] = {}
    for fact in log.of(*_SAID):
        recorded.setdefault(fact.decision, []).append((fact.kind, fact.payload))
    for frame in outcome.frames:
        if frame.kind in _SAID:
            replayed.setdefault(frame.effect, []).append((frame.kind, frame.payload))
    for number in sorted({*recorded, *replayed}):
        ours, theirs = recorded.get(number, []), replayed.get(number, [])
        for place in range(max(len(ours), len(theirs))):
            here = ours[place] if place < len(ours) else None
            there = theirs[place] if place < len(theirs) else None
            if here != there:
                kind = _SAID[(here or there or (fr.OUTPUT, b""))[0]]
                items.append(_divergence(f"/decisions/{number}/{kind}", _said(here), _said(there)))
                break
    opened, again = len(log.of(fr.OPEN)), len(outcome.of(fr.OPEN))
    if opened != again:
        items.append(_divergence("/decisions", opened, again))
    return items


def _said(item: tuple[int, bytes] | None) -> Any:
    return None if item is None else _plain(values.decode(item[1]))


def _drift(outcome: Outcome) -> list[dict[str, Any]]:
    drift = [_drifted(one) for _, said in outcome.of(fr.DRIFT) for one in said]
    return drift + [
        {"kind": "order", "effect": frame.effect, "what": "orderNotReimposed"} for frame, _ in outcome.of(fr.UNORDERED)
    ]


def _drifted(said: dict[str, Any]) -> dict[str, Any]:
    kind, file, qualname, line = said["site"]
    where = {"kind": kind, "path": said["path"], "site": f"{file}:{qualname}", "line": line}
    return {**where, "count": said["count"], "what": said["what"]}


def _notes(
    log: EffectLog, outcome: Outcome, plan: Launch, served: list[tuple[fr.Frame, Any]], ready: bool
) -> list[str]:  # fmt: skip
    notes = list(plan.notes)
    meaning = {frame.effect: said["notes"] for frame, said in served if said.get("notes")}
    for effect, said in meaning.items():
        notes.append(f"effect {effect} was matched by meaning: {'; '.join(said)}")
    if plan.placeholders:
        notes.append(f"stood in for credentials that are not set here: {', '.join(sorted(plan.placeholders))}")
    if any(effect.response_tags for effect in log.effects):
        notes.append("set-cookie values were answered with placeholders of the same shape")
    paths = {effect.index: effect.path for effect in log.effects}
    moved = [frame.effect for frame, said in served if said.get("path") not in (None, paths.get(frame.effect, ""))]
    if moved:
        notes.append(f"{len(moved)} effect(s) were asked for on another task path than recorded")
    if not ready:
        notes.append("the program did not load the replay: is it a Python 3.11+ program started without -I, -E or -S?")
    return notes


def _timings(outcome: Outcome) -> dict[str, float]:
    spent = outcome.of(fr.SPENT)
    return {
        "totalMs": round(outcome.duration_s * 1000, 1),
        "inPlaybackMs": round(sum(said["ns"] for _, said in spent) / 1e6, 3),
    }

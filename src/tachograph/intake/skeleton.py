"""The skeleton of a capture: the closed list of fields that may stand in the journal (contracts/capture-v1.md, rule 3).

Everything that could name a person or quote a content stays in the encrypted log: the journal's payload holds names and
versions of models, counts, order, statuses, how things ended, and nothing else. Numbers are counted from the log, never
taken from the program. The payload is the RFC 8785 form of this mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats.effect_log import EffectLog
from tachograph.intake.document.observed import Observed
from tachograph.intake.sketch import Glimpse, Sketch, line, short
from tachograph.model.effect import TOOL, Effect
from tachograph.version import VERSION


@dataclass(frozen=True)
class Outline:
    """What a capture's skeleton says, and the two content texts that a list shows beside it."""

    payload: dict[str, Any]
    title: str
    user: str | None
    session: str | None
    tools: tuple[str, ...]
    captured_at_ms: int


def outline(
    sketch: Sketch | Observed, *, run_id: str, decision_id: str, number: int, opened: dict[str, Any],
    run: dict[str, Any],
) -> Outline:  # fmt: skip
    """Make a capture's skeleton of its log (of a decision, or of a run that is its own decision)."""
    log = sketch.log
    effects = [effect for effect in log.effects if number in (0, effect.decision)]
    model_calls = [glimpse for effect in effects if (glimpse := sketch.glimpses.get(effect.index)) is not None]
    tools = tuple(effect.name for effect in effects if effect.kind == TOOL)
    asked = sum(glimpse.asked for glimpse in model_calls)
    ended = _ended(log, number)
    failure = _failure(log, number, ended)
    began_ns = log.about[0]["beganNs"] if log.about else 0
    opened_at = next((fact.at_ns for fact in log.of(fr.OPEN) if fact.decision == number), 0)
    payload = {
        "version": "replay/v1",
        "decisionId": decision_id,
        "runId": run_id,
        "agentId": short(opened.get("agent")) or agent_of(run),
        "capturedAt": rfc3339(began_ns + opened_at),
        "captureLevel": "damaged" if log.about and log.about[0]["damage"] else "full",
        "captureReason": "failed" if failure else "window",
        "recorder": {"name": "tachograph", "version": VERSION},
        "counts": {"effects": len(effects), "modelCalls": len(model_calls), "toolCalls": len(tools) or asked,
                   "draws": sketch.draws},
        "modelCalls": [glimpse.said for glimpse in model_calls],
        "effects": [_effect(effect) for effect in effects],
        "coverage": coverage(log),
    }  # fmt: skip
    said = [fact.said for fact in log.of(fr.OUTPUT) if fact.decision == number]
    stop = stop_of(said, model_calls[-1].stop_reason if model_calls else None)
    if stop is not None:
        payload["stopReason"] = stop
    if ended is not None:
        payload["exitCode"] = ended["exitCode"]
    if failure:
        payload["failure"] = failure
    at_ms = (began_ns + opened_at) // 1_000_000
    return Outline(payload, _title(model_calls, opened, run), opened.get("user"), opened.get("session"), tools, at_ms)


def rfc3339(at_ns: int) -> str:
    """Return a wall-clock time in nanoseconds since 1970 as RFC 3339 UTC with milliseconds and `Z`."""
    moment = datetime.fromtimestamp(at_ns // 1_000_000 / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ns // 1_000_000 % 1000:03d}Z"


def coverage(log: EffectLog) -> dict[str, Any]:
    """Count what was seen and what bypassed the recorder; kinds and numbers only, no addresses."""
    bypassed: dict[str, int] = {}
    for said in gone_past(log):
        bypassed[said["what"]] = bypassed.get(said["what"], 0) + 1
    if not is_watched(log):
        bypassed["process"] = bypassed.get("process", 0) + 1
    counted = [{"what": what, "count": count} for what, count in sorted(bypassed.items())]
    seen = len(log.effects)
    return {"seen": seen, "bypassed": counted, "damage": len(log.about[0]["damage"]) if log.about else 0}


def gone_past(log: EffectLog) -> list[dict[str, Any]]:
    """What is known to have gone past the recorder: `what` and `detail` of each.

    A process that was started on a task path, and of which there is no record on it, was not seen.
    """
    recorded = {fact.said.get("path") for fact in log.of(fr.PROCESS)}
    past = [fact.said for fact in log.of(fr.NOTE) if fact.said["what"] != "started"]
    if not recorded:
        return past  # a decision's own log does not say which processes there were
    for fact in log.of(fr.STARTED):
        if fact.said["path"] not in recorded:
            past.append({"what": fact.said["what"], "detail": " ".join(fact.said["words"])})
    for effect in log.effects:
        if effect.child_path and effect.child_path not in recorded and _is_python(effect):
            past.append({"what": "subprocess.python", "detail": effect.summary})
    return past


def _is_python(effect: Effect) -> bool:
    args = effect.command.get("args") or [""]
    return str(args[0]).rpartition("/")[2].startswith(("python", "pypy"))


def is_watched(log: EffectLog) -> bool:
    """Say whether the program that `tacho run` started is one of the processes that recorded themselves.

    A run that `tachograph.install()` recorded has no such note, and is. A decision's own log says nothing either way.
    """
    started = [fact.said["detail"] for fact in log.of(fr.NOTE) if fact.said["what"] == "started"]
    return not started or started[0] in {str(fact.said.get("pid")) for fact in log.of(fr.PROCESS)}


def _title(model_calls: list[Glimpse], opened: dict[str, Any], run: dict[str, Any]) -> str:
    """One line that tells a person which decision this is: the request, else the last user message, else argv."""
    request = opened.get("request")
    if isinstance(request, str) and request.strip():
        return line(request)
    asked = next((glimpse.user for glimpse in model_calls if glimpse.user), "")
    return asked or line(" ".join(str(word) for word in run.get("argv", ())))


def agent_of(run: dict[str, Any]) -> str:
    """Return `agt_` and 16 hex of the entry point's digest (contract, `agentId`), or of argv where no file was seen."""
    given = short(run.get("agent"))
    if given:
        return given
    files = run.get("files") or {}
    first = next(iter(files.values()), None) or sha256(" ".join(map(str, run.get("argv", ()))).encode()).hexdigest()
    return f"agt_{first[:16]}"


def _ended(log: EffectLog, number: int) -> dict[str, Any] | None:
    if number != 0:
        return None
    return next((fact.said for fact in log.of(fr.ENDED) if fact.flags == 1), None)


def _failure(log: EffectLog, number: int, ended: dict[str, Any] | None) -> str | None:
    """Which of the four ways to fail holds, first that does (DESIGN section 1, failure indicator)."""
    if any(fact.decision == number for fact in log.of(fr.FAIL)):
        return "declared"
    if any(fact.decision == number and "raised" in fact.said for fact in log.of(fr.CLOSE)):
        return "exception"
    if any(fact.decision == number and fact.said.get("stopReason") == "error" for fact in log.of(fr.OUTPUT)):
        return "stop_reason"
    if ended is not None and ended["exitCode"] != 0:
        return "exit_code"
    return None


def stop_of(said: list[dict[str, Any]], stated: str | None) -> str | None:
    """Return the stop reason: as the program said it with its output, else as the last model answer stated it."""
    return str(said[-1]["stopReason"]) if said else stated


def _effect(effect: Effect) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": effect.kind, "ended": effect.ended}
    if effect.parent:
        said["parent"] = effect.parent
    if effect.status:
        said["status"] = effect.status
    return said

"""The whole document of one decision, or of what belongs to a run alone (contracts/capture-v1.md).

`assemble` is a function of what was observed: the same log gives the same bytes for ever, since a store makes
commitments again from it (rule 3). What it gives may be extended only under another `ASSEMBLY`.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tachograph.canonical import canonical, digest
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.document import calls, context
from tachograph.intake.document.context import VersionOf
from tachograph.intake.document.observed import Observed
from tachograph.intake.document.page import MAPPED, Page
from tachograph.intake.skeleton import agent_of, coverage, rfc3339, stop_of
from tachograph.intake.sketch import short
from tachograph.model.effect import HTTP
from tachograph.model.identity import with_prefix

ASSEMBLY = 1
RETENTION_DAYS = 365
_NOT_THERE = ("no_repository", "no_commit")
_NOT_FOUND_OUT = ("interpreter_unknown", "not_asked", "failed")  # reason codes: a program's own words are none


@dataclass(frozen=True)
class Assembled:
    """A document without what sealing adds. `blobs` and `trees` hold by pointer what a digest stands for there."""

    document: dict[str, Any]
    blobs: dict[str, bytes | str]
    trees: dict[str, bytes]


def assemble(
    observed: Observed, *, run_id: str, decision_id: str | None, opened: dict[str, Any], run: dict[str, Any],
    failed: bool, version_of: VersionOf,
) -> Assembled:  # fmt: skip
    """Return the document. `opened` is what the program said when it opened the decision, `run` what the run said."""
    page = Page()
    log = observed.log
    began_ns = log.about[0]["beganNs"] if log.about else 0
    opened_at = next((fact.at_ns for fact in log.of(fr.OPEN) if fact.decision == observed.number), 0)
    damaged = bool(log.about and log.about[0]["damage"])

    def at_time(at_ns: int) -> str:
        return rfc3339(began_ns + at_ns)

    document = page.document
    document.update(
        version="replay/v1", runId=run_id, runtimeId=with_prefix(run_id, "rt"),
        agentId=short(opened.get("agent")) or agent_of(run), capturedAt=at_time(opened_at),
        captureLevel="damaged" if damaged else "full", captureReason="failed" if failed else "window",
        subjects=[str(opened["user"])] if opened.get("user") else [],
    )  # fmt: skip
    if decision_id is not None:
        document["decisionId"] = decision_id
    document["input"] = _input(page, observed, opened, run)
    document["agentConfiguration"] = context.configuration(page, observed, version_of)
    document["memoryState"] = context.memory(page, observed)
    document["executionTrace"] = _execution(page, observed, opened_at)
    document["externalState"] = {"observableExternals": calls.externals(page, observed, at_time)}
    document["runtime"] = _runtime(page, observed, run)
    document["source"] = _source(observed, decision_id or run_id)
    document["replayPolicy"] = {
        "retentionDays": RETENTION_DAYS, "piiRedacted": False, "replayAccessScope": "operator"
    }  # fmt: skip
    document["evidenceStates"] = page.states
    return Assembled(document, page.blobs, page.trees)


def _input(page: Page, observed: Observed, opened: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, field in (("user", "originUserId"), ("session", "originSessionId")):
        if opened.get(name):
            made[field] = page.text(f"/input/{field}", str(opened[name]))
        else:
            page.absent(f"/input/{field}", "not_declared")
    at = "/input/requestPayload"
    if opened.get("request") is not None:
        request = opened["request"]
        made["requestPayload"] = page.encoded(at, values.encode(request))
    elif observed.number == 0:
        stdin = observed.streams[0].digest
        payload = {"argv": [str(word) for word in run.get("argv", ())], "stdinHash": stdin}
        made["requestPayload"] = page.value(at, payload, values.encode(payload))
        page.provenance(at, MAPPED, "argv_and_stdin")
    else:
        page.absent(at, "not_declared")
        return made
    page.digested(made, "requestPayload", "requestPayloadHash", "/input")
    return made


def _execution(page: Page, observed: Observed, opened_at: int) -> dict[str, Any]:
    effects, model_calls = observed.effects, observed.model_calls
    places = {seen.effect.index: place for place, seen in enumerate(effects)}
    completions = {index: n for n, index in enumerate(i for i in observed.order if i in places)}
    attempts: dict[tuple[str, str], int] = {}
    made: dict[str, Any] = {
        "toolCalls": calls.tool_calls(page, observed, places), "modelCalls": [], "effects": [],
        "outcome": calls.outcome(page, observed),
    }  # fmt: skip
    asked = {seen.effect.index for seen in model_calls}
    for place, seen in enumerate(effects):
        at, done = f"{calls.AT}/effects/{place}", completions.get(seen.effect.index)
        made["effects"].append(calls.effect_entry(page, seen, at, place, done, seen.effect.index in asked))
    for place, seen in enumerate(model_calls):
        same = seen.effect.url, seen.request.digest
        attempts[same] = attempts.get(same, 0) + 1
        at = f"{calls.AT}/modelCalls/{place}"
        made["modelCalls"].append(calls.model_call(page, seen, at, attempts[same]))
    calls.final_output(page, observed, made)
    answers = [seen.answered for seen in model_calls if seen.answered is not None]
    thoughts = [one.reasoning_text for one in answers if one.reasoning_text]
    if thoughts:
        made["reasoningTokens"] = page.text(f"{calls.AT}/reasoningTokens", "\n".join(thoughts))
    else:
        page.absent(f"{calls.AT}/reasoningTokens", "none_shown")
    counts = [one.reasoning_tokens for one in answers if one.reasoning_tokens is not None]
    if counts:
        made["reasoningTokenCount"] = sum(counts)
    stop = stop_of(observed.said(fr.OUTPUT), answers[-1].stop_reason if answers else None)
    if stop is not None:
        made["stopReason"] = stop
    else:
        page.absent(f"{calls.AT}/stopReason", "not_stated")
    made["totalLatencyMs"] = round((observed.last_ns - opened_at) / 1e6, 3)
    return made


def _runtime(page: Page, observed: Observed, run: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"coverage": _coverage(page, observed), "launch": {}}
    process = observed.log.first(fr.PROCESS) or run
    if short(process.get("python")):
        made["runtime"] = {"name": str(process.get("implementation", "python")), "version": process["python"]}
    else:
        page.unavailable("/runtime/runtime", "not_seen")
    _around(page, made, run.get("around"))
    if "argv" in run and "environment" in run:
        configured = {"argv": run["argv"], "environment": sorted(run["environment"])}
        made["configurationHash"] = digest(canonical(_plain(configured)))
    else:
        page.unavailable("/runtime/configurationHash", "not_collected")
    launch = made["launch"]
    if observed.number:
        page.unavailable("/runtime/launch", "in_the_run_s_record")
        return made
    for name in ("argv", "cwd", "umask", "environment"):
        if name in run:
            launch[name] = page.encoded(f"/runtime/launch/{name}", values.encode(run[name]))
        else:
            page.unavailable(f"/runtime/launch/{name}", "not_seen")
    launch["stdin"] = page.blob("/runtime/launch/stdin", observed.streams[0].content)
    return made


def _around(page: Page, made: dict[str, Any], said: Any) -> None:
    """What was found around the program (`capture.around`); of what was not, why."""
    around: dict[str, Any] = said if isinstance(said, dict) else {}
    missing = around.get("missing")
    for name in ("codeVersion", "dependencyLockHash", "dependencySource", "containerImageDigest", "entryPoint"):
        why = missing.get(name) if isinstance(missing, dict) else None
        if short(around.get(name)):
            made[name] = around[name]
        elif why in _NOT_THERE:
            page.absent(f"/runtime/{name}", why)
        else:
            page.unavailable(f"/runtime/{name}", why if why in _NOT_FOUND_OUT else "not_collected")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value).encode("utf-8", "backslashreplace").decode()


def _coverage(page: Page, observed: Observed) -> dict[str, Any]:
    counted = coverage(observed.log)
    made: dict[str, Any] = {"seen": counted["seen"], "bypassed": counted["bypassed"]}
    tails = [word for about in observed.log.about for word in about["tails"]]
    if tails:
        made["tail"] = page.text("/runtime/coverage/tail", "\n".join(tails))
    return made


def _source(observed: Observed, name: str) -> dict[str, Any]:
    made = {"captureMethod": "in_process", "provenance": "observed", "sourceHash": observed.frames.digest}
    trace = _trace_of(observed)
    if trace is not None:
        made["traceId"], made["spanId"] = trace
    else:
        made["traceId"], made["traceIdFrom"] = sha256(name.encode()).hexdigest()[:32], "decisionId"
    return made


def _trace_of(observed: Observed) -> tuple[str, str] | None:
    """The W3C trace context that a request of the decision carried."""
    for seen in observed.effects:
        if seen.effect.kind != HTTP:
            continue
        for name, value in seen.effect.headers:
            parts = value.split(b"-")
            if name.lower() == b"traceparent" and len(parts) == 4 and len(parts[1]) == 32 and len(parts[2]) == 16:
                return parts[1].decode("latin-1"), parts[2].decode("latin-1")
    return None

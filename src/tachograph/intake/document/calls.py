"""The group `executionTrace` and the externals: model calls, tool calls, every effect, the outcome."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tachograph.dialects.reading import AnswerReading, ToolCall
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.file_state import read_state
from tachograph.formats.value_view import view
from tachograph.intake.document.observed import MOST_TEXT, Observed, Seen
from tachograph.intake.document.page import MAPPED, Page
from tachograph.intake.sketch import short
from tachograph.model.effect import EXTERNAL, HTTP, RETRIEVAL, SLEEP, SUBPROCESS, TOOL, Effect

AT = "/executionTrace"
_MOST = 2**53 - 1


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address."""
    try:
        place = urlsplit(url)
        port = f":{place.port}" if place.port else ""
        return f"{place.scheme}://{place.hostname or ''}{port}"
    except ValueError:
        return ""


def headers_of(headers: list[tuple[bytes, bytes]]) -> list[list[str]]:
    """Return header fields as text, byte for byte (latin-1)."""
    return [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers]


def milliseconds(seen: Seen) -> float | None:
    """How long an effect took, None where it never ended."""
    return None if seen.ended_ns is None else round((seen.ended_ns - seen.effect.began_ns) / 1e6, 3)


def usage_of(answer: AnswerReading) -> dict[str, int]:
    """Return the counts that a provider stated, by its own names, nested ones behind a full stop."""
    found: dict[str, int] = {}

    def take(prefix: str, counts: Any) -> None:
        for name, value in sorted(counts.items()):
            if not isinstance(name, str) or not name.isascii():
                continue
            if type(value) is int and abs(value) <= _MOST:
                found[prefix + name] = value
            elif isinstance(value, dict) and not prefix:
                take(f"{name}.", value)

    take("", answer.usage or {})
    return found


def model_call(page: Page, seen: Seen, at: str, attempt: int) -> dict[str, Any]:
    """One call of a model, undecoded bytes as digests."""
    effect, answer = seen.effect, seen.answered
    made: dict[str, Any] = {"effect": effect.index, "ended": effect.ended, "attempt": attempt, "method": effect.method}
    if seen.dialect is not None:
        made["dialect"] = seen.dialect.name
        made["provider"] = seen.dialect.name.partition(".")[0]
    if seen.asked is not None and short(seen.asked.model):
        made["model"] = seen.asked.model
    if short(origin_of(effect.url)):
        made["origin"] = origin_of(effect.url)
    if effect.status:
        made["status"] = effect.status
    made["endpoint"] = page.text(f"{at}/endpoint", effect.url)
    made["requestHeaders"] = headers_of(effect.headers)
    made["request"] = page.blob(f"{at}/request", seen.request.content)
    if effect.status:
        made["responseHeaders"] = headers_of(effect.response_headers)
        made["response"] = page.blob(f"{at}/response", seen.response.content)
        made["chunks"] = seen.chunks
    else:
        page.absent(f"{at}/response", "no_answer")
    if answer is not None:
        if answer.model_version and short(answer.model_version):
            made["modelVersion"] = answer.model_version
        if answer.provider_stop is not None:
            made["providerStop"] = page.text(f"{at}/providerStop", answer.provider_stop)
        usage = usage_of(answer)
        if usage:
            made["usage"] = usage
        else:
            page.absent(f"{at}/usage", "not_stated")
    return made


def effect_entry(page: Page, seen: Seen, at: str, start: int, completion: int | None, model: bool) -> dict[str, Any]:
    """One effect of any kind. Of a model call, the bytes stand in `modelCalls`."""
    effect = seen.effect
    made: dict[str, Any] = {"effect": effect.index, "kind": effect.kind, "start": start, "ended": effect.ended}
    if completion is not None:
        made["completion"] = completion
    if effect.parent:
        made["parent"] = effect.parent
    if effect.status:
        made["status"] = effect.status
    made["taskPath"] = effect.path
    if effect.kind == HTTP and not model:
        made["name"] = page.text(f"{at}/name", f"{effect.method} {effect.url}")
        made["request"] = page.blob(f"{at}/request", seen.request.content)
        if effect.status:
            made["response"] = page.blob(f"{at}/response", seen.response.content)
    elif effect.kind in (TOOL, RETRIEVAL, EXTERNAL):
        made["name"] = page.text(f"{at}/name", effect.name)
        made["inputs"] = page.encoded(f"{at}/inputs", effect.inputs)
        if effect.value:
            made["value"] = page.encoded(f"{at}/value", effect.value)
    elif effect.kind == SUBPROCESS:
        made["command"] = page.encoded(f"{at}/command", values.encode(effect.command))
        made["request"] = page.blob(f"{at}/request", seen.request.content)
        made["response"] = page.blob(f"{at}/response", seen.response.content)
        if effect.exit_status is not None:
            made["status"] = effect.exit_status
    elif effect.kind == SLEEP:
        made["name"], made["seconds"] = page.text(f"{at}/name", effect.name), effect.seconds
    if effect.error:
        made["error"] = page.encoded(f"{at}/error", effect.error)
    return made


def error_of(effect: Effect) -> dict[str, str]:
    """Return class and message of the error with which an effect ended."""
    try:
        seen = view(effect.error)
    except (ValueError, RecursionError):
        return {"class": "unknown", "message": ""}
    if isinstance(seen, dict) and "$exception" in seen:
        said = ", ".join(str(part) for part in seen.get("args") or ())
        return {"class": _clean(str(seen["$exception"]).replace(":", ".")), "message": _clean(said)}
    return {"class": "unknown", "message": _clean(str(seen))}


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def tool_calls(page: Page, observed: Observed, places: dict[int, int]) -> list[dict[str, Any]]:
    """Return the tools that were called, as the program declared them; else as the model asked for them."""
    declared = [seen for seen in observed.effects if seen.effect.kind == TOOL]
    asked = [call for seen in observed.model_calls if seen.answered is not None for call in seen.answered.tool_calls]
    if declared:
        return [_declared(page, seen, n, places, asked) for n, seen in enumerate(declared)]
    latest = observed.model_calls[-1].asked if observed.model_calls else None
    results = {
        message.tool_call_id: message.text
        for message in (latest.messages if latest is not None else ())
        if message.kind == "tool_result" and message.text is not None
    }
    return [_asked(page, call, n, results) for n, call in enumerate(asked)]


def _declared(page: Page, seen: Seen, number: int, places: dict[int, int], asked: list[ToolCall]) -> dict[str, Any]:
    effect, at = seen.effect, f"{AT}/toolCalls/{number}"
    failed = effect.ended not in ("returned", "open_at_end")
    made: dict[str, Any] = {
        "sequence": number, "toolName": effect.name,
        "errorRef": f"{AT}/effects/{places[effect.index]}" if failed else None,
        "input": page.encoded(f"{at}/input", effect.inputs),
    }  # fmt: skip
    page.digested(made, "input", "inputHash", at)
    if effect.value:
        made["output"] = page.encoded(f"{at}/output", effect.value)
        page.digested(made, "output", "outputHash", at)
    else:
        page.absent(f"{at}/output", "raised" if failed else "never_returned")
    took = milliseconds(seen)
    if took is not None:
        made["latencyMs"] = took
    _link(page, made, at, asked)
    return made


def _link(page: Page, made: dict[str, Any], at: str, asked: list[ToolCall]) -> None:
    """Find the call that the model asked for: the first that is left with this name, or with its last part."""
    name = str(made["toolName"]).rpartition(".")[2]
    for place, call in enumerate(asked):
        if call.name in (made["toolName"], name) and call.call_id:
            made["callId"] = page.text(f"{at}/callId", call.call_id)
            page.provenance(f"{at}/callId", MAPPED, "by_name_and_order")
            del asked[place]
            return
    page.unavailable(f"{at}/callId", "not_asked_by_a_model")


def _asked(page: Page, call: ToolCall, number: int, results: dict[str | None, str]) -> dict[str, Any]:
    at = f"{AT}/toolCalls/{number}"
    made: dict[str, Any] = {"sequence": number, "errorRef": None}
    if call.name is not None:
        made["toolName"] = call.name
    else:
        page.unavailable(f"{at}/toolName", "not_stated")
    if call.arguments_text is not None:
        made["input"] = page.json(f"{at}/input", call.arguments_text.encode("utf-8", "surrogatepass"))
        page.digested(made, "input", "inputHash", at)
    if call.call_id is not None:
        made["callId"] = page.text(f"{at}/callId", call.call_id)
    result = results.get(call.call_id)
    if result is not None:
        made["output"] = page.text(f"{at}/output", result)
        page.digested(made, "output", "outputHash", at)
        page.provenance(f"{at}/output", MAPPED, "from_a_later_request")
    else:
        page.unavailable(f"{at}/output", "tool_not_declared")
    page.unavailable(f"{at}/latencyMs", "tool_not_declared")
    return made


def externals(page: Page, observed: Observed, at_time: Any) -> list[dict[str, Any]]:
    """Return what the program read from elsewhere: external values, failed ones too, and what it said that it saw."""
    found: list[dict[str, Any]] = []
    base = "/externalState/observableExternals"
    for seen in observed.effects:
        effect = seen.effect
        if effect.kind != EXTERNAL:
            continue
        at = f"{base}/{len(found)}"
        made: dict[str, Any] = {"key": page.text(f"{at}/key", effect.name), "capturedAt": at_time(effect.at_ns)}
        source = effect.spec.get("source")
        if isinstance(source, str):
            made["sourceEndpoint"] = page.text(f"{at}/sourceEndpoint", source)
        else:
            page.absent(f"{at}/sourceEndpoint", "not_declared")
        if effect.error:
            made["error"] = error_of(effect)
            page.absent(f"{at}/capturedValue", "the_read_failed")
        elif effect.value:
            made["capturedValue"] = page.encoded(f"{at}/capturedValue", effect.value)
        else:
            page.unavailable(f"{at}/capturedValue", "never_returned")
        found.append(made)
    for fact in observed.log.of(fr.OBSERVE):
        if fact.decision != observed.number:
            continue
        at, said = f"{base}/{len(found)}", fact.said
        made = {"key": page.text(f"{at}/key", str(said["key"])), "capturedAt": at_time(fact.at_ns)}
        made["capturedValue"] = page.encoded(f"{at}/capturedValue", values.encode(said["value"]))
        if isinstance(said.get("source"), str):
            made["sourceEndpoint"] = page.text(f"{at}/sourceEndpoint", said["source"])
        else:
            page.absent(f"{at}/sourceEndpoint", "not_declared")
        found.append(made)
    return found


def outcome(page: Page, observed: Observed) -> dict[str, Any]:
    """Return how it ended: exit code, streams, return value, files."""
    at, made = f"{AT}/outcome", dict[str, Any]()
    ended = next((fact.said for fact in observed.log.of(fr.ENDED) if fact.flags == 1), None)
    if ended is not None and observed.number == 0:
        made["exitCode"] = ended["exitCode"]
    else:
        page.absent(f"{at}/exitCode", "no_process_of_its_own" if observed.number else "not_seen")
    for stream, name in ((1, "stdout"), (2, "stderr")):
        if observed.number == 0 and (ended is not None or observed.streams[stream].size):
            made[name] = page.blob(f"{at}/{name}", observed.streams[stream].content)
        else:
            page.absent(f"{at}/{name}", "belongs_to_the_run" if observed.number else "not_seen")
    closed = [said for said in observed.said(fr.CLOSE) if "value" in said]
    if closed:
        made["returnValue"] = page.encoded(f"{at}/returnValue", values.encode(closed[-1]["value"]))
    else:
        page.absent(f"{at}/returnValue", "nothing_returned")
    made["filesWritten"] = [_file(fact.payload) for fact in observed.log.of(fr.FILE_AFTER)]
    return made


def _file(payload: bytes) -> dict[str, Any]:
    _, path, state = read_state(payload)
    made: dict[str, Any] = {"path": path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")}
    made.update({"kind": state.kind, "mode": state.mode, "size": state.size})
    if state.digest:
        made["digest"] = f"sha256:{state.digest}"
    return made


def final_output(page: Page, observed: Observed, made: dict[str, Any]) -> None:
    """Write the final output: as declared, else the last model answer's text, else stdout where no model was called."""
    at = f"{AT}/finalOutputText"
    declared = observed.said(fr.OUTPUT)
    last = next((one.answered for one in reversed(observed.model_calls) if one.answered is not None), None)
    stdout = observed.streams[1]
    if declared:
        made["finalOutputText"] = page.text(at, str(declared[-1]["text"]))
        page.provenance(at, "declared")
    elif last is not None and last.final_text is not None:
        made["finalOutputText"] = page.text(at, last.final_text)
        page.provenance(at, MAPPED, "last_model_answer")
    elif last is None and observed.number == 0 and not observed.model_calls and stdout.size:
        try:
            whole = stdout.head if stdout.size <= MOST_TEXT else b"\xff"
            made["finalOutputText"] = page.text(at, whole.decode())
        except UnicodeDecodeError:
            made["finalOutputText"] = page.blob(at, stdout.content)
        page.provenance(at, MAPPED, "stdout")
    else:
        page.absent(at, "no_output")
        return
    page.digested(made, "finalOutputText", "finalOutputHash", AT)

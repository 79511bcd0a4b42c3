"""One decision as `show` gives it: the timeline, the context with the origin of each part, and where a text stood.

The context is that of the last model call. Each part's origin is looked up among what was recorded before that call:
entries that retrievals returned, tool outputs, external values, earlier model answers, other answers over HTTP, argv,
stdin. What is found nowhere came from the program itself, and says so. Credentials that were taken out of headers are
masked wherever the same value stands in a body (their keyed tags tell).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tachograph.dialects.reading import AnswerReading
from tachograph.formats import frame as fr
from tachograph.formats.answers.ls import DecisionRow
from tachograph.formats.answers.parts import Unavailable
from tachograph.formats.answers.show import ContextPart, EffectItem, GrepHit, ShowAnswer
from tachograph.formats.effect_log import EffectLog
from tachograph.intake.reading import Captured, inbound_of, plainly
from tachograph.intake.readings import answer_of, dialect_of, request_of
from tachograph.model.effect import EXTERNAL, HTTP, RETRIEVAL, SUBPROCESS, TOOL, Effect

SHORTEST = 12  # characters: a shorter text found inside a longer one says nothing about where it came from

Mask = Callable[[str], str]


@dataclass(frozen=True)
class Source:
    """A text that the program had before a call, and where it had it from."""

    text: str
    origin: str
    effect: int | None


def show(captured: Captured, row: DecisionRow, *, mask: Mask, grep: str | None = None) -> ShowAnswer:
    """Return the answer for one decision."""
    log = captured.log
    effects = [effect for effect in log.effects if captured.number in (0, effect.decision)]
    context = context_of(effects, log, mask)
    output = captured.output
    answer = ShowAnswer(
        decision=row,
        timeline=[item(effect, mask) for effect in effects],
        context=context if context else Unavailable(reason="no model call in a known dialect was recorded"),
        output=mask(output) if output is not None else Unavailable(reason="the decision said no output"),
        stdout=_stream(log, 1, mask),
        stderr=_stream(log, 2, mask),
        draws=len(log.draws),
        damage=captured.damage,
        coverage=captured.coverage,
        facts=_facts(log, captured.number, mask),
    )
    if grep is None:
        return answer
    return answer.model_copy(update={"grep": list(_grep(grep, answer, effects, mask))})


def item(effect: Effect, mask: Mask) -> EffectItem:
    """One effect on the timeline."""
    request, answered = request_of(effect), answer_of(effect)
    last = effect.arrivals[-1].at_ns if effect.arrivals else None
    dialect = dialect_of(effect)
    return EffectItem(
        effect=effect.index,
        kind="model" if dialect is not None else effect.kind,
        path=effect.path,
        parent=effect.parent or None,
        summary=mask(effect.summary),
        startedMs=round(effect.began_ns / 1e6, 3),
        durationMs=None if last is None else round((last - effect.began_ns) / 1e6, 3),
        status=effect.status or effect.exit_status,
        ended=effect.ended,
        requestBytes=len(effect.body or effect.inputs),
        answerBytes=len(effect.answer or effect.value),
        chunks=len(effect.chunks),
        provider=None if dialect is None else dialect.name,
        model=None if request is None else request.model,
        stopReason=None if answered is None else answered.stop_reason,
        answered=None if answered is None else mask(" ".join(_answered(answered).split())) or None,
        error=mask(error_of(effect)) if effect.error else None,
    )


def _answered(answer: AnswerReading) -> str:
    """What a model answered, in one line: its text, and the tools that it asked for."""
    calls = [f"{call.name}({call.arguments_text or ''})" for call in answer.tool_calls]
    return " ".join([answer.final_text or "", *calls])


def error_of(effect: Effect) -> str:
    """Say the error with which an effect ended: its class and what it was made with."""
    seen = plainly(effect.error)
    if not isinstance(seen, dict) or "$exception" not in seen:
        return json.dumps(seen, ensure_ascii=False)
    said = ", ".join(str(part) for part in seen.get("args") or ())
    return f"{str(seen['$exception']).replace(':', '.')}: {said}"


def context_of(effects: list[Effect], log: EffectLog, mask: Mask) -> list[ContextPart]:
    """Return the parts of what the model saw in its last call, each with its origin."""
    last = next((effect for effect in reversed(effects) if request_of(effect) is not None), None)
    if last is None:
        return []
    request = request_of(last)
    assert request is not None
    known = list(sources(effects, log, before=last.at_ns))
    parts: list[ContextPart] = []
    for message in request.messages:
        if message.text is None:
            continue
        for text, origin, effect in carve(message.text, known, default=_default(message.role or "")):
            parts.append(
                ContextPart(
                    role=message.role or "", pointer=message.pointer, text=mask(text), origin=origin, effect=effect
                )
            )
    return parts


def _default(role: str) -> str:
    return {"system": "system prompt", "developer": "system prompt", "user": "the program"}.get(role, "the program")


def carve(text: str, known: Iterable[Source], *, default: str) -> list[tuple[str, str, int | None]]:
    """Cut a text into pieces by where each came from. The longest known text wins; the rest has the default origin."""
    whole = next((source for source in known if source.text == text), None)
    if whole is not None:
        return [(text, whole.origin, whole.effect)]
    pieces: list[tuple[str, str, int | None]] = [(text, default, None)]
    for source in sorted(known, key=lambda one: -len(one.text)):
        if len(source.text) < SHORTEST:
            continue
        for place, (piece, origin, _) in enumerate(pieces):
            at = piece.find(source.text) if origin == default else -1
            if at >= 0:
                cut = [
                    (piece[:at], default, None),
                    (source.text, source.origin, source.effect),
                    (piece[at + len(source.text) :], default, None),
                ]
                pieces[place : place + 1] = [one for one in cut if one[0]]
                break
    return pieces


def sources(effects: list[Effect], log: EffectLog, *, before: int) -> Iterable[Source]:
    """Yield every text that the program was given before a moment, with its origin."""
    for effect in effects:
        if effect.at_ns >= before:
            break
        yield from _given_by(effect)
    for fact in log.of(fr.OBSERVE):
        if fact.at_ns < before:
            said = fact.said
            yield Source(_as_text(said["value"]), f"observed {said['key']}", None)
    run = log.first(fr.RUN)
    for number, word in enumerate(run.get("argv", [])):
        yield Source(str(word), f"argv[{number}]", None)
    if log.streams[0]:
        yield Source(log.streams[0].decode("utf-8", "replace").strip(), "stdin", None)


def _given_by(effect: Effect) -> Iterable[Source]:
    if effect.kind == RETRIEVAL and effect.value:
        kept = plainly(effect.value)
        for entry in kept.get("entries", ()):
            yield Source(entry["text"], f"retrieval {effect.name}: entry {entry.get('id')}", effect.index)
        if "value" in kept:  # it returned something else than entries
            yield Source(_as_text(kept["value"]), f"retrieval {effect.name}", effect.index)
    elif effect.kind in (TOOL, EXTERNAL) and effect.value:
        yield Source(_as_text(plainly(effect.value)), f"{effect.kind} {effect.name}", effect.index)
    elif effect.kind == SUBPROCESS:
        yield Source(effect.output(1).decode("utf-8", "replace").strip(), f"program {effect.summary}", effect.index)
    elif effect.kind == HTTP:
        answered = answer_of(effect)
        if answered is not None:
            if answered.final_text:
                yield Source(answered.final_text, f"model answer of effect {effect.index}", effect.index)
            for call in answered.tool_calls:
                said = f"model's call of {call.name} in effect {effect.index}"
                yield Source(call.arguments_text or "", said, effect.index)
        else:
            yield Source(effect.answer.decode("utf-8", "replace"), f"answer of {effect.summary}", effect.index)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _stream(log: EffectLog, number: int, mask: Mask) -> str | Unavailable:
    if not any(fact.flags == 1 for fact in log.of(fr.ENDED)) and not log.streams[number]:
        return Unavailable(reason="not started by `tacho run`: its streams passed nobody")
    return mask(log.streams[number].decode("utf-8", "backslashreplace"))


def _facts(log: EffectLog, number: int, mask: Mask) -> dict[str, Any]:
    run = log.first(fr.RUN) or log.first(fr.PROCESS)
    opened = next((fact.said for fact in log.of(fr.OPEN) if fact.decision == number), {})
    kept = {name: run[name] for name in ("argv", "cwd", "hashSeed", "files") if name in run}
    said = {name: opened[name] for name in ("agent", "user", "session", "request") if opened.get(name) is not None}
    request = inbound_of(log, number) if number else None
    if request is not None:
        said["inbound"] = request
    return json.loads(mask(json.dumps({**kept, **said}, default=repr, ensure_ascii=False)))  # type: ignore[no-any-return]


def _grep(text: str, answer: ShowAnswer, effects: list[Effect], mask: Mask) -> Iterable[GrepHit]:
    """Yield where a text stood: in the context first, then in each answer, then where it first appears after that."""
    found = False
    if isinstance(answer.context, list):
        for part in answer.context:
            for line in part.text.split("\n"):
                if text in line:
                    found = True
                    yield GrepHit(
                        where=f"context, {part.role}: {part.origin}",
                        pointer=part.pointer,
                        effect=part.effect,
                        line=line,
                    )
    for effect in effects:
        answered = answer_of(effect)
        final = "" if answered is None else answered.final_text or ""
        if text in final:
            line = _line_of(final, text)
            where = "answer" if found else "first appears in the answer"
            yield GrepHit(where=f"{where} of effect {effect.index}", pointer="", effect=effect.index, line=mask(line))
            found = True
    if isinstance(answer.stdout, str) and text in answer.stdout:
        line = _line_of(answer.stdout, text)
        yield GrepHit(where="stdout" if found else "first appears in the output", pointer="", effect=None, line=line)


def _line_of(text: str, wanted: str) -> str:
    """The first line that holds the text; all of it where it runs over several. Only a line feed ends a line (R20)."""
    return next((line for line in text.split("\n") if wanted in line), text)

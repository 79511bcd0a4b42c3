"""`diff A B`: two captures, effect by effect, leaf by leaf.

Effects are paired by kind and endpoint in their order: the nth call of a kind to an endpoint with the nth of the other.
What matters: requests, answers, how each ended, outputs, stdout, exit status. Informational: durations, draws, response
headers that name one moment (dates, request ids), stderr.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tachograph.comparison.bodies import compare_bodies
from tachograph.comparison.headers import value_of
from tachograph.comparison.leaves import Leaf, as_json, first_difference
from tachograph.comparison.requests import Request, compare_requests
from tachograph.comparison.severity import severity_of
from tachograph.formats import frame as fr
from tachograph.formats.answers.diff import DiffAnswer
from tachograph.formats.answers.parts import DivergenceItem
from tachograph.intake.reading import Captured, plainly
from tachograph.model.effect import HTTP, SLEEP, Effect


def diff(original: Captured, other: Captured) -> DiffAnswer:
    """Compare two captures."""
    ours, theirs = original.effects, other.effects
    pairs, alone, added = _pair(ours, theirs)
    divergences = [item for mine, yours in pairs for item in _effect(mine, yours)]
    divergences += list(_ends(original, other))
    informational = [item for item in divergences if item.severity == "informational"]
    mattering = [item for item in divergences if item.severity != "informational"]
    return DiffAnswer(
        original=original.decision_id,
        other=other.decision_id,
        equal=not (mattering or alone or added),
        divergences=mattering,
        onlyInOriginal=[f"effect {effect.index}: {effect.summary}" for effect in alone],
        onlyInOther=[f"effect {effect.index}: {effect.summary}" for effect in added],
        informational=informational,
    )


def _key(effect: Effect) -> tuple[str, str, str]:
    if effect.kind == SLEEP:
        return effect.kind, effect.name, ":".join(effect.site[:2])
    return effect.kind, effect.method, effect.url or effect.name or effect.summary


def _pair(ours: list[Effect], theirs: list[Effect]) -> tuple[list[tuple[Effect, Effect]], list[Effect], list[Effect]]:
    waiting: dict[tuple[str, str, str], list[Effect]] = {}
    for effect in theirs:
        waiting.setdefault(_key(effect), []).append(effect)
    pairs, alone = [], []
    for effect in ours:
        queue = waiting.get(_key(effect))
        if queue:
            pairs.append((effect, queue.pop(0)))
        else:
            alone.append(effect)
    return pairs, alone, [effect for queue in waiting.values() for effect in queue]


def _item(at: str, original: Any, other: Any, effect: int) -> DivergenceItem:
    return DivergenceItem(path=at, original=original, replay=other, severity=severity_of(at), effect=effect)


def _leaf(at: str, leaf: Leaf, effect: int) -> DivergenceItem:
    return _item(f"{at}{leaf.path}", as_json(leaf.recorded), as_json(leaf.replayed), effect)


def _effect(mine: Effect, yours: Effect) -> Iterable[DivergenceItem]:
    at = f"/effects/{mine.index}"
    if mine.kind == HTTP:
        verdict = compare_requests(_request(mine), _request(yours))
        if verdict.first is not None:
            yield _leaf(f"{at}/request", verdict.first, mine.index)
        if mine.status != yours.status:
            yield _item(f"{at}/answer/status", mine.status, yours.status, mine.index)
        answers = compare_bodies(_media(mine), mine.answer, _media(yours), yours.answer)
        if answers.first is not None:
            yield _leaf(f"{at}/answer/body", answers.first, mine.index)
    else:
        for name, here, there in (("input", mine.inputs, yours.inputs), ("output", mine.value, yours.value)):
            if here != there:
                yield _item(f"{at}/{name}", plainly(here), plainly(there), mine.index)
        if mine.output(1) != yours.output(1):
            yield _item(f"{at}/stdout", _text(mine.output(1)), _text(yours.output(1)), mine.index)
        if mine.exit_status != yours.exit_status:
            yield _item(f"{at}/exitStatus", mine.exit_status, yours.exit_status, mine.index)
    if mine.seconds != yours.seconds:
        yield _item(f"{at}/seconds", mine.seconds, yours.seconds, mine.index)
    if mine.ended != yours.ended:
        yield _item(f"{at}/ended", mine.ended, yours.ended, mine.index)


def _request(effect: Effect) -> Request:
    return Request(HTTP, effect.method, effect.url, effect.headers, effect.body)


def _media(effect: Effect) -> str | None:
    found = value_of(effect.response_headers, b"content-type")
    return None if found is None else found.decode("latin-1")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _ends(original: Captured, other: Captured) -> Iterable[DivergenceItem]:
    if original.output != other.output:
        yield _item("/executionTrace/finalOutputText", original.output, other.output, 0)
    ours, theirs = original.ended, other.ended
    if ours is not None and theirs is not None:
        if ours["exitCode"] != theirs["exitCode"]:
            yield _item("/outcome/exitCode", ours["exitCode"], theirs["exitCode"], 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            here, there = original.log.streams[number], other.log.streams[number]
            leaf = first_difference(_text(here).split("\n"), _text(there).split("\n"))
            if leaf is not None:
                where = f"/outcome/{name}/lines{leaf.path}"
                yield _item(where, as_json(leaf.recorded), as_json(leaf.replayed), 0)
    if len(original.log.of(fr.OPEN)) != len(other.log.of(fr.OPEN)):
        yield _item("/decisions", len(original.log.of(fr.OPEN)), len(other.log.of(fr.OPEN)), 0)

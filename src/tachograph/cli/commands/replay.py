"""`tacho replay ID|--all [--cwd D] [--pace] [--junit F] [-- CMD...]`: run a decision again in a closed world."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from xml.sax.saxutils import escape, quoteattr

import typer

from tachograph.cli.options import JsonOption, StoreOption, harmless, open_, print_json, print_text, tell
from tachograph.errors import Refused, UsageError

if TYPE_CHECKING:
    from tachograph.formats.answers.parts import DivergenceItem
    from tachograph.formats.answers.replay import ReplayAnswer
    from tachograph.library import Store


def replay(
    context: typer.Context,
    decision: Annotated[
        str | None, typer.Argument(metavar="ID", help="A decision id, a unique prefix, or `last`.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay every decision (with --since: the newer ones).")] = False,
    since: Annotated[str | None, typer.Option(help="With --all: only since 30s, 15m, 6h, 2d, or a time.")] = None,
    cwd: Annotated[Path | None, typer.Option(help="Run in this folder instead of the recorded one.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Also write a JUnit report to this file.")] = None,
    alone: Annotated[
        bool, typer.Option("--alone", help="Only this decision: call its @agent function, or send its inbound request.")
    ] = False,
    pace: Annotated[bool, typer.Option("--pace", help="Wait as long as the recorded program did.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Let effects out for real: needs a grant.")] = False,
    confinement: Annotated[
        str, typer.Option(hidden=True, help="Leave a part of the world open: kernel, namespaces, landlock, python.")
    ] = "auto",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Run a decision again in a closed world and say what differs first."""
    if live:
        raise Refused("--live needs a grant, and grants are not built yet: only closed replays run", reason="no_grant")
    if every == (decision is not None):
        raise UsageError("name one decision (an id, a prefix, `last`), or say --all")
    opened = open_(store)
    command = list(context.args) or None
    if command and command[0] == "--":
        command = command[1:]
    if decision is not None:
        answer = opened.replay(decision, cwd=cwd, command=command, alone=alone, pace=pace, confinement=confinement)
        if json:
            print_json(answer)
        else:
            print_text(as_text(answer))
        if junit is not None:
            junit.write_text(as_junit([answer], []))
        sys.exit(exit_code(answer))
    _all(opened, since=since, cwd=cwd, pace=pace, junit=junit, as_json=json)


def _all(
    opened: Store, *, since: str | None, cwd: Path | None, pace: bool, junit: Path | None, as_json: bool,
) -> None:  # fmt: skip
    from datetime import UTC, datetime

    from tachograph.cli.commands.ls import since_when

    moment = None if since is None else since_when(since, datetime.now(UTC))
    answers: list[ReplayAnswer] = []
    refusals: list[tuple[str, str]] = []
    for row in opened.decisions(since=moment, limit=1_000_000):
        try:
            answer = opened.replay(row.decisionId, cwd=cwd, pace=pace)
        except Refused as fault:
            refusals.append((row.decisionId, f"{fault.reason}: {fault}"))
            tell(f"{row.decisionId}  refused    {fault.reason}")
            continue
        answers.append(answer)
        tell(f"{row.decisionId}  {'equivalent' if answer.equivalent else 'DIFFERENT'}")
    if junit is not None:
        junit.write_text(as_junit(answers, refusals))
    if as_json:
        print_json(answers)
    else:
        same = sum(answer.equivalent for answer in answers)
        print_text(f"{same} equivalent, {len(answers) - same} different, {len(refusals)} refused")
    sys.exit(0 if all(answer.equivalent for answer in answers) and not refusals else 1)


def exit_code(answer: ReplayAnswer) -> int:
    """0 equivalent, 5 if anything went out, 1 otherwise."""
    return 5 if answer.liveEffects else 0 if answer.equivalent else 1


def as_text(answer: ReplayAnswer) -> str:
    """The answer for a person: the verdict first, then the first difference with both sides, then the rest."""
    world = f"{answer.confinement.network} network, {answer.liveEffects} live effects"
    served = f"{answer.served} effect{'' if answer.served == 1 else 's'}"
    if answer.equivalent:
        lines = [f"equivalent: {served} served from the record, {world}"]
    else:
        lines = [f"NOT equivalent ({served} served from the record, {world})"]
    for item in answer.divergences[:1]:
        lines += ["", f"first difference: {item.path}", *sides(item)]
    rest = answer.divergences[1:]
    if rest:
        lines.append("")
        lines += [f"  then {'(consequence) ' if item.consequence else ''}{item.path}" for item in rest[:20]]
        lines += [f"  and {len(rest) - 20} more"] if len(rest) > 20 else []
    for one in answer.unconsumed[:10]:
        lines.append(f"  never asked for: effect {one.effect}, {harmless(one.summary)}")
    for attempt in answer.attempts[:10]:
        lines.append(f"  tried to get out: {attempt.what} {harmless(attempt.where)}, stopped by {attempt.stoppedBy}")
    for changed in answer.inputsChanged[:10]:
        lines.append(f"  changed since the recording: {changed['path']} ({changed['what']})")
    for drift in answer.drift[:5]:
        lines.append(f"  drift: {drift.get('kind')} {drift.get('what')} {drift.get('site', '')}")
    if answer.outcome.endedBy:
        lines.append(f"  ended by us: {answer.outcome.endedBy}")
    lines += [f"  note: {note}" for note in answer.notes]
    return "\n".join(lines)


def sides(item: DivergenceItem, names: tuple[str, str] = ("recorded", "replayed")) -> list[str]:
    """Both values of a differing leaf, each around the place where they differ."""
    one, other = _clip(item.original, item.replay), _clip(item.replay, item.original)
    return [f"  {names[0]}: {one}", f"  {names[1]}: {other}"]


def _clip(value: object, other: object) -> str:
    """Show a text around the place where it differs from the other one; of what JSON has no word for, what it says."""
    if isinstance(value, dict):
        value, other = value.get("text", value.get("number", value)), None
        value = "(absent)" if value == {"absent": True} else value
    if not isinstance(value, str):
        return harmless(repr(value))
    if isinstance(other, str) and len(value) > 200:
        same = next(
            (at for at, (a, b) in enumerate(zip(value, other, strict=False)) if a != b), min(len(value), len(other))
        )
        start = max(0, same - 60)
        value = ("..." if start else "") + value[start : start + 180] + ("..." if start + 180 < len(value) else "")
    return harmless(value).replace("\n", "\\n")


def as_junit(answers: list[ReplayAnswer], refusals: list[tuple[str, str]]) -> str:
    """Write a JUnit report: a test case per decision; a difference is a failure, a refusal an error."""
    cases = []
    for answer in answers:
        name = quoteattr(answer.decisionId)
        if answer.equivalent:
            cases.append(f'  <testcase classname="tachograph.replay" name={name}/>')
        else:
            first = answer.divergences[0].path if answer.divergences else "not equivalent"
            text = escape(as_text(answer))
            cases.append(
                f'  <testcase classname="tachograph.replay" name={name}>'
                f"<failure message={quoteattr(first)}>{text}</failure></testcase>"
            )
    for decision, reason in refusals:
        cases.append(
            f'  <testcase classname="tachograph.replay" name={quoteattr(decision)}>'
            f"<error message={quoteattr(reason)}/></testcase>"
        )
    different = sum(not answer.equivalent for answer in answers)
    head = f'<testsuite name="tacho replay" tests="{len(cases)}" failures="{different}" errors="{len(refusals)}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>", ""])

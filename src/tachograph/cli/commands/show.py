"""`tacho show ID [--context|--effect N|--bytes N|--grep TEXT]`: one decision, as closely as one wants to look."""

from __future__ import annotations

import json as jsonlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tachograph.cli.options import IdArgument, JsonOption, StoreOption, harmless, open_, print_json, print_text
from tachograph.errors import UsageError
from tachograph.formats.answers.parts import Unavailable

if TYPE_CHECKING:
    from tachograph.formats.answers.show import EffectItem, ShowAnswer

_WIDTH = 110


def show(
    decision: IdArgument,
    context: Annotated[
        bool, typer.Option("--context", help="What the model saw last, each part with its origin.")
    ] = False,
    effect: Annotated[
        int | None, typer.Option(min=1, help="One effect: request, answer, headers, how it ended.")
    ] = None,
    raw: Annotated[int | None, typer.Option("--bytes", min=1, help="The exact answer bytes of one effect.")] = None,
    request: Annotated[bool, typer.Option("--request", help="With --bytes: the request's instead.")] = False,
    document: Annotated[bool, typer.Option("--document", help="The sealed replay/v1 document.")] = False,
    grep: Annotated[
        str | None, typer.Option(help="Where a text stood in the context, or where it first appears.")
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show one decision."""
    if sum((context, effect is not None, raw is not None, document, grep is not None)) > 1:
        raise UsageError("one of --context, --effect, --bytes, --document and --grep at a time")
    opened = open_(store)
    if document:
        print_text(jsonlib.dumps(opened.document(decision), indent=2, ensure_ascii=False))
        return
    if raw is not None:
        sys.stdout.buffer.write(opened.bytes(decision, raw, side="request" if request else "answer"))
        return
    if effect is not None:
        detail = opened.effect(decision, effect)
        print_text(jsonlib.dumps(detail, indent=2, ensure_ascii=False) if json else as_detail(detail))
        return
    answer = opened.show(decision, grep=grep)
    if json:
        print_json(answer)
    elif grep is not None:
        hits = answer.grep or []
        print_text("\n".join(f"{hit.where}: {harmless(hit.line.strip())}" for hit in hits) or "not found")
        sys.exit(0 if hits else 1)
    else:
        print_text(as_context(answer) if context else as_timeline(answer))


def as_timeline(answer: ShowAnswer) -> str:
    """The decision as a person reads it first: what it was, what it did in order, how it ended."""
    row = answer.decision
    head = [
        f"{row.decisionId}  {row.capturedAt}  agent {row.agentId}"
        + (f"  FAILED ({row.failure})" if row.failed else ""),
        f"  {harmless(row.title)[:_WIDTH]}",
        *(
            [f"  inbound request: {harmless(_inbound(request))[:_WIDTH]}"]
            if (request := answer.facts.get("inbound"))
            else []
        ),
        "",
    ]
    lines = head + [_line(one) for one in answer.timeline]
    if answer.draws:
        lines.append(f"  and {answer.draws} draws from clock and chance")
    lines.append("")
    if not isinstance(answer.output, Unavailable):
        lines.append(f"output: {harmless(answer.output)[:2000]}")
    if row.exitCode is not None:
        lines.append(f"exit status {row.exitCode}")
    for name, stream in (("stdout", answer.stdout), ("stderr", answer.stderr)):
        if not isinstance(stream, Unavailable) and stream:
            lines += [f"{name}:", *(f"  {harmless(one)}" for one in stream.splitlines()[:40])]
    lines += [f"DAMAGED: {word}" for word in answer.damage]
    lines += [f"bypassed the recorder: {one['what']}: {harmless(one['detail'])}" for one in answer.coverage["bypassed"]]
    lines += [f"ends early: {word}" for word in answer.coverage.get("tails", [])]
    return "\n".join(lines)


def _inbound(said: dict[str, str]) -> str:
    what = f"{said['method']} {said['target']}" if "method" in said else "not kept"
    return f"{what} (not to be sent again: {said['why']})" if "why" in said else what


def _line(one: EffectItem) -> str:
    took = "   ...   " if one.durationMs is None else f"{one.durationMs:7.0f} ms"
    what = f"{one.kind} {one.model or ''}".strip()
    status = f" {one.status}" if one.status is not None else ""
    end = "" if one.ended in ("eof", "returned", "exited") else f" [{one.ended}]"
    inside = "  " if one.parent else ""
    text = harmless(one.summary)
    more = f" {one.error}" if one.error else ""
    more += f"\n      -> {harmless(one.answered)[:_WIDTH]}" if one.answered else ""
    return f"  {one.effect:>3} {inside}+{one.startedMs:8.0f} ms {took}  {what:<24}{status}{end}  {text[:_WIDTH]}{more}"


def as_context(answer: ShowAnswer) -> str:
    """What the model saw in its last call, part by part, each with where it came from."""
    if isinstance(answer.context, Unavailable):
        return answer.context.reason
    lines: list[str] = []
    for part in answer.context:
        where = f" (effect {part.effect})" if part.effect else ""
        lines += [
            f"[{part.role}] {part.pointer}  <- {part.origin}{where}",
            *(f"    {harmless(one)}" for one in part.text.splitlines()),
        ]
    return "\n".join(lines)


def as_detail(detail: dict[str, Any]) -> str:
    """One effect in full."""
    lines = [f"effect {detail['effect']}  {detail['kind']}  path {detail['path']}  ended: {detail['ended']}", ""]
    for title in ("request", "answer"):
        side = detail[title]
        lines.append(f"{title}: {harmless(str(side.get('line', '')))}")
        lines += [f"  {harmless(name)}: {harmless(value)}" for name, value in side.get("headers", [])]
        body = side.get("body", "")
        lines += ["", *(f"  {harmless(one)}" for one in body.splitlines()), ""]
    if detail["chunks"]:
        sizes = ", ".join(f"{one['bytes']} at +{one['ms']} ms" for one in detail["chunks"][:30])
        lines.append(f"{len(detail['chunks'])} chunks: {sizes}")
    return "\n".join(lines)

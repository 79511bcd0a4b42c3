"""`tacho verify ID... | FILE.tacho | --all`: what of a capture a stranger could check, each check by name."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from tachograph.cli.options import JsonOption, StoreOption, harmless, open_, print_json, print_text
from tachograph.errors import UsageError
from tachograph.formats.answers.verify import Checks, VerifyAnswer
from tachograph.library.bundles import verify_bundle
from tachograph.library.verifying import REQUIRABLE

_SIGNS = {"ok": "ok", "failed": "FAILED", "not_checked": "not checked"}
_MOST_PLACES = 20
BUNDLE = ".tacho"


def verify(
    decisions: Annotated[list[str] | None, typer.Argument(help="Decision ids, or one FILE.tacho.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every record of the store.")] = False,
    trust: Annotated[
        list[str] | None, typer.Option("--trust", help="A signer that you know: a did:key, or a file with keys.")
    ] = None,
    require: Annotated[
        str, typer.Option("--require", help="Checks that must be ok: identity,time,anchor.", metavar="CHECKS")
    ] = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Check captures; exit 0 only if nothing failed."""
    wanted = [name for name in require.split(",") if name]
    if bool(decisions) == all_:
        raise UsageError("name decisions, or --all")
    if not set(wanted) <= set(REQUIRABLE):
        raise UsageError(f"--require takes {', '.join(REQUIRABLE)}, not {require!r}")
    files = [one for one in decisions or () if one.endswith(BUNDLE) or os.sep in one]
    if (files and len(files) != len(decisions or ())) or len(files) > 1:
        raise UsageError("one bundle at a time, and no decisions of a store beside it")
    if files:
        try:
            answer = verify_bundle(files[0], trust=trust or ())
        except OSError as fault:
            raise UsageError(f"{files[0]} cannot be read: {fault.strerror or fault}") from None
    else:
        answer = open_(store).verify(*(decisions or ()), trust=trust or ())
    if json:
        print_json(answer)
    else:
        print_text("\n".join(as_text(answer)))
    missed = any(
        getattr(one.checks, name).state == "not_checked" for one in answer.captures for name in wanted
    )  # fmt: skip
    sys.exit(1 if answer.failed or missed else 0)


def as_text(answer: VerifyAnswer) -> list[str]:
    """One block per capture; whose signature it is stands first."""
    lines: list[str] = []
    for one in answer.captures:
        lines.append(one.decisionId)
        for name in Checks.model_fields:
            check = getattr(one.checks, name)
            said = f": {harmless(check.reason)}" if check.reason else ""
            place = f" at {harmless(check.at)}" if check.at else ""
            lines.append(f"  {name:<12} {_SIGNS[check.state]}{said}{place}")
        items = one.checks.content.items
        counts: dict[str, int] = {}
        for state in items.values():
            counts[state] = counts.get(state, 0) + 1
        if counts:
            lines.append("    " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
        wrong = [pointer for pointer, state in items.items() if state in ("mismatch", "missing")]
        lines += [f"    {items[pointer]} {harmless(pointer)}" for pointer in wrong[:_MOST_PLACES]]
        lines.append("")
    lines += [f"FAILED {harmless(fault)}" for fault in answer.faults]
    lines.append(f"{len(answer.captures)} captures, {answer.failed} checks failed")
    return lines

"""`tacho ls`: decisions, newest first."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tachograph.cli.options import JsonOption, StoreOption, harmless, open_, print_json, print_text, tell
from tachograph.errors import UsageError

if TYPE_CHECKING:
    from tachograph.formats.answers.ls import DecisionRow

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def since_when(text: str, now: datetime) -> datetime:
    """Read `6h`, `30m`, `2d` or an RFC 3339 time. Raises UsageError for anything else."""
    found = re.fullmatch(r"(\d+)([smhd])", text)
    if found:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--since takes 30s, 15m, 6h, 2d or a time such as 2026-01-31T08:00:00Z, not {text!r}"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def ls(
    failed: Annotated[bool, typer.Option("--failed", help="Only decisions that failed.")] = False,
    agent: Annotated[str | None, typer.Option(help="Only of this agent.")] = None,
    user: Annotated[str | None, typer.Option(help="Only of this user id.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session id.")] = None,
    since: Annotated[str | None, typer.Option(help="Only since: 30s, 15m, 6h, 2d, or a time.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only that used this tool.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only with this text in context, answers or output.")] = None,
    number: Annotated[int, typer.Option("-n", min=1, help="At most so many.")] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List decisions, newest first."""
    moment = None if since is None else since_when(since, datetime.now(UTC))
    rows = open_(store).decisions(
        failed=failed, agent=agent, user=user, session=session, since=moment, tool=tool, grep=grep, limit=number
    )
    if json:
        print_json(rows)
    elif rows:
        print_text("\n".join(["  DECISION                        WHEN (UTC)           EFFECTS  STOP        TITLE",
                              *(line(row) for row in rows)]))  # fmt: skip
    else:
        chosen = failed or any(one is not None for one in (agent, user, session, since, tool, grep))
        tell("no decision fits" if chosen else "no decisions here yet: record one with `tacho run -- python agent.py`")


def line(row: DecisionRow) -> str:
    """One decision as one line: `!` in front of a failed one."""
    mark = "!" if row.failed else " "
    stop = row.failure if row.failed and row.failure else (row.stopReason or "-")
    when = row.capturedAt[:19].replace("T", " ")
    calls = f"{row.effects}" + (f" ({row.modelCalls} llm)" if row.modelCalls else "")
    return f"{mark} {row.decisionId}  {when}  {calls:<8} {stop[:11]:<11} {harmless(row.title)[:60]}"

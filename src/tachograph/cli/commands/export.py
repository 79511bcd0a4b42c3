"""`tacho export ID... -o FILE.tacho --scope operator`: captures for a stranger, with all that checking them takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tachograph.cli.options import StoreOption, open_, tell
from tachograph.errors import Refused, UsageError
from tachograph.library.exporting import SCOPES


def export(
    decisions: Annotated[list[str], typer.Argument(help="Decision ids, unique prefixes, or `last`.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write; it must not exist yet.")],
    scope: Annotated[str, typer.Option("--scope", help="For whom: operator, regulator or counterparty.")],
    withhold: Annotated[list[str] | None, typer.Option("--withhold", help="A pointer to leave out.")] = None,
    range_: Annotated[str | None, typer.Option("--range", help="Also every payload between two.")] = None,
    store: StoreOption = None,
) -> None:
    """Write a bundle of captures."""
    if scope not in SCOPES:
        raise UsageError(f"--scope is one of {', '.join(SCOPES)}, not {scope!r}")
    if withhold or range_:
        raise Refused("--withhold and --range are not built yet", reason="not_built")
    if output.exists():
        raise UsageError(f"{output} is there already; name a new file")
    made = open_(store).export(*decisions, scope=scope)
    with open(output, "xb") as file:
        file.write(made.data)
    for decision, pointer, reason in made.withheld:
        tell(f"withheld ({reason}): {decision} {pointer}")
    tell(f"{output}: {len(decisions)} captures, {len(made.data)} bytes")

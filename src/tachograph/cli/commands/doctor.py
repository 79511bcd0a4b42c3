"""`tacho doctor`: what will be seen here, what not, which confinement holds, how the store is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tachograph.cli.options import JsonOption, StoreOption, print_json, print_text
from tachograph.errors import Refused
from tachograph.library import Store, doctor_of


def doctor(
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build the catalogue anew from the journal.")] = False,
    adopt: Annotated[bool, typer.Option("--adopt", help="Adopt a moved store (not built yet).")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Look at this machine and store and say what a recording here will see."""
    if adopt:
        raise Refused(
            "--adopt is not built yet: a store that is older than its anchor is only read from", reason="not_built"
        )
    if rebuild:
        Store(store).rebuild()
    answer = doctor_of(store)
    if json:
        print_json(answer)
    else:
        lines = [f"tachograph {answer.version}, Python {answer.python}", "", "seen here:"]
        lines += [
            f"  {'yes' if s.watched else 'NO '}  {s.name} {s.installed or '(not installed)'}: {s.how}"
            for s in answer.seams
        ]
        lines += ["", "not seen:", *(f"  {one}" for one in answer.notSeen)]
        lines += ["", "not reproducible:", *(f"  {one}" for one in answer.notReproducible)]
        lines += ["", "confinement of a replay:", *(f"  {name}: {how}" for name, how in answer.confinement.items())]
        lines += ["", "store:", *(f"  {name}: {value}" for name, value in answer.store.items())]
        lines += [f"  left in the spool: {one}" for one in answer.leftovers]
        lines += ["", *(f"PROBLEM: {one}" for one in answer.problems)] if answer.problems else []
        print_text("\n".join(lines))
    sys.exit(4 if any("damaged" in one for one in answer.problems) else 0)

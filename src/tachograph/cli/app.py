"""The typer application: every verb but `run`, which must start faster than typer imports."""

from __future__ import annotations

from typing import Any

import typer

from tachograph.cli.commands import demo, diff, doctor, export, ls, model, replay, show, verify
from tachograph.errors import UsageError

app = typer.Typer(
    name="tacho",
    help="Find the input that made your agent fail. Prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root() -> None:
    """Find the input that made your agent fail. Prove it."""


@app.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    help="Run a program under capture: tacho run [--agent ID] [--require-capture] [--] CMD...",
)
def _run() -> None:
    """Listed for `--help`; `cli.main` recognises it before typer is imported."""


app.command("ls", help="List decisions, newest first.")(ls.ls)
app.command("show", help="Show one decision: timeline, context with origins, raw bytes.")(show.show)
app.command(
    "replay",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    help="Run a decision again in a closed world and say what differs first.",
)(replay.replay)
app.command("diff", help="Compare two decisions leaf by leaf.")(diff.diff)
app.command("verify", help="Check captures: signature, log, content, each check by name.")(verify.verify)
app.command("export", help="Pack captures with all that a stranger needs to check them.")(export.export)
app.command("doctor", help="Say what will be seen here, what not, and how the store is.")(doctor.doctor)
app.command("demo", help="The whole story on a real small model.")(demo.demo)
app.add_typer(model.app, name="model")

# typer carries a click of its own and exports only this one of its faults; all of them have this base.
_UsageFault: Any = typer.BadParameter.__mro__[2]


def call(words: list[str]) -> int:
    """Run a verb and return its exit status; without words, print the help and return 2.

    Raises UsageError for words that are off, KeyboardInterrupt.
    """
    if not words:
        words = ["--help"]
        status = 2
    else:
        status = 0
    try:
        return int(typer.main.get_command(app).main(args=words, prog_name="tacho", standalone_mode=False) or status)
    except typer.Exit as left:
        return int(left.exit_code)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _UsageFault as fault:
        raise UsageError(fault.format_message()) from fault

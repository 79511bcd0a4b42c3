"""The `tacho` command: finds the verb, and imports no more than that verb needs.

`tacho run` must start a program within a quarter of a second, so it is recognised before anything else is imported; all
other verbs go through typer. Errors become one line on stderr (or one JSON document, with `--json`) and an exit code:
0 answered or equivalent, 1 divergence or failed verification, 2 usage, 3 refused, 4 damaged store, 5 an effect went out
that should not have, 6 undecided, 130 interrupted. `run` exits as the program did.
"""

from __future__ import annotations

import io
import sys
from typing import NoReturn

from tachograph.errors import TachographError


def entry() -> NoReturn:
    """Run the command line of this process and exit."""
    words = sys.argv[1:]
    _never_without_streams()
    try:
        if words[:1] == ["run"]:
            from tachograph.cli.commands.run import run

            run(words[1:])
        from tachograph.cli.app import call

        sys.exit(call(words))
    except TachographError as fault:
        fail(fault, as_json="--json" in words)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: nothing is left to say
        sys.exit(0)


def _never_without_streams() -> None:
    """Where we were started with a standard stream closed, what we write to it goes nowhere instead of raising."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, io.StringIO())  # no file: it would take the number of the closed stream


def fail(fault: TachographError, *, as_json: bool) -> NoReturn:
    """Print an error where it belongs and exit with its code."""
    if as_json:
        import json

        said = {"error": {"code": fault.code, "message": str(fault), "reason": getattr(fault, "reason", fault.code)}}
        sys.stdout.write(json.dumps(said) + "\n")
    else:
        sys.stderr.write(f"tacho: {fault}\n")
    sys.exit(fault.exit_code)

"""`tachograph.install()`: record a process that was not started by `tacho run`.

Its first frames say how it was started, so that a replay can start it again; its standard streams pass nobody, so a
replay cannot compare what it wrote. What it leaves in the spool, the next `tacho` command takes in.
"""

from __future__ import annotations

import os
import sys

from tachograph.capture.around import at_once
from tachograph.capture.facts import environment_facts, new_run_id, newest_checkpoint, read_key
from tachograph.capture.install import process_facts, record
from tachograph.errors import TachographError
from tachograph.store.keyring import TAG
from tachograph.store.location import find_store, open_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def begin(*, store: str | None, agent: str | None) -> None:
    """Start recording; where it cannot, say so on stderr and let the program go on (or raise, with TACHO_REQUIRE)."""
    require = bool(os.environ.get("TACHO_REQUIRE"))
    try:
        folder = open_store(find_store(os.getcwd(), store, environ=os.environ), create=True, environ=os.environ)
        tags = folder.keyring(os.environ).path(TAG)
        facts: dict[str, Any] = {
            **process_facts(), **environment_facts(os.environ, tag_key=read_key(tags)), "cwd": os.getcwd(),
            "agent": agent, "after": newest_checkpoint(folder.spool),
            "around": at_once(sys.orig_argv, os.getcwd(), os.environ, path=sys.path),
        }  # fmt: skip
        record(
            folder=folder.spool, run_id=new_run_id(), public=folder.intake_public_key,
            tag_file=tags, require=require, facts=facts,
        )  # fmt: skip
    except (OSError, TachographError) as fault:
        if require:
            raise
        if sys.stderr is not None:  # the process was started with it closed
            sys.stderr.write(f"tachograph: this process is not recorded ({fault}); it goes on\n")

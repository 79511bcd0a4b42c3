"""`tacho run [--agent ID] [--require-capture] [--store DIR] [--] CMD...`: run a program under capture.

Parsed by hand, so that the program starts at once. Exits as the program did; our own one line appears on a terminal or
when something failed, and never with TACHO_QUIET=1.
"""

from __future__ import annotations

import os
import sys

from tachograph.errors import Refused, TachographError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tachograph.store.location import StoreFolder

USAGE = """usage: tacho run [--agent ID] [--require-capture] [--store DIR] [--] CMD...

Run a program under capture: what it asks of models and tools, what came back, what it drew from clock and chance, and
what it wrote. The program is not changed and exits as it would have.

  --agent ID          the agent's name in lists (default: derived from the entry point)
  --require-capture   stop the program if it cannot be recorded (default: it goes on, and the gap is named)
  --store DIR         the store (default: TACHO_STORE, else .tachograph found upwards from here)
"""


def run(words: list[str]) -> None:
    """Parse the words after `run`, run the program, take the run in, and exit as the program did."""
    from tachograph.capture import launch
    from tachograph.store.keyring import TAG
    from tachograph.store.location import find_store, open_store
    from tachograph.supervision.supervisor import exit_like

    options, command = parse(words)
    require = bool(options.get("require") or os.environ.get("TACHO_REQUIRE"))
    try:
        store = open_store(
            find_store(os.getcwd(), options.get("store"), environ=os.environ), create=True, environ=os.environ
        )
        keyring = store.keyring(os.environ)
        tags = keyring.path(TAG) if keyring.tag else ""  # read, so that a missing one is known before the start
    except (OSError, TachographError) as fault:
        if require:
            raise Refused(f"capture is required and not possible: {fault}", reason="no_capture") from fault
        _say(f"this run is not recorded ({fault}); the program goes on", failed=True)
        exit_like(launch.launch_unrecorded(command))
    ending = launch.launch(command, store=store, tag_file=tags, agent=options.get("agent"), require=require)
    _take_in(store)
    exit_like(ending)


def parse(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Split our options from the program's words. Raises UsageError naming the first word that is neither."""
    options: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in ("-h", "--help"):
            sys.stdout.write(USAGE)
            sys.exit(0)
        if word == "--require-capture":
            options["require"] = "1"
        elif word in ("--agent", "--store"):
            at += 1
            if at >= len(words):
                raise UsageError(f"{word} needs a value\n{USAGE}")
            options[word[2:]] = words[at]
        elif word.startswith(("--agent=", "--store=")):
            name, _, value = word[2:].partition("=")
            options[name] = value
        elif word.startswith("-"):
            raise UsageError(f"tacho run knows no option {word!r}; put `--` before the program's own\n{USAGE}")
        else:
            break
        at += 1
    if at >= len(words):
        raise UsageError(f"no program given\n{USAGE}")
    return options, words[at:]


def _take_in(store: StoreFolder) -> None:
    """Seal what the run left in the spool; a fault here is said and never becomes the program's exit status."""
    from tachograph.store.spool import first_gap

    try:
        from tachograph import library  # here: after the program has ended, its import costs the agent nothing

        opened = library.Store(store.path)
        taken = opened.take_in()
        for word in opened.warnings:
            _say(word, failed=True)
        for one in taken:
            _say(f"recorded {one}", failed=False)
    except Exception as fault:  # noqa: BLE001 - the program's edge: whatever fails here, its exit status stays its own
        if isinstance(fault, OSError) and first_gap(store.spool, "run_"):
            return  # the disk is full, and the recorder has said so
        _say(f"the run is in the spool and not sealed yet ({fault}); the next tacho command tries again", failed=True)


def _say(text: str, *, failed: bool) -> None:
    if not os.environ.get("TACHO_QUIET") and (failed or sys.stderr.isatty()):
        sys.stderr.write(f"tachograph: {text}\n")
        sys.stderr.flush()

"""Options that several verbs share, and how an answer leaves: one JSON document, or text."""

from __future__ import annotations

import errno
import json
import sys
from typing import Annotated, Any

import typer

from tachograph.errors import DamagedStore
from tachograph.library import Store

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)

StoreOption = Annotated[
    str | None, typer.Option("--store", help="The store (default: TACHO_STORE, else .tachograph found upwards).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
IdArgument = Annotated[str, typer.Argument(help="A decision id, a unique prefix of one, or `last`.")]


def open_(store: str | None) -> Store:
    """Open the store that was named or is found from here, and take in what runs have left in its spool."""
    opened = Store(store)
    try:
        taken = opened.take_in()
        for word in opened.warnings:
            tell(word)
        for one in taken:
            tell(f"took in {one} from the spool")
        for word in opened.left:
            tell(word)
    except OSError as fault:
        if fault.errno not in _NO_ROOM:  # a failed sync: nobody knows what the disk holds (capture-v1 rule 5)
            raise DamagedStore(f"{opened.path}: sealing stopped ({fault}); what waits in the spool is kept") from fault
        tell(f"what waits in the spool is not taken in ({fault.strerror}); what is sealed can be read")
    return opened


def tell(text: str) -> None:
    """Say something to the person; never on stdout, so that an answer can be piped."""
    sys.stderr.write(text + "\n")


def print_json(answer: Any) -> None:
    """Print an answer (a model or a list of models) as one JSON document."""
    if isinstance(answer, list):
        document: Any = [one.model_dump(mode="json") for one in answer]
    else:
        document = answer.model_dump(mode="json")
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_text(text: str) -> None:
    """Print text for a person. What a capture holds is escaped first: it must not drive the terminal."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def harmless(text: str) -> str:
    """Return text without control characters other than line ends and tabs: each stands as its escape."""
    return "".join(c if c in "\n\t" or (c.isprintable()) else c.encode("unicode_escape").decode() for c in text)

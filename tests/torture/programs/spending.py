"""Writes lines to stdout and stderr, makes effects in between, and ends with a status of its own.

`spending.py COUNT [fork]`; with `fork` a child does the same first. Each effect's value is 8 KiB that no compression
makes smaller, so that a small disk is soon full.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time

import tachograph


def incompressible(number: int) -> str:
    """8,192 characters, always the same for a number."""
    return hashlib.shake_256(b"%d" % number).hexdigest(4096)


def spend() -> None:
    """The effects."""
    for each in range(int(sys.argv[1])):
        got = tachograph.external(f"stock-{each}", lambda number=each: incompressible(number))
        print("effect", each, hashlib.sha256(got.encode()).hexdigest(), flush=True)


if "fork" in sys.argv:
    child = os.fork()
    if not child:
        spend()
        os._exit(0)
    os.waitpid(child, 0)
    time.sleep(0.05)  # longer than a file system's clock ticks
spend()
sys.stderr.write("its own last words\n")
sys.exit(7)

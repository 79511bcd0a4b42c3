"""`python -m bench [NAME...]`: run the measurements and print one line each; exit 1 if a bound does not hold."""

from __future__ import annotations

import importlib
import json
import sys

ALL = ("startup", "hotpath", "rebuild", "replaying", "storage", "sizes", "demo")


def main(names: list[str]) -> int:
    """Run the named measurements (all if none) and return the exit status."""
    missed = 0
    for name in names or ALL:
        module = importlib.import_module(f"bench.{name}")
        for result in module.run():
            missed += not result["met"]
            print(json.dumps(result), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

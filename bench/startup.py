"""Row 1: what recording costs at start-up.

`python -c 'import tachograph; tachograph.install()'` against `python -c pass` (median of 11), and
`tacho run -- python -c pass` until the program's exit.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from bench.measure import environment, interleaved, median_ms, row, timed_process

INSTALL = "import tachograph; tachograph.install()"
HEAVY = ("pydantic", "sqlite3", "typer", "rich", "rfc8785", "zstandard", "httpx")
# The child leaves the moment of its exit; what `tacho run` does afterwards (sealing) is not the program's waiting time.
STAMP = "import time,sys; open(sys.argv[1],'w').write(repr(time.time()))"


def run() -> list[dict[str, Any]]:
    """Measure both bounds."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(XDG_CONFIG_HOME=f"{folder}/config", TACHO_STORE=f"{folder}/store")
        python = sys.executable
        plain, installed = interleaved(
            11,
            lambda: timed_process([python, "-c", "pass"], environment=env),
            lambda: timed_process([python, "-c", INSTALL], environment=env),
        )
        check = f"{INSTALL}; import sys; sys.exit(any(name in sys.modules for name in {HEAVY!r}))"
        timed_process([python, "-c", check], environment=env)
        tacho = [python, "-m", "tachograph", "run", "--"]
        bare, watched = interleaved(11, lambda: _until_exit([], env, folder), lambda: _until_exit(tacho, env, folder))
        ratio, added = median_ms(installed) / median_ms(plain), median_ms(watched) - median_ms(bare)
        return [
            row(1, "install() against python -c pass", value=median_ms(installed), unit="ms",
                baseline=median_ms(plain), reach="<= 5x", met=ratio <= 5),
            row(1, "tacho run until the program's exit, added", value=added, unit="ms", baseline=median_ms(bare),
                reach="<= 250 ms", met=added <= 250),
        ]  # fmt: skip


def _until_exit(prefix: list[str], env: dict[str, str], folder: str) -> float:
    import time

    stamp = f"{folder}/stamp"
    began = time.time()
    timed_process([*prefix, sys.executable, "-c", STAMP, stamp], environment=env)
    with open(stamp) as file:
        return float(file.read()) - began


if __name__ == "__main__":
    for result in run():
        print(result)

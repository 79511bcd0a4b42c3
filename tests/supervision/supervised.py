"""A process that runs a program under the supervisor, for tests: `python supervised.py REPORT CMD...`.

What the watcher saw is appended to the file REPORT, one line each, before anything is passed on: a name and the bytes
as Python writes them. The last line is the ending. Then this process ends as the program did.
"""

from __future__ import annotations

import os
import sys

from tachograph.supervision.supervisor import Ending, exit_like, look, plug, supervise


class Reporter:
    """Writes down what it sees, at once."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _line(self, name: str, what: object) -> None:
        os.write(self._fd, f"{name} {what!r}\n".encode())

    def wrote(self, stream: str, data: bytes) -> None:
        self._line(stream, data)

    def read(self, data: bytes) -> None:
        self._line("stdin", data)

    def started(self, pid: int) -> None:
        self._line("started", pid)

    def ended(self, ending: Ending) -> None:
        self._line("ending", tuple(ending))


def main() -> None:
    kinds = look()
    plug(kinds)
    reporter = Reporter(sys.argv[1])
    ending = supervise(sys.argv[2:], env=os.environ, kinds=kinds, watcher=reporter)
    reporter.ended(ending)
    exit_like(ending)


if __name__ == "__main__":
    main()

"""A program with streams of its own: `voicing.py WHAT`. Ends with a status or by a signal of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import time


def bytes_of_every_value() -> None:
    """All byte values on both streams, no line end at the end."""
    for _ in range(3):
        os.write(1, bytes(range(256)) * 5)
        os.write(2, bytes(reversed(range(256))))
    os.write(1, b"no line end")


def much() -> None:
    """Five megabytes that no pipe holds."""
    block = hashlib.shake_256(b"much").digest(1 << 20)
    for _ in range(5):
        sys.stdout.buffer.write(block)
    sys.exit(3)


def echo() -> None:
    """What comes on stdin, and how much it was."""
    got = sys.stdin.buffer.read()
    sys.stdout.buffer.write(got)
    print(len(got), file=sys.stderr)


def surroundings() -> None:
    """What a program can find out about where it runs."""
    print(sorted((name, value) for name, value in os.environ.items() if name != "PYTHONHASHSEED"))
    print(sys.path, sys.argv, sys.flags, os.getcwd(), sys.modules["__main__"])
    print([os.isatty(number) for number in range(3)], shutil.get_terminal_size((1, 1)))
    print(os.umask(0o22), signal.getsignal(signal.SIGPIPE), signal.getsignal(signal.SIGINT))


def colours() -> None:
    """As a program writes on a terminal and not into a pipe."""
    if sys.stdout.isatty():
        print("\x1b[1;32mgreen\x1b[0m\tand a bell\a", flush=True)
    name = input("name? ")
    print(f"hello {name}", file=sys.stderr, flush=True)
    sys.exit(4)


def dies() -> None:
    """By a signal, its output behind it."""
    os.write(1, b"last words")
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    time.sleep(10)


def handles() -> None:
    """A signal from outside ends it as it wants."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    print("ready", flush=True)
    time.sleep(30)


if __name__ == "__main__":
    globals()[sys.argv[1]]()

"""Draws a few numbers, then an identifier, and asks a question that holds it.

Settings: library, mode, url. Beside it: `count.txt`, how many numbers are drawn at one place; `extra.txt`: "yes" draws
one more at another place first.
"""

from __future__ import annotations

import random
import uuid

from clients import SETTINGS, Caller, beside, show


def numbers() -> list[float]:
    """So many, all drawn by one line."""
    return [random.random() for _ in range(int(beside("count.txt", "2")))]


def main() -> None:
    """Ask."""
    if beside("extra.txt") == "yes":
        random.random()
    drawn = numbers()
    identifier = uuid.uuid4()
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    show(caller.ask(f"order {identifier} of weight {sum(drawn)}"))


if __name__ == "__main__":
    main()

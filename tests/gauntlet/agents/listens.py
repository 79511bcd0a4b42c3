"""Listens to an endless stream of events in a thread beside it, and ends when the first has come.

Settings: library, url.
"""

from __future__ import annotations

import threading

from clients import SETTINGS, Caller

heard = threading.Event()


def listen() -> None:
    """Hear events until the program ends."""
    with Caller(SETTINGS["library"], SETTINGS["url"]).stream("events") as answer:
        for chunk in answer.iter_raw():
            print(repr(chunk), flush=True)
            heard.set()


if __name__ == "__main__":
    threading.Thread(target=listen, daemon=True).start()
    heard.wait(20)
    print("end")

"""Connects past every client that has a seam, where `reach.txt` beside it says so, and does not say how that went.

Settings: port.
"""

from __future__ import annotations

import contextlib
import socket

from clients import SETTINGS, beside

if __name__ == "__main__":
    if beside("reach.txt") == "yes":
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", SETTINGS["port"])) as to:
            to.sendall(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
    print("end")

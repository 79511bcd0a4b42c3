"""Tries to leave, by each way that `ways.json` beside it names; a run without that file tries none.

Each way prints its name and what became of it, and the program ends normally.
"""

from __future__ import annotations

import _socket
import ctypes
import json
import os
import socket
import struct
import sys
import urllib.request
from pathlib import Path

BESIDE = Path(__file__).parent / "ways.json"
SAID = json.loads(BESIDE.read_text()) if BESIDE.exists() else {"ways": []}
LIBC = ctypes.CDLL(None, use_errno=True)


def by_urllib() -> None:
    urllib.request.urlopen(f"http://127.0.0.1:{SAID['tcp']}/leak", timeout=5)


def by_socket() -> None:
    socket.create_connection(("127.0.0.1", SAID["tcp"]), timeout=5).sendall(b"leak")


def by_c_socket() -> None:
    one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    one.connect(("127.0.0.1", SAID["tcp"]))
    one.send(b"leak")


def by_udp() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"leak", ("127.0.0.1", SAID["udp"]))


def by_unix() -> None:
    socket.socket(socket.AF_UNIX).connect(SAID["unix"])


def by_abstract() -> None:
    socket.socket(socket.AF_UNIX).connect("\0" + SAID["abstract"])


def by_libc() -> None:
    fd = _checked(LIBC.socket(2, 1, 0))
    address = struct.pack("=H", 2) + struct.pack(">H4B8x", SAID["tcp"], 127, 0, 0, 1)
    _checked(LIBC.connect(fd, address, len(address)))


def by_libc_udp() -> None:
    fd = _checked(LIBC.socket(2, 2, 0))
    address = struct.pack("=H", 2) + struct.pack(">H4B8x", SAID["udp"], 127, 0, 0, 1)
    _checked(LIBC.sendto(fd, b"leak", 4, 0, address, len(address)))


def by_io_uring() -> None:
    _checked(LIBC.syscall(425, 4, ctypes.create_string_buffer(120)))


def by_started_program() -> None:
    code = f"import _socket; s = _socket.socket(2, 1); s.connect(('127.0.0.1', {SAID['tcp']})); s.send(b'leak')"
    pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", code], dict(os.environ))
    if os.waitpid(pid, 0)[1]:
        raise PermissionError("the program that was started could not")


def by_inherited_descriptor() -> None:
    os.write(SAID["descriptor"], b"leak")


def by_file() -> None:
    with open(SAID["file"], "a") as file:
        file.write("leak")


def by_libc_file() -> None:
    fd = _checked(LIBC.open(SAID["file"].encode(), os.O_WRONLY | os.O_APPEND))
    _checked(LIBC.write(fd, b"leak", 4))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


for way in SAID["ways"]:
    try:
        globals()[f"by_{way}"]()
        print(way, "OUT", flush=True)
    except BaseException as fault:  # noqa: BLE001  whatever stops it, the next way is tried
        print(way, type(fault).__name__, flush=True)
print("done")

"""Our own streams are told by kind, and closed ones are plugged."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tachograph.supervision.streams import StreamKinds, kind_of, set_window_size, waiting_bytes, window_size


@contextmanager
def closing(*fds: int) -> Iterator[None]:
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


def test_kinds_are_told_apart(tmp_path: Path) -> None:
    master, slave = os.openpty()
    reading, writing = os.pipe()
    null, file = os.open(os.devnull, os.O_RDWR), os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    zero = os.open("/dev/zero", os.O_RDONLY)
    near, far = socket.socketpair()
    with closing(master, slave, reading, writing, null, file, zero), near, far:
        kinds = [kind_of(fd) for fd in (slave, reading, writing, near.fileno(), zero, null, file)]
    assert kinds == ["terminal", "pipe", "pipe", "pipe", "pipe", "null", "file"]
    assert kind_of(slave) == "closed"


def test_the_size_of_a_terminal_is_told_and_set() -> None:
    master, slave = os.openpty()
    with closing(master, slave):
        set_window_size(master, (81, 23))
        assert window_size(slave) == (81, 23)
    reading, writing = os.pipe()
    with closing(reading, writing):
        assert window_size(reading) == (0, 0)


def test_waiting_bytes_are_counted() -> None:
    reading, writing = os.pipe()
    with closing(reading, writing):
        os.write(writing, b"four")
        assert waiting_bytes(reading) == 4
        assert waiting_bytes(writing) == 4
    assert waiting_bytes(reading) == 0


def test_terminals_are_named_in_order() -> None:
    assert StreamKinds("terminal", "pipe", "terminal").terminals == ("stdin", "stderr")


@pytest.mark.parametrize("closed", [(), (0,), (1, 2), (0, 1, 2)])
def test_closed_streams_are_plugged_and_no_others(tmp_path: Path, closed: tuple[int, ...]) -> None:
    program = f"""
import os
from tachograph.supervision.supervisor import look, plug
for number in {closed!r}: os.close(number)
kinds = look()
plug(kinds)
plug(kinds)
spool = os.open({str(tmp_path / "said")!r}, os.O_WRONLY | os.O_CREAT)
os.write(spool, f"{{spool > 2}} {{' '.join(kinds[:3])}} {{' '.join(look()[:3])}}".encode())
"""
    subprocess.run([sys.executable, "-c", program], stdin=subprocess.PIPE, capture_output=True)
    kinds = ["closed" if number in closed else "pipe" for number in range(3)]
    plugged = ["null" if kind == "closed" else kind for kind in kinds]
    assert (tmp_path / "said").read_text() == f"True {' '.join(kinds)} {' '.join(plugged)}"

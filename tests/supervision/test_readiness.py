"""Descriptors are reported once, in the order in which they became ready, with and without epoll."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tachograph.supervision.readiness import Readiness

Pipes = list[tuple[int, int]]


@pytest.fixture(params=["epoll", "poll"])
def readiness(request: pytest.FixtureRequest) -> Iterator[Readiness]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "poll":
            patch.delattr(select, "epoll")
        made = Readiness()
    yield made
    made.close()


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = [os.pipe() for _ in range(3)]
    yield made
    for ends in made:
        for fd in ends:
            os.close(fd)


def test_a_readiness_is_told_once_until_exhausted(readiness: Readiness, pipes: Pipes) -> None:
    reading, writing = pipes[0]
    readiness.watch(reading, read=True)
    assert readiness.wait(0) == []
    os.write(writing, b"x")
    assert [fd for fd, _ in readiness.wait(1)] == [reading]
    assert readiness.wait(0.01) == []
    os.read(reading, 10)
    readiness.exhausted(reading)
    os.write(writing, b"y")
    assert [fd for fd, _ in readiness.wait(1)] == [reading]


def test_what_became_ready_first_is_told_first(pipes: Pipes) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("only epoll keeps the order")
    readiness = Readiness()
    for reading, _ in pipes:
        readiness.watch(reading, read=True)
    for place in (2, 0, 1):
        os.write(pipes[place][1], b"x")
    assert [fd for fd, _ in readiness.wait(1)] == [pipes[place][0] for place in (2, 0, 1)]
    readiness.close()


def test_what_is_forgotten_is_not_told(readiness: Readiness, pipes: Pipes) -> None:
    reading, writing = pipes[0]
    readiness.watch(reading, read=True)
    readiness.forget(reading)
    os.write(writing, b"x")
    assert readiness.wait(0.01) == []


def test_a_file_cannot_be_waited_for() -> None:
    readiness = Readiness()
    with open(__file__, "rb") as file:
        assert not readiness.watch(file.fileno(), read=True) or not hasattr(select, "epoll")
    readiness.close()


def test_a_program_is_supervised_without_epoll() -> None:
    program = """
import os, select
del select.epoll
from tachograph.supervision.supervisor import exit_like, supervise
class Nobody:
    def wrote(self, stream, data): pass
    def read(self, data): pass
    def started(self, pid): pass
exit_like(supervise(["sh", "-c", "cat; head -c 1000000 /dev/zero; exit 3"], env=os.environ, watcher=Nobody()))
"""
    done = subprocess.run([sys.executable, "-c", program], input=b"x" * 200_000, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout == b"x" * 200_000 + bytes(1_000_000)

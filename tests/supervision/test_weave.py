"""Streams shown in one place keep their order, and never lose a byte to it."""

from __future__ import annotations

import os
import termios

from hypothesis import given
from hypothesis import strategies as st

from tachograph.supervision.echo import Echo
from tachograph.supervision.outflow import Outflow, Outlet
from tachograph.supervision.readiness import Readiness
from tachograph.supervision.streams import STREAMS
from tachograph.supervision.terminal import KEYS, STDOUT
from tachograph.supervision.watching import Guarded
from tachograph.supervision.weave import interleave, weave

pieces = st.lists(st.binary(max_size=40) | st.just(b"a\nb\nc\n"), min_size=1, max_size=3)


@given(pieces, st.lists(st.integers(0, 2), max_size=12))
def test_every_stream_is_passed_on_whole_and_in_order(pieces: list[bytes], runs: list[int]) -> None:
    runs = [number for number in runs if number < len(pieces)]
    parts = interleave(pieces, runs)
    for number, piece in enumerate(pieces):
        assert b"".join(part for n, part in parts if n == number) == piece


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=8).map(lambda text: text.replace(b"\n", b"") + b"\n"))))
def test_one_line_to_a_write_gives_the_order_of_the_writes(writes: list[tuple[int, bytes]]) -> None:
    streams = [b"".join(line for number, line in writes if number == n) for n in (0, 1)]
    assert interleave(streams, [number for number, _ in writes]) == writes


def test_a_run_of_several_lines_is_passed_on_with_the_last_of_its_stream() -> None:
    # The kernel tells of a run once, however many writes it had.
    assert interleave([b"a\nb\nc\n", b"x\n"], [0, 1, 0]) == [(0, b"a\n"), (1, b"x\n"), (0, b"b\nc\n")]


def test_an_unforeseen_echo_goes_before_the_answer() -> None:
    readiness, echo = Readiness(), Echo()
    reading, writing = os.pipe()
    outlet = Outlet(writing, readiness)
    flows, ends = [], []
    for name, device in ((STREAMS[1], STDOUT), (STREAMS[2], KEYS)):
        master, slave = os.openpty()
        ends.append(slave)
        flows.append(
            Outflow(
                master,
                name=name,
                device=device,
                outlet=outlet,
                real=None,
                undo_returns=False,
                echo=echo if device == KEYS else None,
                watcher=Guarded(object()),  # type: ignore[arg-type]
                readiness=readiness,
            )
        )
    woven = weave(flows, ends, terminal=1)
    assert woven is not None
    keys = b"\x16x"  # Ctrl-V, whose echo is not foreseen
    echo.typed(keys, termios.tcgetattr(ends[1]))
    os.write(flows[1].fd, keys)
    os.write(ends[0], b"answer\n")
    woven.run()
    assert os.read(reading, 100) == b"^\x08xanswer\r\n"
    woven.close()
    for flow in flows:
        flow.close()
    outlet.close()
    readiness.close()
    for fd in (*ends, reading, writing):
        os.close(fd)

"""What a real line discipline echoes is foreseen, and nothing else is taken for an echo."""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tachograph.supervision.echo import Echo
from tachograph.supervision.terminal import LFLAG

Terminal = tuple[int, int]
keys_that_people_type = st.lists(
    st.sampled_from([b"a", b"Z", b" ", b"\x7f", b"\r", b"\n", b"\x01", b"\x1b", b"\xc3\xa9", b"\x04", b"\t", b"\x00"]),
    max_size=20,
).map(b"".join)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = os.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


def echoed(terminal: Terminal, keys: bytes) -> bytes:
    """What the terminal shows of the keys; what it holds of them is discarded."""
    master, slave = terminal
    shown = b""
    os.write(master, keys)
    while select.select([master], [], [], 0.02)[0]:
        shown += os.read(master, 1000)
    termios.tcflush(slave, termios.TCIFLUSH)
    return shown


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=keys_that_people_type)
def test_what_is_echoed_is_foreseen(terminal: Terminal, keys: bytes) -> None:
    # Erasing after a character of unknown width is the one thing in the list that is not foreseen.
    keys = keys.replace(b"\xc3\xa9\x7f", b"").replace(b"\t\x7f", b"")
    echo = Echo()
    echo.typed(keys, termios.tcgetattr(terminal[1]))
    shown = echoed(terminal, keys)
    foreseen, rest = echo.taken_from(shown)
    assert foreseen + rest == shown
    if not any(wide in keys for wide in (b"\xc3\xa9", b"\t")):
        assert rest == b""


def test_without_echo_nothing_is_foreseen(terminal: Terminal) -> None:
    modes = termios.tcgetattr(terminal[1])
    modes[LFLAG] &= ~termios.ECHO
    echo = Echo()
    echo.typed(b"secret\r", modes)
    assert echo.taken_from(b"secret\r\n") == (b"", b"secret\r\n")


@pytest.mark.parametrize("cut", range(1, 6))
def test_an_echo_that_comes_in_pieces_is_taken_piece_by_piece(terminal: Terminal, cut: int) -> None:
    echo = Echo()
    echo.typed(b"word\r", termios.tcgetattr(terminal[1]))
    shown = b"word\r\n"
    assert echo.taken_from(shown[:cut]) == (shown[:cut], b"")
    assert echo.taken_from(shown[cut:] + b"log line") == (shown[cut:], b"log line")
    assert echo.taken_from(b"word\r\n") == (b"", b"word\r\n"), "it is echoed once"


def test_where_output_has_come_between_nothing_is_left_out(terminal: Terminal) -> None:
    echo = Echo()
    echo.typed(b"word\r", termios.tcgetattr(terminal[1]))
    assert echo.taken_from(b"wolog line\n") == (b"", b"wolog line\n")
    assert echo.taken_from(b"rd\r\n") == (b"", b"rd\r\n")


def test_an_echo_does_not_come_late(terminal: Terminal) -> None:
    import time

    echo = Echo()
    echo.typed(b"word", termios.tcgetattr(terminal[1]))
    time.sleep(0.3)
    assert echo.taken_from(b"word") == (b"", b"word")

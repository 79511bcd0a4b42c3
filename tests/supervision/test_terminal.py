"""What a terminal adds to output is taken back, exactly."""

from __future__ import annotations

import os
import termios

from hypothesis import given
from hypothesis import strategies as st

from tachograph.supervision.terminal import KEYS, LFLAG, STDOUT, LineEnds, ProgramTerminals, adds_returns

text = st.binary(max_size=60) | st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"x"])).map(b"".join)


@given(text, st.lists(st.integers(1, 7)))
def test_what_the_terminal_added_is_taken_back_however_it_is_cut(written: bytes, cuts: list[int]) -> None:
    shown = written.replace(b"\n", b"\r\n")
    ends, taken_back, at = LineEnds(), b"", 0
    for length in cuts:
        taken_back += ends.feed(shown[at : at + length])
        at += length
    taken_back += ends.feed(shown[at:]) + ends.flush()
    assert taken_back == written


def test_a_terminal_adds_returns_until_told_not_to() -> None:
    master, slave = os.openpty()
    try:
        modes = termios.tcgetattr(slave)
        assert adds_returns(modes)
        modes[1] &= ~termios.ONLCR
        assert not adds_returns(modes)
    finally:
        os.close(master)
        os.close(slave)


def test_modes_set_on_one_terminal_of_the_program_are_set_on_the_other() -> None:
    terminals = ProgramTerminals((KEYS, STDOUT), modes=None)
    try:
        assert not terminals.agree()
        modes = termios.tcgetattr(terminals.slaves[STDOUT])
        modes[LFLAG] &= ~termios.ECHO
        termios.tcsetattr(terminals.slaves[STDOUT], termios.TCSANOW, modes)
        assert terminals.agree()
        assert not terminals.agree()
        for slave in terminals.slaves.values():
            assert not termios.tcgetattr(slave)[LFLAG] & termios.ECHO
        # Once the program has modes of its own, the shell's do not concern it.
        terminals.adopt(terminals.first)
        assert terminals.agreed == modes
    finally:
        terminals.hand_over()
        for master in terminals.masters.values():
            os.close(master)

"""A recorded stdin is cut into what was typed at once, and a file is a file."""

from __future__ import annotations

import os
import stat
import time

from hypothesis import given
from hypothesis import strategies as st

from tachograph.supervision.script import Sleep, as_file, lines_typed


@given(st.binary(max_size=60))
def test_keys_are_cut_after_each_that_ends_a_line_or_signals(keys: bytes) -> None:
    lines = lines_typed(keys)
    assert b"".join(lines) == keys
    ends = b"\r\n\x03\x04\x1a\x1c"
    assert all(line[-1] in ends for line in lines[:-1])
    assert not any(key in ends for line in lines for key in line[:-1])


def test_a_file_holds_its_content_and_has_no_name() -> None:
    fd = as_file(b"content")
    try:
        assert stat.S_ISREG(os.fstat(fd).st_mode)
        assert os.fstat(fd).st_nlink == 0
        assert os.read(fd, 100) == b"content"
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_a_process_that_computes_does_not_sleep() -> None:
    sleep = Sleep()
    sleep.pid = os.getpid()
    ends = time.monotonic() + 0.3
    while time.monotonic() < ends:
        assert sleep() < 0.05, "whoever asks is running"

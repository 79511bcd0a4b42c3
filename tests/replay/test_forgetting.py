"""A replayed program does not hold the tape that it was answered from."""

from __future__ import annotations

import mmap
import os

import pytest

from tachograph.replay.child import MOST_TOUCHED, forgetting


def _mapped_kb() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssShmem"))


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="no way to let go of pages here")
def test_pages_that_were_read_are_let_go_and_come_again() -> None:
    size = 4 * MOST_TOUCHED
    fd = os.memfd_create("tape", 0)
    try:
        for at in range(0, size, 1 << 20):
            os.write(fd, bytes([at >> 20]) * (1 << 20))
        before, most = _mapped_kb(), 0
        memory = mmap.mmap(fd, size)
        touched = forgetting(memory, size)
        for at in range(0, size, 1 << 20):
            assert memory[at : at + (1 << 20)] == bytes([at >> 20]) * (1 << 20)
            touched(1 << 20)
            most = max(most, _mapped_kb() - before)
        assert most <= (MOST_TOUCHED >> 10) + 4096
        assert memory[size - 1] == (size >> 20) - 1
    finally:
        os.close(fd)

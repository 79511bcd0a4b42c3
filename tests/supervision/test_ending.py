"""Our own process ends as the program did."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tachograph.supervision.ending import Ending, from_status


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (0, Ending(0)),
        (255 << 8, Ending(255)),
        (signal.SIGKILL, Ending(137, 9)),
        (signal.SIGSEGV | 0x80, Ending(139, 11)),
    ],
)
def test_a_wait_status_is_read(status: int, ending: Ending) -> None:
    assert from_status(status) == ending


@pytest.mark.parametrize("ending", [Ending(0), Ending(7), Ending(255), Ending(137, 9), Ending(139, 11), Ending(130, 2)])
def test_our_end_is_the_programs(ending: Ending) -> None:
    program = f"""
from tachograph.supervision.supervisor import Ending, exit_like
print("buffered", end="")
exit_like(Ending{tuple(ending)!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert done.stdout == b"buffered"
    assert done.returncode == (ending.exit_code if ending.signal is None else -ending.signal)


def test_an_ignored_or_blocked_signal_ends_us_all_the_same() -> None:
    program = """
import signal
from tachograph.supervision.supervisor import Ending, exit_like
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
exit_like(Ending(143, 15))
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -signal.SIGTERM

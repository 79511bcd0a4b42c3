"""Whether a program is still: nothing in it, or in a program that it started, runs or wants to run.

A sleep in a replay ends when its turn has come. What the rest of the program did meanwhile in the recorded run (filled
a list, wrote a file, waited for a child) it must get to do here too, so an end waits until only the sleepers are left.
Two looks say so: nobody used processor time between them, and no thread stands ready or in the midst of disk I/O at the
second. A thread that waits for the interpreter's lock gets it between the looks, since whoever looks sleeps then.

Where the system has no /proc, processor time alone decides.
"""

from __future__ import annotations

import os
from time import process_time_ns, thread_time_ns

SLICE_S = 0.001
QUIET_NS = 5_000  # more than two clock readings, less than any step of a Python program
_TASKS = "/proc/self/task"
_BUSY = b"RD"  # running or ready to run; uninterruptible, mostly a disk


def used_ns() -> int:
    """Return the processor time that the other threads of this process have used."""
    return process_time_ns() - thread_time_ns()


def is_alone() -> bool:
    """Whether this thread is the only one, and nothing that it started is left."""
    try:
        tasks = os.listdir(_TASKS)
        return len(tasks) == 1 and not _read(f"{_TASKS}/{tasks[0]}/children").strip()
    except OSError:
        return False


def is_still(since_ns: int) -> bool:
    """Whether nothing ran since `used_ns` gave this number, and nothing wants to run now."""
    if used_ns() - since_ns > QUIET_NS:
        return False
    try:
        tasks = os.listdir(_TASKS)
    except OSError:
        return True
    own = str(_own_task())
    return not any(_is_busy(f"{_TASKS}/{task}", below=True, own=task == own) for task in tasks)


def _own_task() -> int:
    from _thread import get_native_id  # not on every system

    return get_native_id()


def _is_busy(task: str, *, below: bool, own: bool = False) -> bool:
    try:
        state = _read(f"{task}/stat").rpartition(b")")[2][1:2]
    except OSError:  # it ended meanwhile
        return False
    if state in _BUSY and not own:
        return True
    return below and any(_runs(child) for child in _children(task))


def _children(task: str) -> list[str]:
    try:
        return _read(f"{task}/children").decode().split()
    except OSError:
        return []


def _runs(process: str) -> bool:
    folder = f"/proc/{process}/task"
    try:
        tasks = os.listdir(folder)
    except OSError:
        return False
    return any(_is_busy(f"{folder}/{task}", below=True) for task in tasks)


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)

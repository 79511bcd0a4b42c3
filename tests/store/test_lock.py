"""One sealer at a time, between processes and between threads, and none after its process is gone."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tachograph.errors import StoreLocked
from tachograph.store.lock import SealerLock

HOLDING = (
    "import sys; from tachograph.store.lock import SealerLock; SealerLock(sys.argv[1]).acquire();"
    "print('held', flush=True); sys.stdin.read()"
)


def holding(store: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        with pytest.raises(StoreLocked, match="another process seals"):
            SealerLock(str(tmp_path)).acquire()
        process.kill()
        process.wait()
        with SealerLock(str(tmp_path)) as lock:
            assert lock.held


def test_a_second_thread_is_refused_until_the_first_releases(tmp_path: Path) -> None:
    outcome: list[object] = []

    def other() -> None:
        try:
            outcome.append(SealerLock(str(tmp_path)).acquire())
        except StoreLocked as refused:
            outcome.append(refused)

    with SealerLock(str(tmp_path)):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert isinstance(outcome[0], StoreLocked)
    SealerLock(str(tmp_path)).acquire().release()


def test_waiting_gets_the_lock_once_it_is_free(tmp_path: Path) -> None:
    lock = SealerLock(str(tmp_path)).acquire()
    threading.Timer(0.1, lock.release).start()
    waited = SealerLock(str(tmp_path)).acquire(wait=30)
    assert waited.held
    waited.release()
    waited.release()
    assert not waited.held


def test_waiting_ends_with_a_refusal(tmp_path: Path) -> None:
    with SealerLock(str(tmp_path)):
        begun = time.monotonic()
        with pytest.raises(StoreLocked):
            SealerLock(str(tmp_path)).acquire(wait=0.05)
        assert time.monotonic() - begun >= 0.05


def test_a_store_that_cannot_be_written_to_is_no_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SealerLock(str(tmp_path / "gone")).acquire()

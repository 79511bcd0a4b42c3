"""Takes in what waits in a store, and is killed amid it: `sealing.py STORE MICROSECONDS [STEP]`.

It is killed after so many microseconds (0: not), or at that step of the disk, half way through it if it is a write. The
clock starts when everything has been imported, so that the kill falls into the sealing and not into Python's start.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from tachograph.errors import StoreLocked
from tachograph.intake.sealing import Sealer
from tachograph.store.disk import DISK, Disk
from tachograph.store.location import open_store


def kill(after_us: int) -> None:
    """End this process as `kill -9` does."""
    time.sleep(after_us / 1e6)
    os.kill(os.getpid(), signal.SIGKILL)


class KillingDisk(Disk):
    """Its nth step is the process's last."""

    def __init__(self, last: int) -> None:
        self._left = last

    def _step(self) -> None:
        self._left -= 1
        if not self._left:
            kill(0)

    def write(self, fd: int, data: bytes) -> None:
        if self._left == 1:
            super().write(fd, data[: len(data) // 2])
        self._step()
        super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._step()
        super().sync(fd)

    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    def replace(self, source: str, target: str) -> None:
        self._step()
        super().replace(source, target)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def sync_folder(self, path: str) -> None:
        self._step()
        super().sync_folder(path)


def main() -> None:
    folder = open_store(sys.argv[1], environ=os.environ)
    sys.setswitchinterval(1e-5)
    if int(sys.argv[2]):
        threading.Thread(target=kill, args=(int(sys.argv[2]),), daemon=True).start()
    try:
        disk = KillingDisk(int(sys.argv[3])) if len(sys.argv) > 3 else DISK
        with Sealer(folder, environ=os.environ, disk=disk) as sealer:
            print(len(sealer.take_in()))
    except StoreLocked:
        print("locked")


if __name__ == "__main__":
    main()

"""Takes in what waits in a store, and is killed amid it: `sealing.py STORE MICROSECONDS`; 0 lets it end.

The clock starts when everything has been imported, so that the kill falls into the sealing and not into Python's start.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from tachograph.errors import StoreLocked
from tachograph.intake.sealing import Sealer
from tachograph.store.location import open_store


def kill(after_us: int) -> None:
    """End this process as `kill -9` does."""
    time.sleep(after_us / 1e6)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    folder = open_store(sys.argv[1], environ=os.environ)
    sys.setswitchinterval(1e-5)
    if int(sys.argv[2]):
        threading.Thread(target=kill, args=(int(sys.argv[2]),), daemon=True).start()
    try:
        with Sealer(folder, environ=os.environ) as sealer:
            print(len(sealer.take_in()))
    except StoreLocked:
        print("locked")


if __name__ == "__main__":
    main()

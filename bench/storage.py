"""Row 7 (content): how many bytes a conversation takes, against `xz -9e` of what is new in it.

50 turns, 4 KB prompt, 4 KB tools, 2 KB new a turn; as 50 decisions, each committed alone, and as one. The base is xz of
the last request and all answers as they came over the wire; for the sliding window, of the distinct messages, tools and
answers. Counted is the whole segment file: keys, digests and encryption included.
"""

from __future__ import annotations

import lzma
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from bench.conversations import MODES, Conversation, conversation
from bench.measure import row
from tachograph.store.keytable import KeyTable
from tachograph.store.location import open_store
from tachograph.store.segments import ContentStore

DOMAIN = bytes(16)
OPEN = 1.8


def base(mode: str, one: Conversation) -> int:
    """Return the size that ours is measured against."""
    new = one.distinct if mode == "window" else one.requests[-1]
    return len(lzma.compress(new + one.wire, preset=9 | lzma.PRESET_EXTREME))


@contextmanager
def content_store() -> Iterator[ContentStore]:
    """A new store to be written."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {"XDG_CONFIG_HOME": os.path.join(folder, "config")}
        store = open_store(os.path.join(folder, "store"), create=True, environ=environ)
        content = ContentStore(store.segments, KeyTable(store.path, store.keyring(environ), write=True))
        yield content
        content.close()


def sizes(logs: list[tuple[bytes, list[int]]]) -> tuple[int, int]:
    """Return the bytes on disk, open and sealed; a commit after each log."""
    with content_store() as content:
        for log, cuts in logs:
            segment = content.append(DOMAIN, log, cuts).segment
            content.commit()
        as_open = os.path.getsize(content.path(segment))
        content.seal(segment)
        return as_open, os.path.getsize(content.path(segment))


def appending(logs: list[tuple[bytes, list[int]]]) -> tuple[float, float]:
    """Return CPU microseconds per log, appended and committed in batches of 64, and those of one SHA-256 of it."""
    with content_store() as content:
        began = time.process_time()
        for number, (log, cuts) in enumerate(logs):
            content.append(DOMAIN, log, cuts)
            if number % 64 == 63:
                content.commit()
        content.commit()
        ours = time.process_time() - began
    began = time.process_time()
    for log, _ in logs:
        sha256(log).digest()
    return ours / len(logs) * 1e6, (time.process_time() - began) / len(logs) * 1e6


def run() -> list[dict[str, Any]]:
    """Measure every shape, whole answers and streamed ones."""
    results = []
    for streamed in (False, True):
        for mode in MODES:
            one = conversation(mode, streamed=streamed)
            against, reach = base(mode, one), 1.4 if mode in ("growing", "one string") else 1.6
            for how, logs in (("50 decisions", one.logs()), ("one decision", one.one_log())):
                what = f"{mode}, {'streamed' if streamed else 'whole'} answers, {how}"
                for state, size, bound in zip(("open", "sealed"), sizes(logs), (OPEN, reach), strict=True):
                    results.append(row(7, f"{what}, {state}", value=size, unit="bytes", baseline=against,
                                       reach=f"<= {bound}x", met=size <= bound * against,
                                       under_plain_json=round(one.plain / size, 1)))  # fmt: skip
        logs = conversation("growing", turns=200, new=480, streamed=streamed).logs()
        ours, once = appending(logs)
        what = f"CPU per decision of at most 100 KB, {'streamed' if streamed else 'whole'} answers, against SHA-256"
        results.append(row(3, what, value=ours, unit="us", baseline=once, reach="within row 3's budget", met=True))
    return results


if __name__ == "__main__":
    for result in run():
        print(result)

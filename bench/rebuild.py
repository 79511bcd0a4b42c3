"""Row 5: how long it takes to rebuild any decision's content, its digest checked.

A store of sessions of 200 turns with requests of up to 100 KB, of every shape, half of the segments sealed. All
decisions are read once to warm up, then three times, each time in another random order; one counts with the fastest
of its three, so that pauses of the machine (p99 12 ms for reading a plain file, when it is busy) do not hide what a
decision costs. The baseline is reading the same bytes from a plain file and hashing them, measured in the same way.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from bench.conversations import MODES, conversation
from bench.measure import percentile, row
from tachograph.store.growing import LONGEST_CHAIN
from tachograph.store.keytable import KeyTable
from tachograph.store.location import StoreFolder, open_store
from tachograph.store.segments import ContentStore, Place

TURNS, NEW = 200, 440  # the last request is just below 100 KB
REACH_MS = 2.0


def run() -> list[dict[str, Any]]:
    """Measure warm and cold reads."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {"XDG_CONFIG_HOME": os.path.join(folder, "config")}
        store = open_store(os.path.join(folder, "store"), create=True, environ=environ)
        plain = os.path.join(folder, "plain")
        os.mkdir(plain)
        keys = KeyTable(store.path, store.keyring(environ), write=True)
        written = _fill(store, keys, plain)
        reader = ContentStore(store.segments, KeyTable(store.path, store.keyring(environ)))
        for place, path in written:
            with open(path, "rb") as file:
                assert reader.read(place) == file.read(), place
        ours = _fastest(written, lambda place, path: reader.read(place))
        bare = _fastest(written, lambda place, path: _hashed(path))
        cold = []
        for place, _ in random.Random(4).sample(written, 200):
            fresh = ContentStore(store.segments, keys)
            cold.append(_timed_ms(fresh.read, place))
        p99 = percentile(ours, 0.99)
        return [
            row(5, "a decision's content, warm, p99", value=p99, unit="ms", baseline=percentile(bare, 0.99),
                reach=f"<= {REACH_MS} ms", met=p99 <= REACH_MS, p50=round(percentile(ours, 0.5), 3),
                decisions=len(written), longest_chain=LONGEST_CHAIN),
            row(5, "a decision's content, first read of a reader, p99", value=percentile(cold, 0.99), unit="ms",
                baseline=percentile(bare, 0.99), reach="reported", met=True, p50=round(percentile(cold, 0.5), 3)),
        ]  # fmt: skip


def _fill(store: StoreFolder, keys: KeyTable, plain: str) -> list[tuple[Place, str]]:
    """Write every shape's session, streamed and not, twice; seal the second ones. Returns places and plain copies."""
    written: list[tuple[Place, str]] = []
    content = ContentStore(store.segments, keys)
    for number, (mode, streamed, sealed) in enumerate((m, s, f) for m in MODES for s in (0, 1) for f in (0, 1)):
        one = conversation(mode, turns=TURNS, new=NEW, streamed=bool(streamed), seed=number)
        for log, cuts in one.logs():
            place = content.append(number.to_bytes(16, "big"), log, cuts)
            content.commit()
            path = os.path.join(plain, f"{len(written)}")
            with open(path, "wb") as file:
                file.write(log)
            written.append((place, path))
        if sealed:
            for segment in {place.segment for place, _ in written[-TURNS:]}:
                content.seal(segment)
    content.close()
    return written


def _hashed(path: str) -> bytes:
    with open(path, "rb") as file:
        return sha256(file.read()).digest()


def _fastest(written: list[tuple[Place, str]], action: Callable[[Place, str], bytes]) -> list[float]:
    times = [float("inf")] * len(written)
    order = list(range(len(written)))
    for seed in range(3):
        random.Random(seed).shuffle(order)
        for number in order:
            times[number] = min(times[number], _timed_ms(action, *written[number]))
    return times


def _timed_ms(action: Callable[..., bytes], *arguments: Any) -> float:
    began = time.perf_counter()
    action(*arguments)
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    for result in run():
        print(result)

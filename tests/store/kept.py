"""What the store's tests share: a store with its keys, logs like those of an agent, and disks that stop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from tachograph.formats import frame
from tachograph.store.disk import Disk
from tachograph.store.entry import Entry, Source
from tachograph.store.keytable import KeyTable
from tachograph.store.location import StoreFolder, open_store
from tachograph.store.segments import ContentStore, Place
from tachograph.store.summary import Summary

DOMAIN = bytes(range(16))
OTHER_DOMAIN = bytes(range(16, 32))
MARKER = b"the customer's own words 4711"


class PowerCut(BaseException):
    """The machine stops here. No handler of ours may run: it is no Exception."""


class StoppingDisk(Disk):
    """Stops at one step, half way through it if it is a write; afterwards nothing works any more.

    `cut_power` then takes away what no sync had made durable: bytes, names and renames.
    """

    def __init__(self, stop_at: int = -1) -> None:
        self.steps = 0
        self.stop_at = stop_at
        self._durable: dict[str, int] = {}
        self._new: set[str] = set()
        self._renamed: list[tuple[str, str, bytes, bytes | None]] = []

    def _step(self) -> bool:
        self.steps += 1
        if self.steps > self.stop_at >= 0:
            raise PowerCut
        return self.steps == self.stop_at

    def write(self, fd: int, data: bytes) -> None:
        last = self._step()
        path, size = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_size
        self._durable.setdefault(path, size)
        if not size:
            self._new.add(path)
        super().write(fd, data[: len(data) // 2] if last else data)
        if last:
            raise PowerCut

    def sync(self, fd: int) -> None:
        if self._step():
            raise PowerCut
        super().sync(fd)
        self._durable[os.readlink(f"/proc/self/fd/{fd}")] = os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        if self._step():
            raise PowerCut
        super().truncate(fd, size)

    def replace(self, source: str, target: str) -> None:
        if self._step():
            raise PowerCut
        if os.path.isfile(source):
            old = Path(target).read_bytes()[: self._durable.get(target)] if os.path.exists(target) else None
            self._renamed.append((source, target, Path(source).read_bytes(), old))
            self._durable[target] = self._durable.pop(source, os.path.getsize(source))
            self._new.discard(source)
        super().replace(source, target)

    def remove(self, path: str) -> None:
        if self._step():
            raise PowerCut
        super().remove(path)

    def sync_folder(self, path: str) -> None:
        if self._step():
            raise PowerCut
        super().sync_folder(path)
        self._new = {name for name in self._new if os.path.dirname(name) != path}
        self._renamed = [renamed for renamed in self._renamed if os.path.dirname(renamed[1]) != path]

    def cut_power(self) -> None:
        """Leave only what was durable."""
        for source, target, new, old in reversed(self._renamed):
            Path(source).write_bytes(new)
            if old is None:
                os.unlink(target)
            else:
                Path(target).write_bytes(old)
                self._durable[target] = len(old)
        for path in self._new:
            Path(path).unlink(missing_ok=True)
        for path, size in self._durable.items():
            if os.path.exists(path) and os.path.getsize(path) > size:
                os.truncate(path, size)


class FullDisk(Disk):
    """Has room for `room` bytes more, then refuses as a full disk does: a part of the write lands first."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, data: bytes) -> None:
        fits = data[: max(0, self.room)]
        self.room -= len(data)
        super().write(fd, fits)
        if len(fits) < len(data):
            raise OSError(28, "No space left on device")


class FailingSync(Disk):
    """Its fsync fails, as a dying disk's does, from the nth on."""

    def __init__(self, after: int) -> None:
        self.after = after

    def sync(self, fd: int) -> None:
        if self.after <= 0:
            raise OSError(5, "Input/output error")
        self.after -= 1
        super().sync(fd)


class Kept:
    """A store in a folder, with keys beside it."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"XDG_CONFIG_HOME": str(folder / "config")}
        self.store: StoreFolder = open_store(str(folder / ".tachograph"), create=True, environ=self.environ)

    def keys(self, *, write: bool = False, disk: Disk | None = None) -> KeyTable:
        disk = disk or Disk()
        return KeyTable(self.store.path, self.store.keyring(self.environ, disk=disk), write=write, disk=disk)

    @contextmanager
    def content(self, *, write: bool = False, disk: Disk | None = None, **options: object) -> Iterator[ContentStore]:
        disk = disk or Disk()
        keys = self.keys(write=write, disk=disk)
        content = ContentStore(self.store.segments, keys, disk=disk, **options)  # type: ignore[arg-type]
        yield content
        content.close()
        keys.close()

    def read(self, place: Place) -> bytes:
        """What a fresh process reads there."""
        with self.content() as content:
            return content.read(place)

    def put(self, *logs: tuple[bytes, list[int]], domain: bytes = DOMAIN, seal: bool = False) -> list[Place]:
        """Append logs, one commit each, as a sealer does that is started for them."""
        places = []
        with self.content(write=True) as content:
            for log, cuts in logs:
                places.append(content.append(domain, log, cuts))
                content.commit()
            if seal:
                content.seal(places[0].segment)
        return places

    def files(self) -> dict[str, bytes]:
        """Every file of the store."""
        root = Path(self.store.path)
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def conversation(turns: int, *, words: bytes = MARKER, long: int = 300) -> list[tuple[bytes, list[int]]]:
    """Logs of a growing conversation: each request resends what came before, each answer is streamed in four chunks."""
    logs, history, now = [], b'{"role":"system","content":"' + b"Be exact. " * long + b'"}', 1_760_000_000_000_000_000
    for turn in range(turns):
        history += b',{"role":"user","content":"%s, turn %d: %s"}' % (words, turn, (b"%d " % (turn * 7919)) * 20)
        body = b'{"model":"m","messages":[' + history + b'],"tools":[{"name":"refund"}]}'
        events = [b'data: {"id":"c%d","delta":{"content":"word%d"}}\n\n' % (turn, i * turn) for i in range(12)]
        frames = []
        for kind, payload in [
            (frame.CALL, frame.fields(b"POST", b"https://api.example.com/v1")),
            (frame.BODY, body),
            *((frame.CHUNK, b"".join(events[i : i + 3])) for i in range(0, 12, 3)),
            (frame.END, b""),
        ]:
            now += 1_234_567
            draws = frame.pack_draw(1, 1, now / 1e9) if kind == frame.BODY else b""
            frames.append(frame.Frame(kind, 0, 1, 1, 1, 0, now, draws, payload))
        logs.append(frame.write_log(frames))
        history += b',{"role":"assistant","content":"' + b"".join(b"word%d" % (i * turn) for i in range(12)) + b'"}'
    return logs


def entry(number: int, place: Place | None = None, **facts: object) -> Entry:
    """A journal entry; its payload is like a skeleton."""
    decision, run = f"dec_01KB{number:022}", f"run_01KB{number // 2:022}"
    values: dict[str, object] = {
        "agent": "refund", "captured_at_ms": 1_760_000_000_000 + 1000 * number, "level": "full", "reason": "window",
        "effects": 3, "model_calls": 1, "tool_calls": 1, "tools": ("lookup",), "title": b"sealed title",
    }  # fmt: skip
    return Entry(
        decision=decision,
        run=run,
        domain=DOMAIN,
        payload=b'{"agentId":"refund","decisionId":"%s","version":"replay/v1"}' % decision.encode(),
        summary=Summary(**{**values, **facts}),  # type: ignore[arg-type]
        places=(place or Place("ab" * 16, number),),
        sources=(Source(f"{run}.123.a", number * 10, number * 10 + 9),),
    )


# Bytes as agents make them, so that ranges, anchors, streams and parents all come up; and any bytes.
_chunks = st.sampled_from(
    [
        b'{"role":"user","content":"',
        b'"}',
        b",",
        b"\n\n",
        b"data: ",
        b"\n",
        b"\\n",
        b"x" * 50,
        b"abc" * 700,
        b'"id":"',
        b"\x00" * 32,
    ]
)
texts = st.one_of(st.binary(max_size=200), st.lists(_chunks, max_size=40).map(b"".join))


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[bytes, list[int]]]:
    """Several logs that share material, with any cuts, good and bad ones."""
    pool = draw(st.lists(texts, min_size=1, max_size=5))
    out = []
    for _ in range(draw(st.integers(1, 5))):
        log = b"".join(draw(st.lists(st.sampled_from(pool), max_size=8)))
        if draw(st.booleans()):
            at = draw(st.integers(0, len(log)))
            log = log[:at] + draw(st.binary(max_size=20)) + log[at:]
        cuts = draw(st.lists(st.integers(-5, len(log) + 5), max_size=12))
        out.append((log, sorted(cuts) if draw(st.booleans()) else cuts))
    return out

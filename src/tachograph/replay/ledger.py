"""The ledger: what all processes of one replay must agree on, in memory that they share.

It lies in the replay's memory file between tape and report, zeroed by the engine and mapped by each process: which
effects are claimed, which arrivals are given, how far the recorded order has come, which addresses the run listens on.
Invariants:

- every change is made inside `with ledger:`, under a lock of this process and, while more than one process lives, a
  record lock on the file: an effect is claimed once, an arrival given once, whoever asks;
- a process that is alone pays for neither the record lock nor any polling (`shared` is False);
- a fork holds the lock, so that no child inherits it in the midst of a change. A process that starts another one counts
  it (`joined`) before it runs; one that is killed stays counted, which costs polling and nothing else.

A listener is kept as its socket's inode number: whether it listens still, and where, is the kernel's to say. Standard
library only.
"""

from __future__ import annotations

import fcntl
import mmap
from _thread import RLock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from tachograph.model.effect import Effect

OPEN, WAITED, DONE = 0, 1, 2  # an arrival's place: not given, somebody waits for it, given or skipped
CLAIMED, ISSUED, FREED = 1, 2, 4  # an effect: taken by a call, its reader exists, it lost its place in the order

_HEADER = 64
_PROGRESS = 0  # float64, seconds of CLOCK_MONOTONIC: when something last moved
_RECORDED = 1  # uint64, nanoseconds since the run began: how far the record has come
_LIVE, _FRONT, _LISTENERS = 4, 5, 6  # uint32
_HELD = 4  # float64, seconds of CLOCK_MONOTONIC: until when something is held back at the recorded pace
MOST_LISTENERS = 256
_TABLE = MOST_LISTENERS * 16  # two numbers each
_LOCKED = 1 << 62  # the byte whose record lock is held: far behind anything that is ever written


def arrivals_given(effects: Iterable[Effect]) -> int:
    """Return the number of arrivals that a replay gives, at most."""
    return sum(len(effect.arrivals) for effect in effects)


def size_for(effects: Sequence[Effect]) -> int:
    """Return the bytes that a ledger of these effects takes."""
    highest = max((effect.index for effect in effects), default=0)
    return _HEADER + _TABLE + highest + 1 + arrivals_given(effects)


def place_behind(tape_size: int) -> int:
    """Return where in the file the ledger begins: the first page behind the tape."""
    return -(-tape_size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY


class Ledger:
    """One replay's shared state, as this process sees it. Without a file it is this process's own."""

    def __init__(
        self, effects: Sequence[Effect], *, fd: int = -1, memory: memoryview | None = None, counted: bool = False
    ) -> None:  # fmt: skip
        """Use the ledger of these effects in `memory`, which is a shared mapping of file `fd`.

        `counted`: whoever started this process has counted it. Raises ValueError for memory of another size.
        """
        size = size_for(effects)
        self._fd = fd
        view = memoryview(mmap.mmap(-1, size)) if memory is None else memory
        if len(view) != size:
            raise ValueError(f"a ledger of {len(view)} bytes does not fit this tape")
        self._times: memoryview[float] = view[:_HEADER].cast("d")
        self._longs: memoryview[int] = view[:_HEADER].cast("Q")
        self._words: memoryview[int] = view[:_HEADER].cast("I")
        self._table: memoryview[int] = view[_HEADER : _HEADER + _TABLE].cast("Q")
        effects_at = _HEADER + _TABLE
        slots_at = size - arrivals_given(effects)
        self.effects = view[effects_at:slots_at]
        self.slots = view[slots_at:]
        self._lock = RLock()
        self._depth = 0
        self.paced = False
        """Whether this replay waits as long as the recorded program did."""
        self._locked = False
        if not counted:
            self.joined()

    # -- the lock, and who shares it

    def __enter__(self) -> Ledger:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1 and self._words[_LIVE] > 1 and self._fd >= 0:
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, _LOCKED)
            self._locked = True
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._locked:
            self._locked = False
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _LOCKED)
        self._lock.release()

    @property
    def shared(self) -> bool:
        """Whether another process of this replay may live."""
        return self._words[_LIVE] > 1

    @property
    def live(self) -> int:
        """How many processes were counted and have not said that they ended."""
        return self._words[_LIVE]

    def joined(self) -> None:
        """Count a process: this one, or one that is about to be started."""
        with self:
            self._words[_LIVE] += 1

    def left(self) -> None:
        """A process has ended."""
        with self:
            alive = self._words[_LIVE]
            if alive > 1:
                self._words[_LIVE] = alive - 1

    def before_fork(self, *, counts: bool = True) -> None:
        """Let no other thread of ours be in the midst of a change; the child is one more process if it `counts`."""
        self._lock.acquire()
        if counts:
            self.joined()

    def after_fork(self) -> None:
        """In parent and child: go on."""
        self._lock.release()

    # -- effects

    def is_claimed(self, effect: Effect) -> bool:
        """Say whether some call has taken this effect."""
        return bool(self.effects[effect.index] & CLAIMED)

    def claim(self, effect: Effect) -> bool:
        """Take an effect; returns whether it was free. Call it inside `with ledger:`."""
        flags = self.effects[effect.index]
        self.effects[effect.index] = flags | CLAIMED
        return not flags & CLAIMED

    # -- the recorded order

    @property
    def front(self) -> int:
        """The first arrival's place that is not given yet, as far as it was looked for."""
        return self._words[_FRONT]

    @front.setter
    def front(self, place: int) -> None:
        self._words[_FRONT] = place

    @property
    def progress(self) -> float:
        """When something last moved, in seconds of the monotonic clock, which is one for all processes."""
        return self._times[_PROGRESS]

    @property
    def recorded_ns(self) -> int:
        """How far the record has come: nanoseconds since the run began."""
        return self._longs[_RECORDED]

    def moved(self, recorded_ns: int = 0) -> None:
        """Something moved: a call was issued, or an arrival given, that stands there in the record."""
        self._times[_PROGRESS] = monotonic()
        if recorded_ns > self._longs[_RECORDED]:
            self._longs[_RECORDED] = recorded_ns

    def keep_back(self, until: float) -> None:
        """Something is held back until then: that is no standstill."""
        with self:
            if until > self._times[_HELD]:
                self._times[_HELD] = until

    @property
    def held(self) -> float:
        """Until when something is held back; 0 where nothing ever was."""
        return self._times[_HELD]

    # -- what the run listens on

    def add_listener(self, inode: int, name: int) -> bool:
        """Remember that a process of this run listens with the socket of this inode. False where the table is full.

        `name` stands for the path of a unix socket (0: it is none).
        """
        with self:
            count = self._words[_LISTENERS]
            if count >= MOST_LISTENERS:
                return False
            self._table[2 * count], self._table[2 * count + 1] = inode, name
            self._words[_LISTENERS] = count + 1
        return True

    def keep_listeners(self, inodes: Container[int]) -> None:
        """Forget all listeners but these."""
        with self:
            known = self._table[: 2 * self._words[_LISTENERS]].tolist()
            kept = [pair for pair in zip(known[::2], known[1::2], strict=True) if pair[0] in inodes]
            for place, pair in enumerate(kept):
                self._table[2 * place], self._table[2 * place + 1] = pair
            self._words[_LISTENERS] = len(kept)

    def listeners(self) -> frozenset[int]:
        """Return the inodes of the sockets with which processes of this run listen, or did."""
        return frozenset(self._table[: 2 * self._words[_LISTENERS]].tolist()[::2])

    def names(self) -> frozenset[int]:
        """Return what stands for the paths of unix sockets among them."""
        return frozenset(self._table[: 2 * self._words[_LISTENERS]].tolist()[1::2]) - {0}

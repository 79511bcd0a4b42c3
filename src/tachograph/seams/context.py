"""Task paths: where in the run an effect stands.

A path names process, thread and task by the ordinal at which its parent started it: `0` is the first process's main
thread, `0/t1` the first thread it started, `0/a2/a1` the first task of its second task, `0/e3` the third item handed
to an executor, `0/p1` the first program it started, `0/w1` a worker that an executor keeps, `0/pw1` a process that a
pool keeps. Thread names are no key (an executor hands six items to four workers differently each time) and contextvars
do not enter threads on 3.11, so the recorder carries the place itself: through `create_task`, `Thread.start` and
`ThreadPoolExecutor.submit`; to the workers of other pools in `seams.pools`. The work's own contextvars are not touched.

Also carried: the decision and the effect inside which the work runs (`decision`, `enclosing`), and the request that
came in and is being handled (`inbound`).
"""

from __future__ import annotations

import os
from _contextvars import ContextVar
from itertools import count
from sys import _getframe

from tachograph.seams import injection
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, ModuleType
    from typing import Any

ROOT = injection.setting("PATH", "0")


class Place:
    """One place in the run. `number` and `owner` are for the listener: its number of this path, and whose it is."""

    __slots__ = ("_children", "_counts", "number", "owner", "path")

    def __init__(self, path: str, *, counted: dict[str, int] | None = None) -> None:
        """`counted`: how many things of each kind were started here before."""
        self.path = path
        self.number = 0
        self.owner: object = None
        self._children: dict[str, count[int]] = {kind: count(had + 1) for kind, had in (counted or {}).items()}
        self._counts: dict[int, int] | None = None

    def counted(self) -> dict[str, int]:
        """Return how many things of each kind were started here so far."""
        return {kind: int(repr(counter)[6:-1]) - 1 for kind, counter in self._children.items()}  # repr: `count(3)`

    def resume(self, counted: dict[str, int]) -> None:
        """Go on as if so many things of these kinds had been started here."""
        self._children.update({kind: count(had + 1) for kind, had in counted.items()})

    def child(self, kind: str) -> Place:
        """Return the place of the next thing of that kind (a task, t thread, e pool item, p process) started here."""
        counter = self._children.get(kind)
        if counter is None:
            counter = self._children.setdefault(kind, count(1))
        path = f"{self.path}/{kind}{next(counter)}"
        return Place(path, counted=_aimed.pop(path, None)) if _aimed else Place(path)

    def count(self, site: int) -> int:
        """Count one more wait that was asked for here at that call site; returns which one it is, from 1."""
        counts = self._counts
        if counts is None:
            counts = self._counts = {}
        nth = counts[site] = counts.get(site, 0) + 1
        return nth


_aimed: dict[str, dict[str, int]] = {}


def aim(path: str) -> None:
    """Let what is started next from here on down stand on that path, where it lies below here."""
    words = path.split("/")
    for at in range(len(here().path.split("/")), len(words)):
        above, word = "/".join(words[:at]), words[at]
        kind = word.rstrip("0123456789")
        counted = {kind: int(word[len(kind) :]) - 1}
        if above == here().path:
            here().resume(counted)
        elif path.startswith(here().path + "/"):
            _aimed[above] = counted


root = Place(ROOT)
_here: ContextVar[Place] = ContextVar("tachograph_place", default=root)
decision: ContextVar[int] = ContextVar("tachograph_decision", default=0)
enclosing: ContextVar[int] = ContextVar("tachograph_effect", default=0)
inbound: ContextVar[Any] = ContextVar(
    "tachograph_inbound", default=None
)  # the request being handled, or its connection
claimed: ContextVar[bool] = ContextVar("tachograph_claimed", default=False)  # a seam is making this connection itself
connecting: ContextVar[bool] = ContextVar("tachograph_connecting", default=False)  # a client is inside its `connect`
failing: ContextVar[BaseException | None] = ContextVar("tachograph_failing", default=None)  # what a dial must raise
starting: ContextVar[bool] = ContextVar("tachograph_starting", default=False)  # a seam is starting a program itself
hiring: ContextVar[bool] = ContextVar("tachograph_hiring", default=False)  # a pool is starting a worker
submitted: ContextVar[Any] = ContextVar("tachograph_submitted", default=None)  # of the item being given to a pool

here = _here.get


class standing_at:
    """Make `place` the place of what happens inside `with`."""

    __slots__ = ("_place", "_token")

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._token = _here.set(self._place)

    def __exit__(self, *_: object) -> None:
        _here.reset(self._token)


def process_of(path: str) -> str:
    """Return the path of the process in which something on this path was started."""
    words = path.split("/")
    last = max((place for place, word in enumerate(words) if word.startswith("p")), default=0)
    return "/".join(words[: last + 1])


def process() -> str:
    """Return the path of this process's first thread."""
    return _process


handed: set[str] = set()  # paths of items that this process gave to processes of a pool
taken: set[str] = set()  # paths of items that this process, a pool's worker, worked on


def is_done_here(path: str) -> bool:
    """Say whether what stands on this path is done in this process, as far as its items and processes tell."""
    for inner in _prefixes(path):
        if inner in taken:
            return True
        if inner in handed:
            return False
    return process_of(path) == _process


def may_be_done_here(path: str) -> bool:
    """The same, where a pool's worker may have taken any item of the process that keeps the pool."""
    own = process_of(path)
    return own == _process or (is_worker(_process) and own == process_of(_process.rpartition("/")[0]))


def _prefixes(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def is_worker(path: str) -> bool:
    """Say whether this is the path of a process that a pool keeps."""
    return path.rpartition("/")[2].startswith("pw")


def next_process() -> Place:
    """Return the place of the process that is about to be started here.

    When a pool starts its workers, and in which thread, hangs on how busy it is: they must not move other numbers.
    """
    return Place(f"{_process}/pw{next(_workers)}") if hiring.get() else here().child("p")


def stand(place: Place, inside: int, effect: int) -> None:
    """Let what comes next in this thread stand at that place, in that decision and effect."""
    _here.set(place)
    decision.set(inside)
    enclosing.set(effect)


class standing:
    """A `with` block in which work counts as done at another place: that of whoever asked for it."""

    __slots__ = ("_place", "_token")

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._token = _here.set(self._place)

    def __exit__(self, *exc: object) -> None:
        _here.reset(self._token)


def next_item() -> Place:
    """Return the place of the item that is about to be given to a pool here."""
    return _next("e")


def _next(kind: str) -> Place:
    """The place of what is started here; a connection's own helpers take none, since a replay makes no connection."""
    return here() if claimed.get() else here().child(kind)


class Carried:
    """A callable that runs as executor item `place`, inside the decision and effect of whoever submitted it."""

    __slots__ = ("_call", "_claimed", "_decision", "_effect", "_inbound", "_place")

    def __init__(self, call: Callable[..., Any], place: Place) -> None:
        self._call = call
        self._place = place
        self._decision = decision.get()
        self._effect = enclosing.get()
        self._inbound = inbound.get()
        self._claimed = claimed.get()  # asyncio looks names up in an executor

    def again(self, call: Callable[..., Any], item: int) -> Carried:
        """Return another callable that is carried from where this one is; at its place, or as that item of it."""
        other = Carried.__new__(Carried)
        for name in Carried.__slots__:
            setattr(other, name, getattr(self, name))
        other._call, other._place = call, Place(f"{self._place.path}/e{item}") if item else self._place
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tokens = _here.set(self._place), decision.set(self._decision), enclosing.set(self._effect)
        claim, request = claimed.set(self._claimed), inbound.set(self._inbound)
        try:
            return self._call(*args, **kwargs)
        finally:
            _here.reset(tokens[0])
            decision.reset(tokens[1])
            enclosing.reset(tokens[2])
            claimed.reset(claim)
            inbound.reset(request)


def _patch_tasks(module: ModuleType) -> None:
    _patch_loop(module.BaseEventLoop)


def _patch_uvloop(module: ModuleType) -> None:
    _patch_loop(module.Loop)  # a loop of its own, not asyncio's with other parts


def _collected(coro: Any, asked: FrameType) -> bool:
    """Whether a task comes when memory is collected, which is never the same twice, so that it counts as none.

    That is the end of a generator that nobody ran to its end, and what a finalizer starts (so openai closes clients).
    """
    if type(coro).__name__ == "async_generator_athrow" or asked.f_code.co_name == "__del__":
        return True
    before = asked.f_back  # `asyncio.create_task` may stand between
    return before is not None and before.f_code.co_name == "__del__"


def _patch_loop(loop: Any) -> None:
    original = loop.create_task

    def create_task(self: Any, coro: Any, **options: Any) -> Any:
        child = here() if _collected(coro, _getframe(1)) else _next("a")
        context = options.get("context")
        if context is not None:
            try:
                context.run(_here.set, child)
            except RuntimeError:  # entered right now: the new task shares it, and with it our place
                pass
            return original(self, coro, **options)
        token = _here.set(child)  # the task copies the current context as it is made
        try:
            return original(self, coro, **options)
        finally:
            _here.reset(token)

    loop.create_task = create_task


def _patch_threads(module: ModuleType) -> None:
    thread = module.Thread
    start, bootstrap = thread.start, thread._bootstrap_inner

    def start_here(self: Any) -> None:
        # How many workers a pool starts hangs on how fast they are: they must not move the numbers of other threads.
        works = getattr(getattr(self, "_target", None), "__module__", "") == "concurrent.futures.thread"
        self._tachograph = here().child("w" if works else "t"), decision.get(), enclosing.get(), inbound.get()
        start(self)

    def run_there(self: Any) -> None:
        carried = self.__dict__.get("_tachograph")
        if carried is not None:
            _here.set(carried[0])
            decision.set(carried[1])
            enclosing.set(carried[2])
            inbound.set(carried[3])
        bootstrap(self)

    thread.start, thread._bootstrap_inner = start_here, run_there


def _patch_executor(module: ModuleType) -> None:
    executor = module.ThreadPoolExecutor
    original = executor.submit

    def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        return original(self, Carried(fn, next_item()), *args, **kwargs)

    executor.submit = submit


_process, _forked = ROOT, False
_workers = count(1)
_child: ContextVar[Place | None] = ContextVar("tachograph_child", default=None)  # of the thread that forks


def _before_fork() -> None:
    _child.set(None if starting.get() else next_process())


def _in_forked_child() -> None:
    global _process, _forked, _workers
    place = _child.get()
    if place is not None:
        _here.set(place)
        _process, _forked, _workers = place.path, True, count(1)
        hiring.set(False)
        handed.clear()
        taken.clear()


def is_forked() -> bool:
    """Say whether this process was forked by the program, and did not start as a fresh interpreter."""
    return _forked


def install() -> None:
    """Carry places through tasks, threads, executor items and forks, as each module is imported."""
    os.register_at_fork(before=_before_fork, after_in_child=_in_forked_child)
    when_imported("asyncio.base_events", _patch_tasks)
    when_imported("uvloop", _patch_uvloop)
    when_imported("threading", _patch_threads)
    when_imported("concurrent.futures.thread", _patch_executor)

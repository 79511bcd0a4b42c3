"""Items given to pools of `multiprocessing` and `concurrent.futures`: each stands on a path of its own.

Which worker takes an item is the scheduler's affair, and another one's in a replay; so what is done for an item counts
as done at `/eN` of whoever gave it to the pool, in the decision and effect in which that was. `apply_async` and
`submit` make one item; what `map` and its like give out in pieces stands at `/eN/e1`, `/eN/e2` and so on. Invariants:

- a worker gets the item's place beside the item and never in it: as one more attribute of the executor's own call item,
  or behind the end of the pickled task, where unpickling does not look. So what is pickled, what fails to be, and
  what a traceback shows are what they were, and a worker that does not have us runs the item like any other;
- nothing that was drawn for an item waits in the worker's memory once its result is sent: a pool kills its workers;
- a pool's workers are numbered apart (`/pw1`): when it starts one is the scheduler's affair too.

Threads of `ThreadPoolExecutor` are in `seams.context`; those of `multiprocessing.pool.ThreadPool` are here.
"""

from __future__ import annotations

import os
import sys

from tachograph.seams import context, port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Mark = tuple[str, int, int, int]  # the item's path; process, decision and effect of whoever gave it to the pool

_BEHIND = b"\0tachograph"  # a pickle ends with a full stop, so none ends with this
_WORK = ("concurrent.futures.process", "multiprocessing.pool")  # where the functions stand that a pool's workers run


def _mark() -> Mark | None:
    """Return what a worker must know of the item that is given to a pool here; None where nobody listens."""
    if port.current is None:
        return None
    path = context.next_item().path
    context.handed.add(path)
    return path, os.getpid(), context.decision.get(), context.enclosing.get()


class _Standing:
    """Where this worker stands: at its own place, or at that of the item that it works on."""

    def __init__(self) -> None:
        self._own: tuple[context.Place, int, int] | None = None

    def enter(self, mark: Mark) -> None:
        """Work on this item from now on."""
        listener = port.current
        if listener is None:
            return
        if self._own is None:
            self._own = context.here(), context.decision.get(), context.enclosing.get()
        path, pid, decision, effect = mark
        context.taken.add(path)
        context.stand(context.Place(path), *listener.adopt(pid, decision, effect))

    def rest(self) -> None:
        """The item's result is about to be sent."""
        if self._own is not None and port.current is not None:
            port.current.rest()

    def leave(self) -> None:
        """The item is done."""
        if self._own is not None:
            context.stand(*self._own)
            self._own = None


_standing = _Standing()


def _patch_executor(module: ModuleType) -> None:
    executor, work, queue, call = (
        getattr(module, name) for name in ("ProcessPoolExecutor", "_WorkItem", "_SafeQueue", "_CallItem")
    )
    submit, make, put, send = executor.submit, work.__init__, queue.put, module._sendback_result

    def submit_here(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        token = context.submitted.set(_mark())
        try:
            return submit(self, fn, *args, **kwargs)
        finally:
            context.submitted.reset(token)

    def make_marked(self: Any, *args: Any) -> None:
        make(self, *args)
        self._tachograph = context.submitted.get()

    def put_marked(self: Any, obj: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(obj, call):
            item = self.pending_work_items.get(obj.work_id)
            mark = getattr(item, "_tachograph", None)
            if mark is not None:
                obj.__dict__["_tachograph"] = mark
        put(self, obj, *args, **kwargs)

    def load(self: Any, state: dict[str, Any]) -> None:
        mark = state.pop("_tachograph", None)
        self.__dict__.update(state)
        if mark is not None:
            _standing.enter(mark)

    def send_rested(*args: Any, **kwargs: Any) -> None:
        _standing.rest()
        try:
            send(*args, **kwargs)
        finally:
            _standing.leave()

    submit_here.__name__, submit_here.__qualname__ = "submit", submit.__qualname__
    executor.submit, work.__init__, queue.put = submit_here, make_marked, put_marked
    call.__setstate__, module._sendback_result = load, send_rested  # type: ignore[attr-defined]


def _packed(mark: Mark) -> bytes:
    text = " ".join(map(str, mark)).encode()
    return text + len(text).to_bytes(4, "little") + _BEHIND


def _mark_behind(data: bytes) -> Mark | None:
    if not data.endswith(_BEHIND):
        return None
    end = len(data) - len(_BEHIND) - 4
    size = int.from_bytes(data[end : end + 4], "little")
    path, pid, decision, effect = data[end - size : end].decode().rsplit(" ", 3)
    return path, int(pid), int(decision), int(effect)


class _Tasks:
    """A worker's queue of tasks, which tells where each stands."""

    def __init__(self, queue: Any, loads: Callable[[bytes], Any]) -> None:
        self._queue, self._loads = queue, loads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def get(self) -> Any:
        with self._queue._rlock:
            data = self._queue._reader.recv_bytes()
        task, mark = self._loads(data), _mark_behind(data)
        if mark is not None:
            _standing.enter(mark)
        return task


class _Results:
    """A worker's queue of results."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, result: Any) -> None:
        _standing.rest()
        try:
            self._queue.put(result)
        finally:
            _standing.leave()


def _nothing() -> None:
    """What is carried before there is an item."""


class _Job:
    """What is remembered of one call of a pool's method: the place of its items."""

    __slots__ = ("_carried", "_many", "_mark")

    def __init__(self, *, many: bool, threads: bool) -> None:
        self._many = many
        self._mark = None if threads else _mark()
        self._carried = context.Carried(_nothing, context.next_item()) if threads else None

    def marked(self, number: int) -> Mark | None:
        """Return what the worker must know of the item of that number, counted from 0."""
        mark = self._mark
        return (f"{mark[0]}/e{number + 1}", *mark[1:]) if self._many and mark is not None else mark

    def carried(self, number: int, call: Any) -> Any:
        """Return the callable of the item of that number, which runs at its place in a thread of this process."""
        return call if self._carried is None else self._carried.again(call, number + 1 if self._many else 0)


def _patch_pool(module: ModuleType) -> None:
    pickler = sys.modules["multiprocessing.reduction"].ForkingPickler  # loaded with the package
    pool, threads = module.Pool, module.ThreadPool
    setup, setup_threads, work, reraises = (
        pool._setup_queues, threads._setup_queues, module.worker, module._helper_reraises_exception
    )  # fmt: skip

    def setup_marked(self: Any) -> None:
        setup(self)
        if not _is_plain(self._inqueue):
            return
        # Its threads must not hold the pool itself, which ends when nobody else does.
        writer, jobs = self._inqueue._writer, self.__dict__.setdefault("_tachograph", [])

        def send(task: Any) -> None:
            job = _job_of(jobs, task)
            mark = None if job is None else job.marked(task[1])
            if mark is None:
                writer.send(task)
            else:
                writer.send_bytes(bytes(pickler.dumps(task)) + _packed(mark))

        self._quick_put = send

    def setup_carried(self: Any) -> None:
        setup_threads(self)
        put, jobs = self._quick_put, self.__dict__.setdefault("_tachograph", [])

        def put_carried(task: Any) -> None:
            job = _job_of(jobs, task)
            if job is not None and task[2] is not reraises:
                task = (*task[:2], job.carried(task[1], task[2]), *task[3:])
            put(task)

        self._quick_put = put_carried

    def worker(inqueue: Any, outqueue: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_plain(inqueue) and _is_plain(outqueue):
            inqueue, outqueue = _Tasks(inqueue, pickler.loads), _Results(outqueue)
        return work(inqueue, outqueue, *args, **kwargs)

    def remembers(kind: Any, *, many: bool) -> None:
        make = kind.__init__

        def make_marked(self: Any, pool: Any, *args: Any, **kwargs: Any) -> None:
            jobs = pool.__dict__.get("_tachograph")
            if jobs is not None and port.current is not None and "_tachograph" not in self.__dict__:
                jobs[:] = [pool._cache]  # it is made after the queues
                self._tachograph = _Job(many=many, threads=isinstance(pool, threads))
            make(self, pool, *args, **kwargs)

        kind.__init__ = make_marked

    for name, many in (("ApplyResult", False), ("MapResult", True), ("IMapIterator", True)):
        remembers(getattr(module, name), many=many)
    worker.__module__, worker.__qualname__ = module.__name__, "worker"
    pool._setup_queues, threads._setup_queues = setup_marked, setup_carried
    module.worker = worker  # type: ignore[attr-defined]


def _is_plain(queue: Any) -> bool:
    """Say whether it is a queue between processes as `multiprocessing` makes it, and not one of another's making."""
    kind = type(queue)
    return (kind.__module__, kind.__name__) == ("multiprocessing.queues", "SimpleQueue")


def _job_of(jobs: list[Any], task: Any) -> _Job | None:
    result = jobs[0].get(task[0]) if jobs and task is not None else None
    return getattr(result, "_tachograph", None)


def _patch_starts(module: ModuleType) -> None:
    process = module.BaseProcess
    start = process.start

    def start_here(self: Any) -> None:
        token = context.hiring.set(getattr(self._target, "__module__", "") in _WORK)
        try:
            start(self)
        finally:
            context.hiring.reset(token)

    start_here.__name__, start_here.__qualname__ = "start", start.__qualname__
    process.start = start_here


def install() -> None:
    """Carry the places of items to the workers of pools, as each module is imported."""
    when_imported("concurrent.futures.process", _patch_executor)
    when_imported("multiprocessing.pool", _patch_pool)
    when_imported("multiprocessing.process", _patch_starts)

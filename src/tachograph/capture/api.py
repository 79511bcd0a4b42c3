"""What a program can say in code: decisions, tools, retrievals, external values.

All of it works, at the cost of an attribute look-up, when nothing records: a decorated function is then just the
function. While recording, a declared effect keeps its inputs and its outcome; a replay answers it from the record
(its inputs must match) and the function is not called. Sync and async alike: a decorated coroutine function stays one.

Generator functions are refused when they are decorated: what they would yield has no single moment to be kept.
"""

from __future__ import annotations

from tachograph.capture.declared import Entry, called_with, entries_of, is_coroutine_function, restore_entries
from tachograph.capture.entry import entry_of
from tachograph.capture.opened import Decision, decision
from tachograph.formats import values
from tachograph.seams import context, port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

TOOL, RETRIEVAL, EXTERNAL = "tool", "retrieval", "external"


def install(*, store: str | None = None, agent: str | None = None) -> None:
    """Record this process from here on, into the store found upwards from the working folder (or `store`).

    Does nothing where the process is recorded or replayed already. If the store cannot be written, the program goes on
    and one line on stderr says so (with TACHO_REQUIRE=1, the error is raised instead).
    """
    if port.current is not None:
        port.current.installed()
    else:
        from tachograph.capture import begin  # here and not at the top: a program under `tacho run` never needs it

        begin.begin(store=store, agent=agent)


def _through(
    kind: str, name: str, spec: dict[str, Any], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    keep: Callable[[Any], Any], make: Callable[[Any], Any],
) -> Any:  # fmt: skip
    """Run one declared effect: watched while recording, answered in a replay."""
    listener = port.current
    if listener is None:
        return call(*args, **kwargs)
    inputs = called_with(call, args, kwargs)
    if listener.answers:
        return make(listener.ask_enter(kind, name, spec, inputs).wait())
    exchange = listener.enter(kind, name, spec, inputs)
    token = context.enclosing.set(exchange.effect)
    try:
        result = call(*args, **kwargs)
    except BaseException as fault:
        exchange.leave(b"", fault)
        raise
    finally:
        context.enclosing.reset(token)
    exchange.leave(values.encode(keep(result)))
    return result


async def _through_async(
    kind: str, name: str, spec: dict[str, Any], call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    keep: Callable[[Any], Any], make: Callable[[Any], Any],
) -> Any:  # fmt: skip
    listener = port.current
    if listener is None:
        return await call(*args, **kwargs)
    inputs = called_with(call, args, kwargs)
    if listener.answers:
        return make(await listener.ask_enter(kind, name, spec, inputs).wait_async())
    exchange = listener.enter(kind, name, spec, inputs)
    token = context.enclosing.set(exchange.effect)
    try:
        result = await call(*args, **kwargs)
    except BaseException as fault:
        exchange.leave(b"", fault)
        raise
    finally:
        context.enclosing.reset(token)
    exchange.leave(values.encode(keep(result)))
    return result


def _same(value: Any) -> Any:
    return value


def _declare(
    fn: Any, kind: str, spec: dict[str, Any], keep: Callable[[Any], Any] = _same, make: Callable[[Any], Any] = _same
) -> Any:
    name: str = getattr(fn, "__qualname__", "") or getattr(fn, "__name__", repr(type(fn)))
    if is_coroutine_function(fn):

        async def declared_async(*args: Any, **kwargs: Any) -> Any:
            return await _through_async(kind, name, spec, fn, args, kwargs, keep, make)

        return _dress(declared_async, fn)

    def declared(*args: Any, **kwargs: Any) -> Any:
        return _through(kind, name, spec, fn, args, kwargs, keep, make)

    return _dress(declared, fn)


def _dress(wrapper: Any, fn: Any) -> Any:
    # What functools.wraps does; importing functools costs a recorded program more than these lines.
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        if hasattr(fn, attribute):
            setattr(wrapper, attribute, getattr(fn, attribute))
    wrapper.__wrapped__ = fn
    return wrapper


def tool(fn: Any = None, *, determinism: str = "unknown") -> Any:
    """Declare a function as a tool: its calls become effects, and a replay answers them from the record.

    `determinism` is what you declare of it: `deterministic`, `nondeterministic` or `unknown`.
    Raises TypeError for a generator function.
    """
    if fn is None:
        return lambda decorated: tool(decorated, determinism=determinism)
    return _declare(fn, TOOL, {"determinism": determinism})


def retrieval(
    fn: Any = None, *, configuration: dict[str, Any] | None = None, corpus: str | None = None,
    determinism: str = "unknown",
) -> Any:  # fmt: skip
    """Declare a function as a retrieval that returns entries (`Entry`, or mappings with the same keys).

    `configuration` is how it searches, `corpus` names the version of what it searches in. What is no list of
    entries is kept as it is, and shows no entries. Raises TypeError for a generator function.
    """
    if fn is None:
        return lambda decorated: retrieval(
            decorated, configuration=configuration, corpus=corpus, determinism=determinism
        )  # fmt: skip
    spec = {"configuration": configuration or {}, "corpus": corpus, "determinism": determinism}
    return _declare(fn, RETRIEVAL, spec, keep=entries_of, make=restore_entries)


def external(key: str, fetch: Callable[[], Any], *, source: str | None = None) -> Any:
    """Return `fetch()`, kept under `key`; in a replay the recorded value (or error) comes back without calling it.

    Give a coroutine function and await the result. `source` names where the value comes from, such as a URL.
    """
    if port.current is None:
        return fetch()
    spec = {"source": source, "async": is_coroutine_function(fetch)}
    # The key is the input: what `fetch` closes over is the program's own business.
    if spec["async"]:

        async def fetched_async(_key: str) -> Any:
            return await fetch()

        return _through_async(EXTERNAL, key, spec, fetched_async, (key,), {}, _same, _same)

    def fetched(_key: str) -> Any:
        return fetch()

    return _through(EXTERNAL, key, spec, fetched, (key,), {}, _same, _same)


def observe(key: str, value: Any, *, source: str | None = None) -> None:
    """Keep a value that the program got by other means, so that the record shows what it saw."""
    listener: Any = port.current
    if listener is not None:
        from tachograph.formats.frame import OBSERVE  # here: only a recorded program needs it

        listener.tell(OBSERVE, context.decision.get(), {"key": key, "value": value, "source": source})


def _called(name: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Decision:
    opened = decision(agent=name, request={"args": list(args), "kwargs": kwargs})
    opened.entry = entry_of(fn, args, kwargs)
    return opened


def agent(fn: Any = None, *, name: str | None = None) -> Any:
    """Declare a function as an agent: each call is a decision, its arguments the request, what it returns the outcome.

    A returned string also is the decision's output, unless `d.output(...)` was said. Raises TypeError for a generator
    function.
    """
    if fn is None:
        return lambda decorated: agent(decorated, name=name)
    known = name or f"{fn.__module__}:{fn.__qualname__}"
    if is_coroutine_function(fn):

        async def decide_async(*args: Any, **kwargs: Any) -> Any:
            if port.current is None:
                return await fn(*args, **kwargs)
            async with _called(known, fn, args, kwargs) as opened:
                return opened.returned(await fn(*args, **kwargs))

        return _dress(decide_async, fn)
    is_coroutine_function(fn)  # refuses generator functions

    def decide(*args: Any, **kwargs: Any) -> Any:
        if port.current is None:
            return fn(*args, **kwargs)
        with _called(known, fn, args, kwargs) as opened:
            return opened.returned(fn(*args, **kwargs))

    return _dress(decide, fn)


__all__ = ["Decision", "Entry", "agent", "decision", "external", "install", "observe", "retrieval", "tool"]

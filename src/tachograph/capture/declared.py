"""Entries, and what a declared function was called with."""

from __future__ import annotations

from tachograph.formats import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_COROUTINE, _ITERABLE_COROUTINE, _GENERATOR, _ASYNC_GENERATOR = 0x80, 0x100, 0x20, 0x200  # code flags (inspect)


class Entry:
    """One entry that a retrieval returned.

    `position` is its rank as returned, from 0; `score` as the method gave it; `tier` is `hot`, `warm`, `cold` or your
    own; `provenance` says who wrote it, when, and what kind of source it is. A plain class: a recorded program pays for
    its import.
    """

    __slots__ = (
        "embedding_model", "embedding_version", "id", "method", "position", "provenance", "score", "text", "tier",
    )  # fmt: skip

    def __init__(
        self, *, id: str, text: str, tier: str = "warm", provenance: dict[str, Any] | None = None,
        score: float | None = None, method: str | None = None, position: int | None = None,
        embedding_model: str | None = None, embedding_version: str | None = None,
    ) -> None:  # fmt: skip
        self.id = id
        self.text = text
        self.tier = tier
        self.provenance = provenance or {}
        self.score = score
        self.method = method
        self.position = position
        self.embedding_model = embedding_model
        self.embedding_version = embedding_version

    def as_mapping(self) -> dict[str, Any]:
        """Return the entry as a mapping with its field names as keys."""
        return {name: getattr(self, name) for name in sorted(self.__slots__)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.as_mapping() == other.as_mapping()

    def __hash__(self) -> int:
        return hash((self.id, self.text))

    def __repr__(self) -> str:
        return f"Entry(id={self.id!r}, tier={self.tier!r}, score={self.score!r}, text={self.text[:60]!r})"


def is_coroutine_function(fn: Any) -> bool:
    """Say whether calling `fn` gives a coroutine. Raises TypeError for generator functions."""
    target = getattr(fn, "__func__", fn)
    while hasattr(target, "func") and not hasattr(target, "__code__"):  # functools.partial
        target = target.func
    flags = getattr(getattr(target, "__code__", None), "co_flags", 0)
    if flags & (_GENERATOR | _ASYNC_GENERATOR) and not flags & _ITERABLE_COROUTINE:
        raise TypeError(f"{fn!r} is a generator function: return the whole value instead, so that it can be kept")
    return bool(flags & _COROUTINE)


def called_with(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Encode the arguments of a call; the receiver of a method is left out (it is not an input that can be matched)."""
    code = getattr(fn, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if names and names[0] in ("self", "cls") and args:
        args, names = args[1:], names[1:]
    named = dict(zip(names, args, strict=False))
    rest = list(args[len(names) :])
    return values.encode({**named, **{name: kwargs[name] for name in sorted(kwargs)}, **({"*": rest} if rest else {})})


def entries_of(result: Any) -> dict[str, Any]:
    """Return what is kept of a retrieval's result; of something else than entries (the program's business), itself."""
    listed = result if isinstance(result, (list, tuple)) else (result,)
    if listed is not result or not all(
        isinstance(one, Entry) or (isinstance(one, dict) and "text" in one) for one in result
    ):
        return {"value": result}
    return {
        "entries": [one.as_mapping() if isinstance(one, Entry) else one for one in result],
        "were": [isinstance(one, Entry) for one in result],
        "tuple": isinstance(result, tuple),
    }


def restore_entries(kept: dict[str, Any]) -> Any:
    """Undo `entries_of`."""
    if "value" in kept:
        return kept["value"]
    made: list[Any] = [
        Entry(**one) if was else one for one, was in zip(kept["entries"], kept["were"], strict=True)
    ]  # fmt: skip
    return tuple(made) if kept["tuple"] else made


def named(fn: Callable[..., Any]) -> str:
    """Return the name under which a function's calls are kept."""
    return getattr(fn, "__qualname__", None) or repr(type(fn))

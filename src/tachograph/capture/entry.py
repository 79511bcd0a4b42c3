"""How an agent function can be called again: kept with each decision that a call of it opens.

Kept are where the function is found, whether its arguments are JSON, and what of the process it may look at
(`sys.path`, `sys.argv`); and where its place in the run stood, since tasks and threads are counted from there. What
cannot be called again says so while recording: `why`.
"""

from __future__ import annotations

import os
import sys

from tachograph.seams import context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DEEP = 50  # levels: a value that is deeper is not looked into, and called no JSON
_LIBRARY = os.path.dirname(os.__file__)


def entry_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a replay of this call alone needs; `why` is there where it cannot be made again."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None) if fn.__module__ == "__main__" else None
    said: dict[str, Any] = {
        "module": fn.__module__,
        "qualname": fn.__qualname__,
        "file": None if file is None else os.path.abspath(file),
        "code": getattr(getattr(fn, "__code__", None), "co_filename", file),
        "path": [place for place in sys.path if not place.startswith(_LIBRARY)],
        "argv": list(sys.argv),
        "children": context.here().counted(),
    }
    why = _why_not(fn, file, args, kwargs)
    return said if why is None else {**said, "why": why}


def _why_not(fn: Callable[..., Any], file: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    if "<" in fn.__qualname__:
        return f"{fn.__qualname__} is made inside another function, so it cannot be imported"
    if fn.__module__ == "__main__" and (file is None or not os.path.isfile(file)):
        return "it stands in a program that has no file"
    for name, value in [*enumerate(args), *kwargs.items()]:
        if not is_json(value):
            return f"its argument {name} ({type(value).__qualname__}) is no JSON value"
    return None


def is_json(value: Any, level: int = 0) -> bool:
    """Say whether JSON has a word for exactly this value."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return True
    if level > _DEEP:
        return False
    if kind is list:
        return all(is_json(one, level + 1) for one in value)
    return kind is dict and all(type(name) is str and is_json(one, level + 1) for name, one in value.items())

"""What is started to replay one decision alone: imports the agent function's module and calls it with its arguments.

`python -m tachograph.replay.entry`, inside the closed world, with the run's environment and folder. The call stands on
the recorded task path, and counts its tasks and threads on from where they were. A program's own file is loaded as
`multiprocessing` does it, so that its `if __name__ == "__main__"` block does not run. Exit status 1 where the function
raised, as a program would have; 2 where it could not be found.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from types import ModuleType
from typing import Any

from tachograph.formats import frame as fr
from tachograph.replay.playback import Playback
from tachograph.seams import context, injection, port

MAIN = "__mp_main__"


def main() -> int:
    """Call the function of the decision that the engine named; returns the exit status."""
    playback = port.current
    assert isinstance(playback, Playback)
    number = int(injection.setting("ALONE"))
    opened = next(fact for fact in playback.log.of(fr.OPEN) if fact.decision == number)
    said = opened.said
    entry, request = said["entry"], said["request"]
    inside = {number} | {fact.decision for fact in playback.log.of(fr.OPEN)}
    for effect in playback.log.effects:
        if effect.decision not in inside:
            playback.order.release(effect)
    sys.argv[:] = entry["argv"]
    sys.path[:] = [*entry["path"], *(place for place in sys.path[1:] if place not in entry["path"])]
    try:
        function = found(entry)
    except Exception:  # noqa: BLE001 - the program's own modules are run: whatever they raise is told
        traceback.print_exc()
        return 2
    place = context.Place(opened.path, counted=entry["children"])
    try:
        call(function, request["args"], request["kwargs"], place)
    except Exception:  # noqa: BLE001 - as above, the decision says it too
        traceback.print_exc()
        return 1
    return 0


def found(entry: dict[str, Any]) -> Any:
    """Return the function, importing its module. Raises what the import raises, AttributeError."""
    target: Any = load(entry["file"], entry["code"]) if entry["file"] else importlib.import_module(entry["module"])
    for name in entry["qualname"].split("."):
        target = getattr(target, name)
    return target


def load(file: str, code: str) -> ModuleType:
    """Load a program's own file, under the name that its code had, without running what it does as a program."""
    module = ModuleType(MAIN)
    module.__file__ = file
    sys.modules["__main__"] = sys.modules[MAIN] = module
    with open(file, "rb") as source:
        exec(compile(source.read(), code, "exec"), module.__dict__)
    return module


def call(function: Any, args: list[Any], kwargs: dict[str, Any], place: context.Place) -> Any:
    """Call it at that place in the run; a coroutine function on a loop of its own."""
    with context.standing_at(place):
        result = function(*args, **kwargs)
    if not hasattr(result, "__await__"):
        return result
    import asyncio  # here and not at the top: a function that needs no loop must not pay for it

    async def there() -> Any:
        with context.standing_at(place):
            return await result

    return asyncio.run(there())


if __name__ == "__main__":
    sys.exit(main())

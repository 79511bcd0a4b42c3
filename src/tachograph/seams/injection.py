"""Injection: how Tachograph gets into a program that does not know it, and into that program's children.

One folder (`injected/`) stands first on PYTHONPATH and holds a `sitecustomize` that any Python can parse. It takes
itself out of `os.environ` and `sys.path` again, so that the program sees the environment it would have had, runs the
next `sitecustomize`, and starts the module that the environment names (record or replay: injection knows neither).
What it took out is kept here and put back into the environment of every child that passes a seam.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "injected")
HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LENT = ("cryptography", "cffi", "_cffi_backend", "pycparser")
PREFIX = "TACHO_IN_"

_taken: dict[str, str] = {}
_seed: list[str] = []


def libraries() -> str:
    """Return the folder in which our own `cryptography` lies, for programs that lack it."""
    import cryptography  # here and not at the top: only the process that starts a program needs it

    return os.path.dirname(os.path.dirname(os.path.abspath(cryptography.__file__)))


def inject(environment: dict[str, str], *, entry: str, settings: dict[str, str]) -> dict[str, str]:
    """Return the environment that starts a program under `entry`: the module whose `start(settings)` is called."""
    injected = dict(environment)
    before = environment.get("PYTHONPATH")
    injected["PYTHONPATH"] = FOLDER if not before else FOLDER + os.pathsep + before
    injected[PREFIX + "ENTRY"] = entry
    injected[PREFIX + "HOME"] = HOME
    for name, value in settings.items():
        injected[PREFIX + name] = value
    return injected


def take(environment: dict[str, str]) -> None:
    """Keep what the injected `sitecustomize` took out of this process's environment."""
    _taken.update(environment)
    seed = _taken.get(PREFIX + "SEED") or os.environ.get("PYTHONHASHSEED", "")
    _seed[:] = [seed] if seed.isdigit() else []


def setting(name: str, default: str = "") -> str:
    """Return a setting with which this process was started."""
    return _taken.get(PREFIX + name, default)


def is_injected() -> bool:
    """Say whether this process was started with Tachograph in it."""
    return bool(_taken)


def for_child(environment: Mapping[Any, Any] | None, **changed: str) -> Any:
    """Return a child's environment with ourselves put back; unchanged where this process was not injected.

    None stands for this process's environment. Where the program gives the child no hash seed, it gets the run's, and
    does not see it: sets are to be in the same order when it runs again.
    """
    if not _taken:
        return environment
    given = os.environ if environment is None else environment
    try:
        named = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
    except (TypeError, ValueError, AttributeError):
        return environment  # whoever starts the child says what is wrong with it
    settings = {name[len(PREFIX) :]: value for name, value in _taken.items() if name.startswith(PREFIX)}
    entry = settings.pop("ENTRY")
    settings.pop("HOME", None)
    if _seed:
        settings["SEED"] = _seed[0]
        settings.pop("NOSEED", None)
        if "PYTHONHASHSEED" not in named:
            named["PYTHONHASHSEED"], settings["NOSEED"] = _seed[0], "1"
    return inject(named, entry=entry, settings={**settings, **changed})


def marker(reason: str) -> None:
    """Leave word, beside the spool, that this process could not be watched."""
    folder, run = _taken.get(PREFIX + "SPOOL"), _taken.get(PREFIX + "RUN")
    if folder and run:
        try:
            with open(os.path.join(folder, f"{run}.{os.getpid()}.bypassed"), "w", encoding="utf-8") as file:
                file.write(f"{sys.executable}: {reason}")
        except OSError:
            pass

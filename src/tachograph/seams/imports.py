"""Patch a module when the program imports it, or at once if it has.

One finder stands first on `sys.meta_path` and knows the names that wait. It lets the other finders find the module,
runs it under its own loader, then calls what waited. Invariants:

- a module that nobody imports is never imported by us;
- what the program sees of the module (`__spec__.loader`, `__loader__`) is what it would have seen;
- a patch that fails, or comes while the module is being imported, is kept in `failures` and never breaks that import.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Patch = Callable[[ModuleType], None]

_waiting: dict[str, list[Patch]] = {}
failures: list[tuple[str, BaseException]] = []


def when_imported(name: str, patch: Patch) -> None:
    """Call `patch(module)` after the module of that name has run; at once if it has already."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _apply(name, patch, module)
        return
    if module is not None:  # another thread is in the midst of importing it, past any finder
        failures.append((name, ImportError(f"{name} was being imported when its seam came")))
        return
    if not _waiting and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _waiting.setdefault(name, []).append(patch)


def _apply(name: str, patch: Patch, module: ModuleType) -> None:
    try:
        patch(module)
    except Exception as fault:  # noqa: BLE001 - the program's edge: its import must succeed as it would without us
        failures.append((name, fault))


class _Loader:
    """The module's own loader, followed by the patches that waited for it."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        for patch in _waiting.pop(self._name, ()):
            _apply(self._name, patch, module)


class _Finder:
    """Finds nothing itself: asks the other finders and wraps the loader of a module that is waited for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, name)
                return spec
        return None


_finder: Any = _Finder()

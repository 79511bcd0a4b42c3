"""Tachograph: find the input that made your agent fail, and prove it.

The names below are the public surface (a list under test). They are exported lazily, the one place in the house where
an import is not at the top: a program that only calls `tachograph.install()` must not pay for the rest.
"""

from __future__ import annotations

from tachograph.version import VERSION

TYPE_CHECKING = False  # not from typing: that import costs a recorded program 7 ms
if TYPE_CHECKING:
    from typing import Any

    from tachograph.capture.api import (
        Decision,
        Entry,
        agent,
        decision,
        external,
        install,
        observe,
        retrieval,
        tool,
    )
    from tachograph.formats.values import NotRestored
    from tachograph.library import Store

__version__ = VERSION

_HOME = {
    "Decision": "tachograph.capture.api",
    "Entry": "tachograph.capture.api",
    "NotRestored": "tachograph.formats.values",
    "Store": "tachograph.library",
    "agent": "tachograph.capture.api",
    "decision": "tachograph.capture.api",
    "external": "tachograph.capture.api",
    "install": "tachograph.capture.api",
    "observe": "tachograph.capture.api",
    "retrieval": "tachograph.capture.api",
    "tool": "tachograph.capture.api",
}

__all__ = [
    "Decision",
    "Entry",
    "NotRestored",
    "Store",
    "__version__",
    "agent",
    "decision",
    "external",
    "install",
    "observe",
    "retrieval",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Import the module in which a public name lives, once, when it is first asked for."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'tachograph' has no attribute {name!r}")
    value = getattr(__import__(home, fromlist=[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

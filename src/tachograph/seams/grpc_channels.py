"""gRPC has no seam yet: its sockets are native, so that not even an audit hook sees them.

What can be seen is that a channel is opened. A recorder notes it (coverage counts it, and the plan of a replay refuses
with that reason), a playback refuses it.
"""

from __future__ import annotations

from tachograph.seams import port
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

OPENERS = ("insecure_channel", "secure_channel")


def _patch(module: ModuleType) -> None:
    for name in OPENERS:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _noting(original))


def _noting(original: Any) -> Any:
    def opened(target: Any, *args: Any, **kwargs: Any) -> Any:
        if port.current is not None:
            port.current.note("bypassed.grpc", str(target))
        return original(target, *args, **kwargs)

    return opened


def install() -> None:
    """Note channels, sync and async, when the program imports grpc."""
    when_imported("grpc", _patch)
    when_imported("grpc.aio", _patch)

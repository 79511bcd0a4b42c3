"""Frames that say what their kind says: what a recorded program sealed is evidence, and may still be nonsense.

A program holds the key of its own spool file, so a record that decrypts is not thereby one that the recorder wrote.
Guarantees:

- a fact that leaves here is a mapping with the entries that readers rely on, each of its type;
- frames that only intake or a replay writes are refused: no program can forge what intake says of its run;
- effects are not read here: what does not parse there makes the run's log unreadable, and the run stays in the spool.
"""

from __future__ import annotations

from typing import Any

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.file_state import read_state
from tachograph.model.identity import is_id

_TIMES: dict[str, Any] = {"startedAt": int, "monotonicNs": int}
_SAYS: dict[int, dict[str, Any]] = {
    fr.RUN: {"argv": list, **_TIMES},
    fr.PROCESS: _TIMES,
    fr.AROUND: {},
    fr.FILES_READ: {},
    fr.NOTE: {"what": str, "detail": str},
    fr.STARTED: {"pid": int, "path": str},
    fr.ADOPTED: {"pid": int, "decision": int, "effect": int},
    fr.ENDED: {},
    fr.OPEN: {"id": str},
    fr.CLOSE: {},
    fr.OUTPUT: {"text": str, "stopReason": str},
    fr.CONFIGURE: {},
    fr.FAIL: {},
    fr.OBSERVE: {"key": str, "value": object},
}
_REQUEST: dict[str, Any] = {
    "listener": (list, str, bytes), "peer": (list, str, bytes), "since": int, "serving": int, "path": str,
    "children": dict, "opened": dict, "tags": bytes, "answered": bool,
}  # fmt: skip
_BY_TACHO_RUN: dict[str, Any] = {"exitCode": int, "signal": (int, type(None))}


def sift(data: bytes) -> fr.Frame:
    """Read one frame of a spool file. Raises FormatError for one that says nothing that its kind says."""
    frame = fr.read_frame(data)
    kind = frame.kind
    if kind not in fr.NAMES or kind >= fr.READY or kind in (fr.ABOUT, fr.ANSWERED):
        raise FormatError(f"a frame of kind {fr.NAMES.get(kind, kind)!r} is none that a recorder writes")
    if kind in _SAYS:
        wanted = _BY_TACHO_RUN if kind == fr.ENDED and frame.flags == 1 else _SAYS[kind]
        said = values.decode(frame.payload)
        if not isinstance(said, dict) or not all(
            name in said and isinstance(said[name], of) for name, of in wanted.items()
        ):
            raise FormatError(f"a {fr.NAMES[kind]} frame does not say {', '.join(wanted) or 'anything'}")
        if kind == fr.OPEN and not is_id(said["id"], "dec"):
            raise FormatError("an open frame names no decision")
    elif kind == fr.STREAM and frame.flags not in (0, 1, 2):
        raise FormatError(f"a stream frame of stream {frame.flags}")
    elif kind in (fr.FILE_BEFORE, fr.FILE_AFTER):
        read_state(frame.payload)
    elif kind == fr.FILE_PART:
        fr.unpack_fields(frame.payload)
    elif kind == fr.INBOUND and frame.flags == 1:
        _inbound(values.decode(frame.payload))
    elif kind == fr.PATH:
        _text(frame.payload)
    elif kind == fr.SITE and len(fr.unpack_fields(frame.payload)[0]) != 4:
        raise FormatError("a site frame does not have four parts")
    return frame


def _inbound(said: Any) -> None:
    """What is said of a request that came in: why it cannot be sent again, or how."""
    wanted = {"why": str} if isinstance(said, dict) and "why" in said else _REQUEST
    if not isinstance(said, dict) or not all(isinstance(said.get(name), of) for name, of in wanted.items()):
        raise FormatError("an inbound frame does not say how its request came")


def _text(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError as fault:
        raise FormatError(f"a path frame is no text: {fault}") from fault

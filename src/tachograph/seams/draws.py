"""The seam of draws: clock and randomness, wherever the program asks for them.

A draw is keyed by its kind, task path, call site and how often it came there before. Rules (DESIGN section 4, "Draws"):

- the live program's entropy is never replaced: the original is called, then the value is handed over;
- calls from the standard library pass through (a log record's time stamp is no input of the decision); `random`,
  `secrets`, `uuid` and `tempfile` are looked through, so that a draw counts where the program asked for it;
- only the outermost of nested draws counts: `uuid4()` is one draw, not also the `urandom` inside it;
- perf_counter, monotonic and process_time count only where the program's own files call them;
- what a client library draws while it connects is none: a replay makes no connection, and would not draw it again.

Names bound earlier are reached: module attributes are replaced before the program imports them, `datetime` through its
type's own dict (identity, isinstance and pickling stay), `random`'s module functions through the two primitives of
their hidden instance, `secrets` through `random._urandom`. Not reached, and listed by `doctor`: native generators.
"""

from __future__ import annotations

import os
import sys
import time
from sys import _getframe

from tachograph.formats.frame import fields
from tachograph.seams import port
from tachograph.seams.context import connecting
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType, ModuleType
    from typing import Any

KINDS = (
    "", "time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "time.localtime", "time.gmtime", "time.strftime", "time.ctime", "time.asctime", "uuid.uuid1", "uuid.uuid4",
    "os.urandom", "os.getrandom", "random.random", "random.getrandbits", "random.seed", "time.perf_counter",
    "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns", "time.process_time", "time.process_time_ns",
    "socket.bind",
)  # fmt: skip
_NUMBER = {name: number for number, name in enumerate(KINDS)}

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = os.sep + "site-packages" + os.sep
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Standard-library modules that draw on behalf of whoever called them.
_THROUGH = frozenset(_LIBRARY + name for name in ("random.py", "secrets.py", "uuid.py", "tempfile.py"))

_PASS, _COUNTS, _OWN = 1, 2, 3
_standing: dict[int, tuple[int, Any]] = {}  # id of a code object -> (how it stands, the object: it keeps the id taken)


def _stand(code: CodeType) -> int:
    """Say whether calls from this code pass through, count, or come from the program's own files."""
    name = code.co_filename
    if name.startswith(_OURS) or name.startswith("<frozen"):
        stand = _PASS
    elif _INSTALLED in name:
        stand = _COUNTS
    else:
        stand = _PASS if name.startswith(_LIBRARY) else _OWN
    _standing[id(code)] = stand, code
    return stand


def number_of(kind: str) -> int:
    """Return the number of a kind of draw that another seam hands over."""
    return _NUMBER[kind]


def asked_from(frame: FrameType) -> tuple[CodeType, int]:
    """Return the place that a draw made in this frame counts at: the nearest one outside the standard library."""
    outside: FrameType | None = frame
    while outside is not None:
        code = outside.f_code
        known = _standing.get(id(code))
        if (known[0] if known is not None else _stand(code)) != _PASS:
            return code, outside.f_lasti
        outside = outside.f_back
    return frame.f_code, frame.f_lasti  # `python -m http.server`: nobody else is there


def _looked_through(frame: FrameType | None) -> FrameType | None:
    while frame is not None and frame.f_code.co_filename in _THROUGH:
        frame = frame.f_back
    return frame


def _wrap(
    kind: str, original: Callable[..., Any], *, own_only: bool = False, through: bool = False,
    keep: Callable[[Any], Any] | None = None, remake: Callable[..., Any] | None = None, no_arguments: int = -1,
    above: int = 1,
) -> Callable[..., Any]:  # fmt: skip
    """Wrap one source of draws.

    `keep` turns the value into what a frame can hold, `remake` turns that back (given the call's arguments too);
    `no_arguments` >= 0 limits it to calls with at most so many: `localtime()` draws, `localtime(0)` does not.
    `above` is how many calls up whoever asks stands.
    """
    number = _NUMBER[kind]
    least = _OWN if own_only else _COUNTS

    def draw(*args: Any, **kwargs: Any) -> Any:
        listener = port.current
        if listener is None or (no_arguments >= 0 and len(args) > no_arguments):
            return original(*args, **kwargs)
        frame: Any = _getframe(above)
        if through:
            frame = _looked_through(frame)
            if frame is None:
                return original(*args, **kwargs)
        code = frame.f_code
        known = _standing.get(id(code))
        stand = known[0] if known is not None else _stand(code)
        if stand < least or (stand == _COUNTS and connecting.get()):
            return original(*args, **kwargs)
        if listener.answers:
            kept = listener.redraw(number, code, frame.f_lasti)
            if kept is not port.MISSING:
                return kept if remake is None else remake(kept, *args, **kwargs)
            return original(*args, **kwargs)
        value = original(*args, **kwargs)
        listener.drew(number, code, frame.f_lasti, value if keep is None else keep(value))
        return value

    draw.__name__ = draw.__qualname__ = kind.partition(".")[2]
    return draw


def _patch_time(module: ModuleType) -> None:
    for name in ("time", "time_ns"):
        setattr(module, name, _wrap(f"time.{name}", getattr(module, name)))
    for name in ("perf_counter", "monotonic", "process_time"):
        for full in (name, name + "_ns"):
            setattr(module, full, _wrap(f"time.{full}", getattr(module, full), own_only=True))
    made: dict[str, Any] = {"keep": _kept_struct, "remake": lambda kept, *_: time.struct_time(kept), "no_arguments": 0}
    for name in ("localtime", "gmtime"):
        setattr(module, name, _wrap(f"time.{name}", getattr(module, name), **made))
    for name, most in (("strftime", 1), ("ctime", 0), ("asctime", 0)):
        same: dict[str, Any] = {"remake": lambda kept, *_: kept, "no_arguments": most}
        setattr(module, name, _wrap(f"time.{name}", getattr(module, name), **same))


def _kept_struct(value: time.struct_time) -> tuple[Any, ...]:
    return (*value, value.tm_zone, value.tm_gmtoff)


def _patch_os(module: ModuleType) -> None:
    same: dict[str, Any] = {"through": True, "remake": lambda kept, *_, **__: kept}
    module.urandom = _wrap("os.urandom", module.urandom, **same)  # type: ignore[attr-defined]
    if hasattr(module, "getrandom"):
        module.getrandom = _wrap("os.getrandom", module.getrandom, **same)  # type: ignore[attr-defined]


def _patch_uuid(module: ModuleType) -> None:
    for name in ("uuid1", "uuid4"):
        wrapped = _wrap(
            f"uuid.{name}",
            getattr(module, name),
            keep=lambda value: value.bytes,
            remake=lambda kept, *_, **__: module.UUID(bytes=kept),
        )
        setattr(module, name, wrapped)


def _patch_random(module: ModuleType) -> None:
    hidden = module._inst
    module._urandom = os.urandom  # type: ignore[attr-defined]  # SystemRandom and secrets bound the original
    same: dict[str, Any] = {"through": True, "remake": lambda kept, *_: kept}
    for name in ("random", "getrandbits"):
        wrapped = _wrap(f"random.{name}", getattr(hidden, name), **same)
        setattr(hidden, name, wrapped)
        setattr(module, name, wrapped)
    seed = module.Random.seed
    seeded = _wrap(
        "random.seed", lambda self: _seeded(self, seed), through=True, keep=_state, remake=_restore, above=2
    )  # fmt: skip

    def seed_or_draw(self: Any, a: Any = None, *args: Any, **kwargs: Any) -> None:
        if a is None and not args and not kwargs:
            seeded(self)
        else:
            seed(self, a, *args, **kwargs)

    module.Random.seed = seed_or_draw
    module.seed = hidden.seed  # type: ignore[attr-defined]


def _seeded(generator: Any, seed: Callable[..., None]) -> Any:
    seed(generator)
    return generator


def _state(generator: Any) -> bytes:
    state = sys.modules["random"].Random.getstate(generator)  # a program's own class may answer otherwise
    return b"".join(number.to_bytes(4, "little") for number in state[1])


def _restore(kept: bytes, generator: Any) -> None:
    numbers = tuple(int.from_bytes(kept[at : at + 4], "little") for at in range(0, len(kept), 4))
    sys.modules["random"].Random.setstate(generator, (3, numbers, None))


def _patch_datetime(module: ModuleType) -> None:
    for kind, owner, name in (
        ("datetime.now", module.datetime, "now"),
        ("datetime.utcnow", module.datetime, "utcnow"),
        ("datetime.today", module.datetime, "today"),
        ("date.today", module.date, "today"),
    ):
        _replace_in_type(kind, owner, name)


def _replace_in_type(kind: str, owner: Any, name: str) -> None:
    # A static type refuses setattr; its dict can be reached through the garbage collector and told so afterwards.
    import ctypes  # here and not at the top: 8 ms that only a program importing datetime pays
    import gc

    descriptor = owner.__dict__.get(name)
    if descriptor is None:  # datetime.today is inherited from date on some builds
        return

    def call(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return descriptor.__get__(None, cls)(*args, **kwargs)

    wrapped = _wrap(kind, call, keep=_kept_moment, remake=_remade_moment)
    gc.get_referents(owner.__dict__)[0][name] = classmethod(wrapped)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _kept_moment(value: Any) -> tuple[Any, ...]:
    if not hasattr(value, "hour"):
        return value.year, value.month, value.day
    return value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond, value.fold


def _remade_moment(kept: tuple[int, ...], cls: Any, tz: Any = None) -> Any:
    if len(kept) == 3:
        return cls(*kept)
    return cls(*kept[:7], tzinfo=tz, fold=kept[7])


def site_of(kind: int, code: CodeType, at: int) -> bytes:
    """Describe a call site so that an edit elsewhere in its file leaves it the same.

    Kind, file (its last two parts), qualified name, and the text of the source line; where no source can be read
    (`python -c`), the line's distance from the function's first line instead.
    """
    file, qualname, text = line_of(code, at)
    return fields(KINDS[kind].encode(), file.encode("utf-8", "replace"), qualname.encode(), text.encode())


def line_of(code: CodeType, at: int) -> tuple[str, str, str]:
    """Return file (its last two parts), qualified name and source line of an instruction."""
    line = next((number for start, end, number in code.co_lines() if start <= at < end and number), code.co_firstlineno)
    text = _source_line(code.co_filename, line) or f"+{line - code.co_firstlineno}"
    file = "/".join(code.co_filename.replace(os.sep, "/").split("/")[-2:])
    return file, getattr(code, "co_qualname", code.co_name), text


_source: dict[str, list[str]] = {}


def _source_line(name: str, number: int) -> str:
    lines = _source.get(name)
    if lines is None:
        try:
            with open(name, encoding="utf-8", errors="replace") as file:
                lines = file.read().split("\n")
        except OSError:
            lines = []
        _source[name] = lines
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def install() -> None:
    """Watch every source: those that are loaded already now, the others when the program imports them."""
    _patch_time(time)
    _patch_os(sys.modules["os"])
    for name, patch in (("uuid", _patch_uuid), ("random", _patch_random), ("datetime", _patch_datetime)):
        when_imported(name, patch)

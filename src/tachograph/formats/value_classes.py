"""Objects taken apart and put together: which state of which kinds of class `values` writes, and how it comes back.

Two families, each object as a tag and a tuple of parts:

- of the standard library: datetime, date, time, timedelta, timezone, ZoneInfo, Decimal, UUID, pure paths, range,
  OrderedDict, deque. Only the exact classes: a subclass may mean anything;
- of the program: enum members, named tuples, dataclasses, pydantic models, exceptions, by module and qualified name.

Of the program's classes nothing is called when an object is made again: no `__init__`, `__new__`, validator or
`__setstate__`. The bare object gets the recorded attributes, and only if the class found under the name is of the same
kind with the same fields; otherwise there is no object (R15). pydantic's `model_dump` and `model_validate` are not used
on purpose: a dump forgets the classes inside, and a validator may reject or change what was once valid.

Only modules that are loaded already are looked at while recording. Standard library only.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Classes = Callable[[str, str], type | None]
    Parts = tuple[str, Any]


# --- classes by name --------------------------------------------------------------------------------------------------


def loaded_class(module: str, qualname: str) -> type | None:
    """Return the class of that name from a module that is loaded already, or None."""
    found: Any = sys.modules.get(module)
    for step in qualname.split("."):
        found = getattr(found, step, None)
    return found if isinstance(found, type) else None


def importable_class(module: str, qualname: str) -> type | None:
    """Return the class of that name, importing its module if need be, or None. Only for a replay's own process."""
    if module not in sys.modules:
        try:
            __import__(module)
        except Exception:  # noqa: BLE001  # a module may fail at import in any way; its classes are then not there
            return None
    return loaded_class(module, qualname)


def no_class(_module: str, _qualname: str) -> type | None:
    """Find nothing: for readers that must not run anything of the program."""
    return None


def _stands_under_its_name(kind: type) -> bool:
    return loaded_class(kind.__module__, kind.__qualname__) is kind


# --- taking apart -----------------------------------------------------------------------------------------------------


def taken_apart(value: Any) -> Parts | None:
    """Return a tag and the parts of an object, or None where it is of no kind that can be put together again."""
    kind = type(value)
    if not _stands_under_its_name(kind):
        return None
    take = _STANDARD.get((kind.__module__.partition("._")[0], kind.__qualname__))  # 3.13: pathlib._local
    if take is not None:
        return take(value)
    for test, take_kind in _KINDS:
        if test(kind):
            parts = take_kind(value, kind)
            return parts and (parts[0], (kind.__module__, kind.__qualname__, *parts[1]))
    return None


def _take_datetime(value: Any) -> Parts:
    return "D", (value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo)


def _take_time(value: Any) -> Parts:
    return "H", (value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo)


def _take_zone(value: Any) -> Parts | None:
    return ("Q", (value.key,)) if value.key is not None else None


_STANDARD: dict[tuple[str, str], Callable[[Any], Parts | None]] = {
    ("datetime", "datetime"): _take_datetime,
    ("datetime", "date"): lambda value: ("A", (value.isoformat(),)),
    ("datetime", "time"): _take_time,
    ("datetime", "timedelta"): lambda value: ("W", (value.days, value.seconds, value.microseconds)),
    ("datetime", "timezone"): lambda value: ("Z", value.__getinitargs__()),
    ("zoneinfo", "ZoneInfo"): _take_zone,
    ("decimal", "Decimal"): lambda value: ("E", (str(value),)),
    ("uuid", "UUID"): lambda value: ("U", (value.bytes,)),
    ("builtins", "range"): lambda value: ("R", (value.start, value.stop, value.step)),
    ("collections", "OrderedDict"): lambda value: ("O", ([list(item) for item in value.items()],)),
    ("collections", "deque"): lambda value: ("K", (list(value), value.maxlen)),
}
for _path in ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath"):
    _STANDARD["pathlib", _path] = lambda value: ("P", (type(value).__name__, str(value)))


def _is_exception(kind: type) -> bool:
    return issubclass(kind, BaseException)


def _take_exception(value: Any, kind: type) -> Parts | None:
    """Arguments, attributes, the builtin class's own fields, and the cause; no traceback, no context."""
    builtin = _builtin_base(kind)
    names = [name for base, own in _FIELDS if issubclass(builtin, base) for name in own]
    fields = {name: getattr(value, name, None) for name in names}
    state = _state_of(value, kind)
    return "X", (builtin.__name__, BaseException.args.__get__(value), fields, state, value.__cause__)  # type: ignore[attr-defined]


# Attributes that builtin exceptions keep outside `__dict__` and that their arguments do not set.
_FIELDS = ((OSError, ("filename", "filename2")), (ImportError, ("name", "path")))


def _builtin_base(kind: type) -> type:
    """The builtin exception that lays out the object: its constructor is the interpreter's own."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def _is_enum(kind: type) -> bool:
    module = sys.modules.get("enum")
    return module is not None and issubclass(kind, module.Enum)


def _take_enum(value: Any, kind: Any) -> Parts | None:
    return "M", (value._name_, value._value_)


def _is_tuple(kind: type) -> bool:
    return issubclass(kind, tuple)


def _take_namedtuple(value: Any, kind: Any) -> Parts | None:
    items = tuple(tuple.__iter__(value))
    if len(kind._fields) != len(items) or _state_of(value, kind):
        return None
    return "N", (kind._fields, items)


def _is_dataclass(kind: Any) -> bool:
    return type(getattr(kind, "__dataclass_fields__", None)) is dict and kind.__new__ is object.__new__


def _take_dataclass(value: Any, kind: Any) -> Parts:
    return "B", (_dataclass_fields(kind), _state_of(value, kind))


def _is_model(kind: Any) -> bool:
    module = sys.modules.get("pydantic.main")
    return module is not None and issubclass(kind, module.BaseModel) and kind.__new__ is object.__new__


def _take_model(value: Any, kind: Any) -> Parts:
    return "Y", (_model_fields(kind), *[object.__getattribute__(value, name) for name in _MODEL_STATE])


_MODEL_STATE = ("__dict__", "__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__")

_KINDS: tuple[tuple[Callable[[type], bool], Callable[[Any, type], Parts | None]], ...] = (
    (_is_exception, _take_exception),
    (_is_enum, _take_enum),
    (_is_tuple, _take_namedtuple),
    (_is_dataclass, _take_dataclass),
    (_is_model, _take_model),
)


def _dataclass_fields(kind: Any) -> tuple[str, ...]:
    """The names of the real fields: class variables and init-only ones hold no state."""
    fields = kind.__dataclass_fields__
    return tuple([name for name, one in fields.items() if getattr(one._field_type, "name", "") == "_FIELD"])


def _model_fields(kind: Any) -> tuple[str, ...]:
    fields = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", {})
    return tuple(fields)


def _state_of(value: Any, kind: type) -> dict[str, Any]:
    """Attributes of the instance, from `__dict__` and slots, sorted by name so that equal states have equal bytes."""
    state: dict[str, Any] = {}
    for name, member in _slots(kind).items():
        try:
            state[name] = member.__get__(value)
        except AttributeError:
            pass  # declared and never set
    try:
        state.update(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        pass  # slots only
    return dict(sorted(state.items()))


def _slots(kind: type) -> dict[str, Any]:
    """The slots that classes of the program declare; those of builtins (`OSError.errno`) are not theirs to set."""
    return {
        name: member
        for base in reversed(kind.__mro__)
        if base.__module__ != "builtins"
        for name, member in vars(base).items()
        if type(member) is _MEMBER
    }


class _Slotted:
    __slots__ = ("one",)


_MEMBER = type(_Slotted.__dict__["one"])


# --- putting together -------------------------------------------------------------------------------------------------


def put_together(tag: str, parts: Any, classes: Classes) -> Any:
    """Return the object of these parts, or None where there is no class of that kind with those fields."""
    if tag in _MAKE_STANDARD:
        return _MAKE_STANDARD[tag](*parts)
    module, qualname, *rest = parts
    make = _MAKE.get(tag)
    kind = classes(module, qualname) if make is not None else None
    return None if kind is None or make is None else make(kind, *rest)


def _datetime() -> Any:
    import datetime  # a program that never used a date need not load it

    return datetime


def _make_moment(name: str) -> Callable[[str, int, Any], Any]:
    def make(text: str, fold: int, zone: Any) -> Any:
        # TypeError, hence no object, where the zone was not restored: a moment without it is another moment
        return getattr(_datetime(), name).fromisoformat(text).replace(fold=fold, tzinfo=zone)

    return make


def _make_path(name: str, text: str) -> Any:
    return _from("pathlib", name, text) if ("pathlib", name) in _STANDARD else None


def _from(module: str, name: str, *arguments: Any, **named: Any) -> Any:
    return getattr(__import__(module), name)(*arguments, **named)


_MAKE_STANDARD: dict[str, Callable[..., Any]] = {
    "D": _make_moment("datetime"),
    "H": _make_moment("time"),
    "A": lambda text: _datetime().date.fromisoformat(text),
    "W": lambda days, seconds, micros: _datetime().timedelta(days, seconds, micros),
    "Z": lambda *arguments: _datetime().timezone(*arguments),
    "Q": lambda key: _from("zoneinfo", "ZoneInfo", key),
    "E": lambda text: _from("decimal", "Decimal", text),
    "U": lambda data: _from("uuid", "UUID", bytes=data),
    "R": range,
    "O": lambda items: _from("collections", "OrderedDict", items),
    "K": lambda items, most: _from("collections", "deque", items, most),
    "P": _make_path,
}


def _make_exception(
    kind: Any, builtin: str, arguments: Any, fields: dict[str, Any], state: dict[str, Any], cause: Any
) -> Any:
    base: Any = _builtin_base(kind)  # `object`, where the class is no exception any more
    if base.__name__ != builtin or set(_slots(kind)) - set(state):
        return None
    made = base.__new__(kind, *arguments)
    base.__init__(made, *arguments)  # the interpreter's own; the class's is not called
    made.args = arguments
    for name, value in fields.items():
        if value is not None:
            setattr(made, name, value)
    _set_state(made, kind, state)
    if isinstance(cause, BaseException):
        made.__cause__ = cause
    return made


def _make_enum(kind: Any, name: str, value: Any) -> Any:
    """Combined flags are no members, and are not made again."""
    member = kind._member_map_.get(name)
    return member if member is not None and member._value_ == value else None


def _make_namedtuple(kind: Any, fields: Any, items: Any) -> Any:
    if kind._fields != fields or len(fields) != len(items):
        return None
    return tuple.__new__(kind, items)


def _make_dataclass(kind: Any, fields: Any, state: dict[str, Any]) -> Any:
    if not _is_dataclass(kind) or _dataclass_fields(kind) != fields:
        return None
    made = object.__new__(kind)
    _set_state(made, kind, state)
    return made


def _make_model(kind: Any, fields: Any, *state: Any) -> Any:
    if not _is_model(kind) or _model_fields(kind) != fields:
        return None
    made = object.__new__(kind)
    for name, value in zip(_MODEL_STATE, state, strict=True):
        object.__setattr__(made, name, value)
    return made


def _set_state(made: Any, kind: type, state: dict[str, Any]) -> None:
    slots = _slots(kind)
    for name, value in state.items():
        if name in slots:
            slots[name].__set__(made, value)
        else:
            object.__getattribute__(made, "__dict__")[name] = value


_MAKE: dict[str, Callable[..., Any]] = {
    "X": _make_exception,
    "M": _make_enum,
    "N": _make_namedtuple,
    "B": _make_dataclass,
    "Y": _make_model,
}

"""Values: what goes in comes out, or is named as lost; encoding never fails, and equal inputs have equal bytes."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import http
import math
import pathlib
import re
import string
import subprocess
import sys
import uuid
import zoneinfo
from typing import Any, ClassVar, NamedTuple

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import FormatError
from tachograph.formats.value_classes import loaded_class, no_class
from tachograph.formats.value_view import view
from tachograph.formats.values import MOST_LEVELS, NotRestored, decode, encode, parse, restore

# --- classes of a program ---------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1


class Lowered(enum.IntEnum):
    LOW = 0


class Mode(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: Any


@dataclasses.dataclass
class Order:
    ident: int
    lines: list[str]
    kind: ClassVar[str] = "order"
    calls: ClassVar[int] = 0

    def __post_init__(self) -> None:
        type(self).calls += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Sealed:
    name: str
    inner: Any = None


class Tide(pydantic.BaseModel):
    port: str = pydantic.Field(alias="harbour")
    when: datetime.datetime
    extra_info: Any = None
    _cached: int = 0

    @pydantic.field_validator("port")
    @classmethod
    def shout(cls, port: str) -> str:
        return port + "!"


class Rejected(Exception):
    made = 0

    def __init__(self, code: int) -> None:
        type(self).made += 1
        super().__init__(f"code {code}")
        self.code = code


class Plain:
    def __init__(self, text: str) -> None:
        self.text = text


class Shown(Plain):
    def __repr__(self) -> str:
        return f"<Shown {self.text} at 0x{id(self):x}>"


class Texty(str):
    pass


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and encode(one) == encode(other)


# --- round trips ------------------------------------------------------------------------------------------------------

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**200), max_value=2**200),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.text(st.characters(categories=["Cs", "Lu", "Nd"])),
    st.binary(),
    st.binary().map(bytearray),
    st.datetimes(timezones=st.none() | st.timezones() | st.just(datetime.UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
    st.sampled_from([*Colour, *Level]),
    st.builds(pathlib.PurePosixPath, st.text("ab/.", max_size=9)),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
)


def _hashable(value: Any) -> bool:
    return type(value) is not bytearray and not (type(value) is decimal.Decimal and value.is_snan())


hashables = st.recursive(scalars.filter(_hashable), lambda inner: st.tuples(inner, inner))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.sets(hashables, max_size=4),
        st.frozensets(hashables, max_size=4),
        st.dictionaries(hashables, inner, max_size=4),
        st.builds(Point, st.integers(), inner),
        st.builds(Order, st.integers(), st.lists(st.text())),
        st.builds(Sealed, st.text(), inner),
        st.builds(collections.deque, st.lists(inner)),
    ),
    max_leaves=12,
)


@given(values)
def test_what_goes_in_comes_out(value: Any) -> None:
    back = restore(encode(value))
    assert back.lost == ()
    assert _same(value, back.value)


@given(values)
def test_every_value_has_a_view_and_viewing_needs_no_class(value: Any) -> None:
    view(encode(value))


@given(values, st.data())
def test_a_damaged_encoding_is_refused_or_another_value_but_never_a_crash(value: Any, data: st.DataObject) -> None:
    whole = encode(value)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(FormatError):
        parse(cut)
    with pytest.raises(FormatError):
        parse(whole + b"n")


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_format_error(data: bytes) -> None:
    try:
        restore(b"\x01" + data, classes=loaded_class)
    except FormatError:
        pass


def test_the_bytes_of_version_1_are_fixed() -> None:
    value = {"a": [None, True, False, 7, -300, 1.5, "é", b"\x00"], ("k",): {2, 1}}
    assert encode(value).hex() == (
        "016d02" "730161" "6c08" "6e" "74" "75" "690107" "6902fed4" "6a3ff8000000000000" "7302c3a9" "790100"
        "7001" "73016b" "7602" "690101" "690102"
    )  # fmt: skip


def test_numbers_that_python_calls_equal_have_other_bytes() -> None:
    assert len({encode(1), encode(1.0), encode(True), encode(decimal.Decimal(1)), encode(Level.LOW)}) == 5
    assert encode(0.0) != encode(-0.0)
    assert math.copysign(1.0, decode(encode(-0.0))) == -1.0
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode(2**5000 + 1)) == 2**5000 + 1
    assert decode(encode("\ud800")) == "\ud800"


def test_dicts_keep_their_order_and_sets_have_none() -> None:
    assert encode({"a": 1, "b": 2}) != encode({"b": 2, "a": 1})
    assert list(decode(encode({"z": 1, "a": 2}))) == ["z", "a"]
    script = "import sys; from tachograph.formats.values import encode; print(encode(set('abcdefgh')).hex())"
    runs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(runs) == 1


def test_moments_keep_zone_and_fold() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    later = datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zone)
    back = decode(encode(later))
    assert (back, back.fold, back.tzinfo) == (later, 1, zone)
    named = datetime.timezone(datetime.timedelta(hours=2), "X")
    assert decode(encode(datetime.time(1, 2, tzinfo=named))).tzname() == "X"


def test_a_path_keeps_its_class() -> None:
    for path in (pathlib.Path("/tmp/x"), pathlib.PureWindowsPath("C:\\x")):
        assert _same(path, decode(encode(path)))


# --- classes of the program -------------------------------------------------------------------------------------------


def test_no_code_of_a_dataclass_runs_when_it_comes_back() -> None:
    order = Order(7, ["a"])
    calls = Order.calls
    back = decode(encode(order))
    assert back == order
    assert Order.calls == calls


def test_a_pydantic_model_comes_back_without_its_validators() -> None:
    tide = Tide.model_validate({"harbour": "Dover", "when": datetime.datetime(2026, 1, 2), "extra_info": Point(1, 2)})
    tide._cached = 9
    back = decode(encode(tide))
    assert back == tide
    assert (back.port, back._cached, type(back.extra_info)) == ("Dover!", 9, Point)
    assert back.model_fields_set == tide.model_fields_set


def test_an_exception_comes_back_with_its_attributes_and_cause_and_without_its_constructor() -> None:
    failed = Rejected(7)
    failed.__cause__ = FileNotFoundError(2, "No such file", "/x")
    failed.add_note("while charging")
    made = Rejected.made
    back = decode(encode(failed))
    assert Rejected.made == made
    assert (type(back), back.args, back.code, back.__notes__) == (Rejected, ("code 7",), 7, ["while charging"])
    assert (type(back.__cause__), str(back.__cause__)) == (FileNotFoundError, str(failed.__cause__))


@pytest.mark.parametrize(
    "error",
    [
        KeyError("k"), ConnectionRefusedError(111, "refused"), SystemExit(3), StopIteration(5), TimeoutError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ImportError("no", name="m", path="p"),
        ExceptionGroup("two", [ValueError(1), KeyError(2)]), OSError(2, "x", "from", None, "to"),
        ModuleNotFoundError("gone", name="gone"),
    ],
)  # fmt: skip
def test_builtin_exceptions_say_the_same_again(error: BaseException) -> None:
    back = decode(encode(error))
    assert (type(back), str(back), repr(back)) == (type(error), str(error), repr(error))
    for name in ("filename", "filename2", "name", "path", "code", "value", "object"):
        assert getattr(back, name, None) == getattr(error, name, None)


def _local() -> type:
    @dataclasses.dataclass
    class Hidden:
        x: int

    return Hidden


class Subclassed(dict[str, int]):
    pass


class Doubled(NamedTuple("Doubled", [("x", int)])):
    pass


@pytest.mark.parametrize(
    "value",
    [Plain("x"), _local()(1), Texty("x"), Subclassed(a=1), re.compile("x"), object(), len, int, iter([1])],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_written_is_a_marker_and_never_a_lookalike(value: Any) -> None:
    back = restore(encode({"plan": value}))
    assert type(back.value["plan"]) is NotRestored
    assert back.lost == (back.value["plan"],)
    assert back.value["plan"].type_name == f"{type(value).__module__}:{type(value).__qualname__}"
    assert encode(back.value) == encode({"plan": value})


def test_a_named_tuple_with_more_than_its_fields_is_not_restored() -> None:
    loaded = Doubled(1)
    assert decode(encode(loaded)) == loaded
    loaded.more = 2  # type: ignore[attr-defined]
    assert type(decode(encode(loaded))) is NotRestored


def test_a_moment_whose_zone_is_unknown_is_not_restored_without_it() -> None:
    class Zone(datetime.tzinfo):
        def utcoffset(self, _: object) -> datetime.timedelta:
            return datetime.timedelta(0)

    assert type(decode(encode(datetime.datetime(2026, 1, 1, tzinfo=Zone())))) is NotRestored


@pytest.mark.parametrize(
    "value", [Order(1, []), Point(1, 2), Colour.RED, Rejected(1), Sealed("x")], ids=lambda value: type(value).__name__
)
def test_an_unknown_class_never_comes_back_as_a_plain_mapping(value: Any) -> None:
    back = restore(encode([value]), classes=no_class)
    assert type(back.value[0]) is NotRestored
    assert back.lost[0].type_name == f"{__name__}:{type(value).__qualname__}"


def test_a_class_whose_fields_or_kind_changed_is_not_restored() -> None:
    @dataclasses.dataclass
    class Order2:
        ident: int

    for now in (Order2, Point, Plain, Tide, Colour, dict):
        back = restore(encode(Order(1, [])), classes=lambda *_, now=now: now)  # type: ignore[misc]
        assert type(back.value) is NotRestored, now
    for then, now in ((Point(1, 2), Doubled), (Colour.RED, Level), (Rejected(1), KeyError), (Rejected(1), Plain)):
        assert type(restore(encode(then), classes=lambda *_, now=now: now).value) is NotRestored  # type: ignore[misc]


class Odd(Point):
    _fields = ("x",)


@dataclasses.dataclass
class Fielded:
    _fields: ClassVar[tuple[str, ...]] = ("ident",)
    ident: int


@dataclasses.dataclass
class Made:
    ident: int
    lines: list[str]

    def __new__(cls, *_: Any) -> Made:
        return object.__new__(cls)


class Empty(pydantic.BaseModel):
    pass


class Guarded(pydantic.BaseModel):
    def __new__(cls, *_: Any) -> Guarded:
        return object.__new__(cls)


class Tide2(pydantic.BaseModel):
    port: str


class Slotted(Exception):
    __slots__ = ("more",)


def test_an_object_with_a_constructor_of_its_own_making_is_not_restored() -> None:
    for value in (Odd(1, 2), Made(1, []), Guarded()):
        assert type(decode(encode(value))) is NotRestored, value
    assert decode(encode(Fielded(1))) == Fielded(1)
    assert decode(encode(Empty())) == Empty()


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (Order(1, []), Made), (Empty(), Plain), (Empty(), Guarded), (Empty(), Tide2), (ValueError(1), Slotted),
        (Rejected(1), Slotted), (Point(1, 2), Fielded), (Fielded(1), Doubled), (KeyError(1), ValueError),
    ],
)  # fmt: skip
def test_a_class_of_another_making_is_not_the_recorded_one(then: Any, now: type) -> None:
    assert type(restore(encode(then), classes=lambda *_: now).value) is NotRestored


@pytest.mark.parametrize("tag", string.ascii_uppercase)
@pytest.mark.parametrize(
    "parts", [(), 1, (1, 2), (1, 2, 3, 4), ("a", "b", (), 1, 2, 3, 4), ("a", "b", {"c": 1}, {"d": 2})]
)
def test_no_forged_record_stops_a_reader(tag: str, parts: Any) -> None:
    forged = b"\x01" + tag.encode() + encode(parts)[1:]
    view(forged)
    restore(forged, classes=loaded_class)


def test_only_real_fields_say_whether_a_dataclass_is_the_same() -> None:
    @dataclasses.dataclass
    class OrderWithoutClassVariables:
        ident: int
        lines: list[str]

    back = restore(encode(Order(1, ["a"])), classes=lambda *_: OrderWithoutClassVariables)
    assert back.value == OrderWithoutClassVariables(1, ["a"])


def test_a_member_is_its_name_and_value_and_combined_flags_are_only_compared() -> None:
    assert decode(encode(Mode.READ)) is Mode.READ
    assert type(restore(encode(Level.LOW), classes=lambda *_: Lowered).value) is NotRestored
    both = Mode.READ | Mode.WRITE
    assert type(decode(encode(both))) is NotRestored
    assert len({encode(both), encode(Mode.READ), encode(Mode(0)), encode(~Mode.READ)}) == 4
    assert view(encode(both))["value"] == 3


def test_a_forged_record_is_not_restored() -> None:
    short = b"\x01N" + encode((__name__, "Point", ("x", "y"), (1,)))[1:]
    assert type(decode(short)) is NotRestored
    assert decode(b"\x01Gn") == NotRestored("?:?", decode(b"\x01Gn").repr_digest)
    assert NotRestored("a", "b") != "a"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "version none"), (b"\x02n", "version 02"), (b"\x01" + b"l\x01" * 400 + b"n", "nested too deeply"),
        (b"\x01\xaan", "unknown tag"), (b"\x011n", "unknown tag"), (b"\x01?i\x00s\x00", "marker without its texts"),
        (b"\x01?s\x00n", "marker without its texts"), (b"\x01s" + b"\xff" * 20 + b"\x01", "more than 8 bytes"),
        (b"\x01y\x05abc", "2 bytes are missing"), (b"\x01nn", "1 bytes too many"), (b"\x01s\x01\xff", "does not parse"),
    ],
)  # fmt: skip
def test_bytes_that_encode_never_wrote_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        restore(data)


def test_a_named_tuple_needs_no_module_that_the_program_has_not_loaded() -> None:
    script = """
import collections, sys
from tachograph.formats.values import decode, encode
P = collections.namedtuple("P", "x")
print(decode(encode(P(1))), [name for name in ("enum", "pydantic", "datetime") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "P(x=1) []"


def test_a_class_is_imported_only_where_the_reader_allows_it() -> None:
    script = """
import sys
from tachograph.formats.value_classes import loaded_class
from tachograph.formats.values import restore
data = bytes.fromhex(sys.argv[1])
print(type(restore(data, classes=loaded_class).value).__name__, "http" in sys.modules)
print(type(restore(data).value).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, encode(http.HTTPStatus.OK).hex()],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["NotRestored", "False", "HTTPStatus"]


# --- hostile values ---------------------------------------------------------------------------------------------------


class Hostile:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


@pytest.mark.parametrize("error", [ValueError(), SystemExit(1), GeneratorExit(), BaseException(), RecursionError()])
def test_a_repr_that_raises_stops_nothing(error: BaseException) -> None:
    assert type(decode(encode([1, Hostile(error), 2]))[1]) is NotRestored


def test_an_interrupt_by_the_user_is_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        encode(Hostile(KeyboardInterrupt()))


class Meddling(type):
    @property
    def __dataclass_fields__(cls) -> Any:
        raise RuntimeError("asked")


class Meddled(metaclass=Meddling):
    pass


def test_a_class_that_raises_when_it_is_looked_at_stops_nothing() -> None:
    back = decode(encode([1, Meddled(), 2]))
    assert (back[0], type(back[1]), back[2]) == (1, NotRestored, 2)


def test_a_cycle_is_marked_and_not_followed() -> None:
    loop: list[Any] = [1]
    loop += [loop, loop]
    assert [type(one) for one in decode(encode(loop))] == [int, NotRestored, NotRestored]
    twin: dict[str, Any] = {}
    twin["order"] = Order(1, twin)  # type: ignore[arg-type]
    assert type(decode(encode(twin))["order"].lines) is NotRestored
    again = Order(2, [])
    assert decode(encode([again, again])) == [again, again]  # shared is no cycle


def test_nesting_ends_at_the_limit() -> None:
    deep: Any = []
    for _ in range(MOST_LEVELS * 3):
        deep = [deep]
    assert restore(encode(deep)).lost != ()
    allowed: Any = []
    for _ in range(MOST_LEVELS - 1):
        allowed = [allowed]
    assert restore(encode(allowed)).lost == ()


def test_a_value_beyond_the_limit_is_given_up() -> None:
    part = bytes(23 << 20)
    assert type(decode(encode([part, part, part, []]))) is NotRestored
    assert type(decode(encode([part, part, []]))) is list


def test_a_value_that_unfolds_without_end_is_given_up() -> None:
    value: Any = "x" * 1000
    for _ in range(12):
        value = [value] * 10
    assert type(decode(encode(value))) is NotRestored


def test_the_digest_leaves_out_addresses_so_that_the_same_input_matches_in_another_process() -> None:
    assert encode(Shown("a")) == encode(Shown("a"))
    assert encode(Shown("a")) != encode(Shown("b"))
    assert encode(Plain("a")) == encode(Plain("b"))  # the default repr holds nothing else but the type


# --- views ------------------------------------------------------------------------------------------------------------


def test_a_view_is_plain_and_says_what_is_not_json() -> None:
    value = {"a": (1, 2.5), "b": b"hi", "c": {1: uuid.UUID(int=1)}, "d": Point(1, "y"), "e": Colour.RED, "f": math.inf}
    assert view(encode(value)) == {
        "a": {"$tuple": [1, 2.5]},
        "b": {"$bytes": "aGk="},
        "c": {"$dict": [[1, {"$uuid": {"$bytes": "AAAAAAAAAAAAAAAAAAAAAQ=="}}]]},
        "d": {"$namedtuple": f"{__name__}:Point", "fields": {"x": 1, "y": "y"}},
        "e": {"$enum": f"{__name__}:Colour", "member": "RED", "value": "r"},
        "f": {"$float": "inf"},
    }
    assert view(encode([1j, "\ud800", bytearray(b"x"), -math.inf, 2**70])) == [
        {"$complex": "1j"}, {"$text": "\\ud800"}, {"$bytearray": "eA=="}, {"$float": "-inf"}, 2**70,
    ]  # fmt: skip
    assert view(encode(math.nan)) == {"$float": "nan"}
    assert view(encode({"$tuple": [1]})) == {"$dict": [["$tuple", [1]]]}
    chained = Rejected(7)
    chained.__cause__ = KeyError("k")
    assert view(encode(Rejected(7))) == {
        "$exception": f"{__name__}:Rejected",
        "args": ["code 7"],
        "attributes": {"code": 7},
    }
    assert view(encode(chained))["cause"]["args"] == ["k"]
    assert view(encode(Order(7, ["x"])))["fields"] == {"ident": 7, "lines": ["x"]}
    assert view(encode(Plain("x"))) == {
        "$notRestored": f"{__name__}:Plain",
        "digest": decode(encode(Plain("x"))).repr_digest,
    }

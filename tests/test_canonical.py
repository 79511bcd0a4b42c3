"""Canonical JSON: the bytes of RFC 8785, or a refusal; never a value that comes back changed."""

from __future__ import annotations

import json
import math
import struct
import tracemalloc
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tachograph import canonical as module
from tachograph.canonical import MOST_LEVELS, NotCanonical, canonical, digest, digest_of, read_exact
from tachograph.comparison import leaves

LARGEST = 2**53 - 1
numbers = st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(1e-5, 1e16) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)


@given(documents)
@example({"é": 1, "\U0001f600": 2, "\ufb33": 3, "a": 4, "\x7f": 5})
@example([0.1, 1e-4, 9.9e-5, 999999999999999.9, 1e15 + 0.5, 1.0, 123.456, 1e21, 5e-324, '\u2028\x1f"\\/'])
def test_the_fast_path_writes_what_rfc8785_writes(value: Any) -> None:
    try:
        written = canonical(value)
    except NotCanonical:
        return
    assert written == rfc8785.dumps(value)
    assert canonical(json.loads(written)) == written


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_the_published_documents_come_out_byte_for_byte(name: str, shared: Path) -> None:
    value = json.loads((shared / "vectors/jcs/input" / f"{name}.json").read_bytes())
    assert canonical(value) == (shared / "vectors/jcs/output" / f"{name}.json").read_bytes()
    expected = bytes.fromhex((shared / "vectors/jcs/outhex" / f"{name}.txt").read_text())
    assert canonical(value) == expected


def test_the_published_numbers_come_out_or_are_refused_where_they_would_come_back_changed(shared: Path) -> None:
    lines = (shared / "vectors/jcs/es6numbers_first3000.txt").read_bytes().splitlines(keepends=True)
    sums = json.loads((shared / "vectors/jcs/es6_checksums.json").read_bytes())
    assert sha256(b"".join(lines[:1000])).hexdigest() == sums["1000"]
    refused = 0
    for line in lines:
        bits, expected = line.decode().strip().split(",")
        value = struct.unpack(">d", int(bits, 16).to_bytes(8, "big"))[0]
        changed = math.copysign(1, value) < 0 and value == 0
        changed |= expected.lstrip("-").isdigit() and abs(int(expected)) > LARGEST
        if changed:
            refused += 1
            with pytest.raises(NotCanonical):
                canonical(value)
        else:
            assert canonical(value) == expected.encode()
    assert 0 < refused < len(lines) // 10


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (2**53, "2^53"), (-(2**53), "2^53"),
        (2**64 + 1, "2^53"), (-0.0, "-0"), (1e16, "2^53"), (float(2**53), "2^53"), ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"), ({1: 2}, "key"), (Decimal("1.10"), "Decimal"), (b"x", "bytes"), ({1}, "set"),
        ({"é\ud800": 1}, "surrogate"), ([{"a": [math.nan]}], "nan"), (("x", 2**53), "2^53"),
    ],
)  # fmt: skip
def test_a_value_that_would_not_come_back_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(NotCanonical) as raised:
        canonical(value)
    assert reason in raised.value.reason


def test_a_subclass_of_a_json_type_is_refused() -> None:
    class Text(str):
        pass

    for value in (Text("x"), [Text("x")], {Text("x"): 1}):
        with pytest.raises(NotCanonical):
            canonical(value)


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}])
def test_64_levels_are_written_and_65_are_not(wrap: Any) -> None:
    value: Any = 0
    for _ in range(MOST_LEVELS):
        value = wrap(value)
    written = canonical(value)
    assert read_exact(written) == value
    with pytest.raises(NotCanonical, match="64 levels"):
        canonical(wrap(value))
    deeper = written.replace(b"0", written)
    for data in (deeper, b"[" * 100_000 + b"]" * 100_000):
        with pytest.raises(NotCanonical, match="64 levels"):
            read_exact(data)
    assert leaves.MOST_LEVELS == MOST_LEVELS


@pytest.mark.parametrize(
    "text",
    ["1.10", "1e2", "-0", "1.0", "18446744073709551617", "9007199254740992", "NaN", "-Infinity", "1E2", "0.00000001",
     '"\\ud800"', '{"a":1,"a":1}', "1e400", "[1", '"\xff"', "-0.0", "10000000000000000000000", "1e+02", "9" * 5000],
)  # fmt: skip
def test_json_that_rfc8785_would_write_otherwise_is_no_exact_value(text: str) -> None:
    for data in (text.encode("latin-1"), b'{"k": [' + text.encode("latin-1") + b"]}"):
        with pytest.raises(NotCanonical):
            read_exact(data)


@given(documents)
def test_exact_bytes_are_read_and_written_back(value: Any) -> None:
    try:
        written = canonical(value)
    except NotCanonical:
        return
    assert canonical(read_exact(written)) == written
    spaced = json.dumps(json.loads(written), indent=1).encode()
    if spaced.count(b".0") == 0 and b"e" not in spaced:
        assert canonical(read_exact(spaced)) == written


def test_a_digest_is_named_and_of_the_canonical_form() -> None:
    assert digest(b"abc") == "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_of({"b": 1, "a": [2.5]}) == digest(b'{"a":[2.5],"b":1}')
    assert digest_of((1, 2)) == digest_of([1, 2])


def test_large_plain_documents_take_the_fast_path() -> None:
    assert module._check({"a": [1, 2.5, None, True, "é"]}, MOST_LEVELS)
    for slow in ({"é": 1}, [1.0], [1e-9], [1e300]):
        assert not module._check(slow, MOST_LEVELS)


def test_a_short_text_takes_no_more_memory_than_it_has() -> None:
    tracemalloc.start()
    try:
        kept = [canonical({"number": number}) for number in range(1000)]
        assert tracemalloc.get_traced_memory()[0] < 200 * len(kept)
    finally:
        tracemalloc.stop()

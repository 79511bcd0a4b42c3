"""A journal record's fields come back, unknown ones are passed over, and broken ones are refused."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store.entry import (
    ADDENDUM,
    Compression,
    Entry,
    Source,
    pack,
    pack_id,
    unpack,
    unpack_id,
)
from tachograph.store.segments import Place
from tests.store.kept import entry

FULL = replace(
    entry(1),
    kind=ADDENDUM,
    places=(Place("ab" * 16, 0), Place("cd" * 16, 300)),
    sources=(Source("elsewhere.1.a", 0, 0), Source("run_01KB0000000000000000000000.7.b", 5, 700)),
    payload_digest=b"d" * 32,
    signature=b"s" * 64,
    leaf=1 << 40,
)


def round_trip(one: Entry, sequence: int = 0) -> Entry:
    compression = Compression()
    fields = unpack(pack(one, sequence, compression))
    assert fields.sequence == sequence
    return fields.entry(compression)


def test_every_field_comes_back() -> None:
    assert round_trip(FULL, 1 << 33) == FULL


def test_what_is_left_out_is_worked_out() -> None:
    one = entry(0)
    assert round_trip(one) == replace(one, payload_digest=sha256(one.payload).digest())
    assert round_trip(replace(one, run="run_" + one.decision[4:])).run == "run_" + one.decision[4:]


@given(
    st.text(max_size=30).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)), st.binary(max_size=50)
)
def test_any_id_and_any_payload_come_back(text: str, payload: bytes) -> None:
    one = replace(entry(3), decision=text, run=text + "x", payload=payload, sources=(Source(text, 1, 1),))
    assert round_trip(one) == replace(one, payload_digest=sha256(payload).digest())
    assert unpack_id(pack_id(text)) == text


def test_ids_are_kept_in_their_128_bits() -> None:
    decision = "dec_01KB3ZX5W1QYKZ0N9V6T8R7M2C"
    assert len(pack_id(decision)) == 20
    assert unpack_id(pack_id(decision)) == decision
    assert unpack_id(pack_id("dec_81KB3ZX5W1QYKZ0N9V6T8R7M2C")) == "dec_81KB3ZX5W1QYKZ0N9V6T8R7M2C"  # above 128 bits


def test_texts_after_the_first_cost_little() -> None:
    compression = Compression()
    sizes = [len(pack(entry(number), number, compression)) for number in range(3)]
    assert sizes[1] < sizes[0] / 2
    assert sizes[2] == pytest.approx(sizes[1], abs=8)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    compression = Compression()
    packed = pack(FULL, 0, compression)
    assert unpack(packed + b"\xc8\x05later").entry(compression) == FULL


def test_cut_anywhere_or_without_a_field_it_is_refused() -> None:
    packed = pack(FULL, 0, Compression())
    whole = []
    for size in range(len(packed)):
        try:
            whole.append(unpack(packed[:size]))
        except DamagedStore as fault:
            assert "does not parse" in str(fault)  # noqa: PT017 - every length has its own fault
    # Parsed where it ends before an optional field; the journal's digest is what refuses these.
    assert [(fields.payload_digest, fields.signature, fields.leaf) for fields in whole] == [
        (b"", b"", None),
        (b"d" * 32, b"", None),
        (b"d" * 32, b"s" * 64, None),
    ]
    with pytest.raises(DamagedStore, match="domain of another size"):
        unpack(pack(replace(FULL, domain=b"short"), 0, Compression()))


def test_texts_that_refer_to_a_first_record_that_is_not_there_are_refused() -> None:
    compression = Compression()
    pack(entry(0), 0, compression)
    later = unpack(pack(entry(1), 1, compression))
    with pytest.raises(DamagedStore, match="earlier one of its file"):
        later.entry(Compression())
    other = Compression()
    pack(replace(entry(0), payload=b"something else"), 0, other)
    with pytest.raises(DamagedStore):
        later.entry(other)

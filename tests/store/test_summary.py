"""A summary comes back from the journal, and a title opens only with its decision's secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import DamagedStore
from tachograph.store.summary import Summary, open_title, seal_title, unpack

SECRET = b"s" * 32
_text = st.one_of(st.none(), st.text(max_size=20).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))


@given(
    st.builds(
        Summary, agent=st.just("a"), captured_at_ms=st.integers(0, 1 << 45), level=st.just("full"), reason=st.just("w"),
        effects=st.integers(0, 9), tools=st.lists(st.sampled_from(["x", "y"])).map(tuple), stop_reason=_text,
        exit_code=st.one_of(st.none(), st.integers(-15, 255)), failed=st.booleans(), title=st.binary(max_size=40),
    )
)  # fmt: skip
def test_a_summary_comes_back(summary: Summary) -> None:
    assert unpack(summary.pack()) == summary


def test_a_field_of_a_later_version_is_passed_over() -> None:
    packed = Summary(agent="a", captured_at_ms=1, level="full", reason="w").pack()
    assert unpack(packed[:-1] + b',"later":1}') == unpack(packed)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"agent":"a"}', b'{"tools":[],"title":"zz"}'])
def test_what_does_not_parse_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedStore, match="does not parse"):
        unpack(data)


def test_a_title_opens_with_its_own_secret_for_its_own_decision_only() -> None:
    sealed = seal_title(SECRET, "dec_1", "Refund for Ada \ud800")
    assert b"Ada" not in sealed
    assert open_title(SECRET, "dec_1", sealed) == "Refund for Ada ?"
    assert seal_title(SECRET, "dec_1", "same") != seal_title(SECRET, "dec_1", "same")
    for secret, decision, changed in (
        (b"o" * 32, "dec_1", sealed),
        (SECRET, "dec_2", sealed),
        (SECRET, "dec_1", sealed[:-1]),
        (SECRET, "dec_1", b""),
    ):
        with pytest.raises(DamagedStore, match="title of dec_"):
            open_title(secret, decision, changed)

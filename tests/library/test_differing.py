"""diff: two captures, effect by effect, leaf by leaf."""

from __future__ import annotations

from tests.library.conftest import Kept


def test_a_capture_equals_itself(kept: Kept) -> None:
    """Nothing differs, informational or not."""
    for one in (kept.refunds, kept.other, kept.good):
        answer = kept.store.diff(one, one)
        assert answer.equal
        assert answer.divergences == []
        assert answer.informational == []


def test_the_first_leaf_named_is_the_prompt_that_differs(kept: Kept) -> None:
    """Two runs of one program with another word and another exit status."""
    answer = kept.store.diff(kept.good, kept.bad)
    assert not answer.equal
    first = answer.divergences[0]
    assert (first.path, first.original, first.replay) == (
        "/effects/1/request/body/messages/0/content",
        "hello there",
        "hello here",
    )
    assert "/outcome/exitCode" in [item.path for item in answer.divergences]


def test_effects_that_only_one_side_has_are_named(kept: Kept) -> None:
    """A decision with four effects against one with none."""
    answer = kept.store.diff(kept.refunds, kept.other)
    assert len(answer.onlyInOriginal) == 4
    assert answer.onlyInOther == []

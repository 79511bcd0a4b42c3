"""`tacho diff A B --json`: two decisions, same or not, and where."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer, DivergenceItem


class DiffAnswer(Answer):
    """The differing leaves of two captures, in order; `equal` only if there is none that matters."""

    original: str
    """The first decision's id."""
    other: str
    """The second decision's id."""
    equal: bool
    """False as soon as one divergence, or an effect of one side only, is there."""
    divergences: list[DivergenceItem]
    """What differs and matters."""
    onlyInOriginal: list[str]
    """Effects that only the first one has."""
    onlyInOther: list[str]
    """Effects that only the second one has."""
    informational: list[DivergenceItem]
    """What differs and does not matter."""

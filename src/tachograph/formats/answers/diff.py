"""`tacho diff A B --json`: two decisions, same or not, and where."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer, DivergenceItem


class DiffAnswer(Answer):
    """The differing leaves of two captures, in order; `equal` only if there is none that matters."""

    original: str
    other: str
    equal: bool
    divergences: list[DivergenceItem]
    onlyInOriginal: list[str]
    onlyInOther: list[str]
    informational: list[DivergenceItem]

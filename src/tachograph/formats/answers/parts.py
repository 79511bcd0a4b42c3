"""What several answers share: the base model, the marker for what is not there, a divergence."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of every document: frozen, and closed, so that a field cannot slip in unseen."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Unavailable(Answer):
    """Stands where a value is not to be had, with the reason: never missing, never invented."""

    state: Literal["unavailable", "absent"] = "unavailable"
    """`absent`: known not to exist. `unavailable`: not known, or not built yet."""
    reason: str
    """Why, in words."""


class DivergenceItem(Answer):
    """One differing leaf: JSON pointer, both values, how much it matters, and the effect it belongs to."""

    path: str
    """Where, as a JSON pointer: `/effects/2/request/body/messages/0/content`, `/outcome/stdout/lines/1`."""
    original: Any
    """What was recorded; null where only the other side has it."""
    replay: Any
    """What was replayed, or what the other decision has; null where only the first side has it."""
    severity: Literal["critical", "major", "minor", "informational"]
    """How much it weighs; `informational` alone never makes two things different."""
    effect: int | None = None
    """The number of the effect that it belongs to; null or 0 where it belongs to none."""
    consequence: bool = False
    """True for what follows an earlier miss: repair the first difference first."""

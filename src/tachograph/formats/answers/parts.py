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
    reason: str


class DivergenceItem(Answer):
    """One differing leaf: JSON pointer, both values, how much it matters, and the effect it belongs to."""

    path: str
    original: Any
    replay: Any
    severity: Literal["critical", "major", "minor", "informational"]
    effect: int | None = None
    consequence: bool = False

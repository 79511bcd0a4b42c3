"""Effects read in their provider's dialect: what was asked of a model and what it answered, or None for anything else.

A reading is only a view: the exact bytes stay what they are. Nothing is guessed, so a body that no dialect recognises,
or that does not parse, has no reading.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from tachograph.dialects.registry import recognise
from tachograph.model.effect import HTTP, Effect

if TYPE_CHECKING:
    from tachograph.dialects.reading import AnswerReading, Dialect, RequestReading


@lru_cache(maxsize=4096)
def dialect_of(effect: Effect) -> Dialect | None:
    """Return the dialect of a model call; None for any other effect."""
    if effect.kind != HTTP:
        return None
    return recognise(effect.method, effect.url, effect.headers, effect.body)


@lru_cache(maxsize=4096)
def request_of(effect: Effect) -> RequestReading | None:
    """Read what was asked of a model; None if this is no model call."""
    dialect = dialect_of(effect)
    return None if dialect is None else dialect.read_request(effect.body)


@lru_cache(maxsize=4096)
def answer_of(effect: Effect) -> AnswerReading | None:
    """Read what a model answered; None if this is no model call, or nothing came back."""
    dialect = dialect_of(effect)
    if dialect is None or not effect.status:
        return None
    return dialect.read_answer(effect.status, effect.response_headers, effect.chunks)

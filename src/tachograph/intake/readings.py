"""Effects read in their provider's dialect: what was asked of a model and what it answered, or None for anything else.

A reading is only a view: the exact bytes stay what they are. Nothing is guessed, so a body that no dialect recognises,
or that does not parse, has no reading. Views ask often: a reading goes
when its effect does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tachograph.dialects.registry import recognise
from tachograph.model.effect import HTTP, Effect

if TYPE_CHECKING:
    from tachograph.dialects.reading import AnswerReading, Dialect, RequestReading

_REQUESTS: WeakKeyDictionary[Effect, RequestReading | None] = WeakKeyDictionary()
_ANSWERS: WeakKeyDictionary[Effect, AnswerReading | None] = WeakKeyDictionary()


def dialect_of(effect: Effect) -> Dialect | None:
    """Return the dialect of a model call; None for any other effect."""
    if effect.kind != HTTP:
        return None
    return recognise(effect.method, effect.url, effect.headers, effect.body)


def read_request(effect: Effect) -> RequestReading | None:
    """Read what was asked of a model, anew; None if this is no model call."""
    dialect = dialect_of(effect)
    return None if dialect is None else dialect.read_request(effect.body)


def read_answer(effect: Effect) -> AnswerReading | None:
    """Read what a model answered, anew; None if this is no model call, or nothing came back."""
    dialect = dialect_of(effect)
    if dialect is None or not effect.status:
        return None
    return dialect.read_answer(effect.status, effect.response_headers, effect.chunks)


def request_of(effect: Effect) -> RequestReading | None:
    """Read what was asked of a model; the reading is kept as long as the effect is."""
    if effect not in _REQUESTS:
        _REQUESTS[effect] = read_request(effect)
    return _REQUESTS[effect]


def answer_of(effect: Effect) -> AnswerReading | None:
    """Read what a model answered; the reading is kept as long as the effect is."""
    if effect not in _ANSWERS:
        _ANSWERS[effect] = read_answer(effect)
    return _ANSWERS[effect]

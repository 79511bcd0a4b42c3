"""Whether a capture holds a text: in its requests, answers, inputs, outputs or streams, as a person would read them."""

from __future__ import annotations

from collections.abc import Iterator

from tachograph.intake.reading import Captured, plainly
from tachograph.intake.readings import answer_of, request_of
from tachograph.model.effect import Effect


def holds(captured: Captured, text: str) -> bool:
    """Say whether the text stands anywhere in the decision's content."""
    return any(text in one for effect in captured.effects for one in texts(effect)) or any(
        text in captured.log.streams[number].decode("utf-8", "replace") for number in (1, 2)
    )


def texts(effect: Effect) -> Iterator[str]:
    """Yield the texts of an effect: read in its dialect where it has one, else its bytes."""
    request, answer = request_of(effect), answer_of(effect)
    if request is not None:
        yield from (message.text for message in request.messages if message.text)
    else:
        yield effect.body.decode("utf-8", "replace")
    if answer is not None:
        yield answer.final_text or ""
        yield from (call.arguments_text or "" for call in answer.tool_calls)
    else:
        yield effect.answer.decode("utf-8", "replace")
    for data in (effect.inputs, effect.value):
        if data:
            yield str(plainly(data))

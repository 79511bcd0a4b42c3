"""show: the timeline, and where each part of the context came from."""

from __future__ import annotations

from tachograph.formats.answers import Unavailable
from tachograph.library.showing import Source, carve
from tests.library.conftest import Kept


def test_the_timeline_holds_every_effect_of_the_decision_in_order(kept: Kept) -> None:
    """Kinds, statuses, how each ended, what the model answered."""
    timeline = kept.store.show(kept.refunds).timeline
    assert [one.kind for one in timeline] == ["retrieval", "model", "tool", "external"]
    call = timeline[1]
    assert (call.status, call.ended, call.model, call.provider) == (200, "eof", "m", "openai.chat")
    assert call.answered
    assert call.chunks >= 1
    assert call.durationMs is not None


def test_each_part_of_the_context_has_its_origin(kept: Kept) -> None:
    """The memory entry inside the system prompt is told from the prompt around it."""
    context = kept.store.show(kept.refunds).context
    assert not isinstance(context, Unavailable)
    origins = [(part.role, part.origin, part.effect) for part in context]
    assert origins[0] == ("system", "system prompt", None)
    assert origins[1] == ("system", "retrieval find: entry policy", 1)
    assert context[1].text == "The refund window is 14 days from purchase."
    assert origins[-1][0] == "user"


def test_a_credential_of_the_headers_is_masked_in_every_view(kept: Kept) -> None:
    """It stood in the prompt too."""
    answer = kept.store.show(kept.refunds, grep="My key is")
    assert kept.key not in answer.model_dump_json()
    assert kept.key not in str(kept.store.effect(kept.refunds, 2))
    assert "authorization" in kept.store.effect(kept.refunds, 2)["credentials"]


def test_grep_says_where_a_text_stood_or_that_it_first_appears_later(kept: Kept) -> None:
    """In the context, with its origin; else in the answer; else in the output."""
    hits = kept.store.show(kept.refunds, grep="14 days").grep
    assert hits
    assert hits[0].where == "context, system: retrieval find: entry policy"
    plain = kept.store.show(kept.good, grep="hello there").grep
    assert plain
    assert plain[0].where.startswith("context, user")
    assert kept.store.show(kept.good, grep="nowhere to be found").grep == []


def test_a_run_without_a_model_call_says_so_instead_of_showing_an_empty_context(kept: Kept) -> None:
    """Absence is a value with a reason."""
    answer = kept.store.show(kept.other)
    assert isinstance(answer.context, Unavailable)
    assert "no model call" in answer.context.reason
    assert answer.output == "no answer"


def test_streams_and_exit_status_of_a_run_are_shown(kept: Kept) -> None:
    """Both streams as the program wrote them."""
    answer = kept.store.show(kept.bad)
    assert answer.stderr == "to stderr\n"
    assert answer.decision.exitCode == 3


def test_the_longest_known_text_wins_when_a_text_is_carved() -> None:
    """A short text inside a longer one says nothing; what is found nowhere keeps the default origin."""
    known = [Source("short words", "a", 1), Source("much longer words that hold short words", "b", 2)]
    pieces = carve("Before. much longer words that hold short words After.", known, default="program")
    assert [(text, origin) for text, origin, _ in pieces] == [
        ("Before. ", "program"),
        ("much longer words that hold short words", "b"),
        (" After.", "program"),
    ]
    assert carve("exact", [Source("exact", "c", 3)], default="program") == [("exact", "c", 3)]

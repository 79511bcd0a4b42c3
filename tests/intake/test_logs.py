"""A run's frames become one log per decision and one for the rest, and each stands alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tachograph.errors import FormatError
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import effects_of, read_effect_log
from tachograph.intake.gather import Gathered, gather
from tachograph.intake.logs import split
from tachograph.intake.numbered import Numbered
from tests.intake.test_gather import DECISION, SECOND, Process
from tests.seams.driver import RUN


def run(decisions: list[int]) -> Gathered:
    """A run whose calls belong to these decisions of its own (0: to none), each with a draw."""
    one = Process("0")
    for number in sorted({*decisions} - {0}):
        one.opens(number, "ABCDE"[number - 1], at=(6 + number) * SECOND)
    for effect, decision in enumerate(decisions, 1):
        one.call(effect, at=(20 + 2 * effect) * SECOND, decision=decision, draws=[effect])
        one.chunk(effect, at=(21 + 2 * effect) * SECOND, decision=decision)
    return gather([one.reading()])


def test_a_run_that_opens_no_decision_is_its_own_one_decision() -> None:
    (log,) = split(RUN, run([0, 0]))
    assert (log.run_id, log.decision_id, log.is_run, log.number) == (RUN, "dec_" + RUN[4:], True, 0)
    assert len(read_effect_log([log.data]).effects) == 2


def test_each_decision_has_its_log_and_the_run_the_rest() -> None:
    rest, first, second = split(RUN, run([1, 0, 2, 1]))
    assert (rest.decision_id, rest.is_run) == (None, True)
    assert [log.decision_id for log in (first, second)] == [DECISION + "A", DECISION + "B"]
    assert first.opened["agent"] == "0"
    urls = [[effect.url for effect in read_effect_log([log.data]).effects] for log in (rest, first, second)]
    assert urls == [["http://0/2"], ["http://0/1", "http://0/4"], ["http://0/3"]]


@given(st.lists(st.integers(0, 3), max_size=8))
def test_the_logs_together_are_the_run_and_each_alone_names_what_it_uses(decisions: list[int]) -> None:
    gathered = run(decisions)
    logs = split(RUN, gathered)
    together = read_effect_log([log.data for log in logs])
    whole = effects_of(gathered.frames)
    for read in (together, whole):
        assert [effect.url for effect in read.effects] == [f"http://0/{n}" for n in range(1, len(decisions) + 1)]
        assert [draw.value for draw in read.draws] == list(range(1, len(decisions) + 1))
    for log in logs:
        alone = read_effect_log([log.data])
        assert {effect.path for effect in alone.effects} <= {"0"}
        assert {(draw.site[0], draw.path) for draw in alone.draws} <= {("time.time", "0")}


def test_a_log_opens_with_what_it_is() -> None:
    gathered = run([1])
    gathered.damage.append("record 3 was changed")
    for log in split(RUN, gathered):
        frame = fr.read_log(log.data)[0]
        about = values.decode(frame.payload)
        assert frame.kind == fr.ABOUT
        assert (about["format"], about["runId"], about["decisionId"]) == (1, RUN, log.decision_id)
        assert about["beganNs"] == gathered.began_ns
        assert about["damage"] == (["record 3 was changed"] if log.is_run else [])


def test_the_cuts_of_a_log_are_those_of_its_frames() -> None:
    (log,) = split(RUN, run([0]))
    (part,) = log.parts()
    assert part.cuts == fr.write_log(fr.read_log(log.data))[1]


def test_a_decision_without_an_id_is_refused() -> None:
    opened = fr.Frame(fr.OPEN, 0, 1, 0, 0, 0, 1, b"", values.encode({"id": "no id"}))
    with pytest.raises(FormatError, match="no id of its own"):
        split(RUN, Gathered(Numbered([opened]), 0))


def test_a_log_in_parts_is_the_same_log_and_each_part_stands_alone() -> None:
    gathered = run([0, 0, 0, 0])
    gathered.damage.append("record 3 was changed")
    gathered.tails[:] = ["killed"]
    (log,) = split(RUN, gathered)
    parts = [part.data for part in log.parts(size=100)]
    assert len(parts) > 2
    together, whole = read_effect_log(parts), read_effect_log([log.data])
    for one in (together, whole):
        assert [effect.answer for effect in one.effects] == [b"0/%d;" % number for number in range(1, 5)]
        assert [draw.value for draw in one.draws] == [1, 2, 3, 4]
        assert [word for about in one.about for word in about["damage"]] == ["record 3 was changed"]
        assert [word for about in one.about for word in about["tails"]] == ["killed"]
    for part in parts:
        frames = fr.read_log(part)
        named = {frame.path for frame in frames if frame.kind == fr.PATH}
        assert frames[0].kind == fr.ABOUT
        assert {frame.path for frame in frames} - {0} <= named


def test_a_log_without_frames_has_one_part() -> None:
    (part,) = split(RUN, gather([]))[0].parts()
    assert [frame.kind for frame in fr.read_log(part.data)] == [fr.ABOUT]


@given(st.integers(0, 12))
def test_what_came_later_is_a_log_of_its_own(place: int) -> None:
    gathered = run([1, 1, 1])
    log = split(RUN, gathered)[1]
    times = [frame.at_ns for frame in log.frames()]
    bound = times[place] if place < len(times) else times[-1]
    later = log.later_than(bound)
    assert ([frame.at_ns for frame in later.frames()] if later else []) == [at for at in times if at > bound]
    assert (later is None) == (bound == times[-1])

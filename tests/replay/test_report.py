"""From what a replayed program did to the answer: equivalent or not, and where it first differs."""

from __future__ import annotations

from typing import Any

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.answers import ReplayAnswer
from tachograph.replay.engine import Outcome
from tachograph.replay.lending import lend
from tachograph.replay.plan import Launch, make_plan
from tachograph.replay.report import judge
from tests.replay.made import Run

READY = {"held": {"connect": True, "start": True}}


def _frame(kind: int, said: Any, *, effect: int = 0) -> fr.Frame:
    return fr.Frame(kind, 0, 0, effect, 0, 0, 0, b"", values.encode(said))


def _served(*effects: int, path: str = "0") -> list[fr.Frame]:
    return [_frame(fr.SERVED, {"rung": 1, "path": path, "notes": []}, effect=effect) for effect in effects]


def _judge(run: Run, frames: list[fr.Frame], *, code: int = 0, stdout: bytes = b"", ended_by: str | None = None,
           ready: bool = True, decision: int = 0, recorded_writes: set[str] | None = None) -> ReplayAnswer:  # fmt: skip
    log = run.log
    plan = make_plan(log, lent=lend(log, environ={}, tag_key=bytes(32)))
    assert isinstance(plan, Launch)
    report = ([_frame(fr.READY, READY)] if ready else []) + frames
    outcome = Outcome(code, None, stdout, b"", ended_by, 0.1, report)
    return judge(
        replay_id="rep_x", decision_id="dec_x", log=log, plan=plan, outcome=outcome, inputs_changed=[],
        origin_state="sealed", decision=decision, recorded_writes=recorded_writes,
    )  # fmt: skip


def _two_calls() -> Run:
    return Run().call(1, b'{"n":1}').call(2, b'{"n":2}').add(fr.STREAM, b"a\nb\n", flags=1).ended(0)


def test_every_effect_once_in_order_same_output_and_status_is_equivalent() -> None:
    """Served counts, the world as probed, nothing live."""
    answer = _judge(_two_calls(), _served(1, 2), stdout=b"a\nb\n")
    assert answer.equivalent
    assert (answer.served, answer.liveEffects, answer.divergences) == (2, 0, [])
    assert answer.confinement.network == "python"


def test_an_effect_that_was_never_asked_for_is_not_identical() -> None:
    """Fewer calls than recorded."""
    answer = _judge(_two_calls(), _served(1), stdout=b"a\nb\n")
    assert not answer.equivalent
    assert [(one.effect, one.summary) for one in answer.unconsumed] == [(2, "POST http://h/v1")]


def test_effects_of_one_path_in_another_order_are_not_equivalent() -> None:
    """On two paths the order between them is informational."""
    swapped = _judge(_two_calls(), _served(2, 1), stdout=b"a\nb\n")
    assert [item.path for item in swapped.divergences] == ["/paths/0/order"]
    apart = _judge(_two_calls(), [*_served(2, path="0/a2"), *_served(1, path="0/a1")], stdout=b"a\nb\n")
    assert apart.equivalent
    assert any("another task path" in note for note in apart.notes)


def test_stdout_differs_at_the_first_line_that_does() -> None:
    """One more line; another line; exit status."""
    more = _judge(_two_calls(), _served(1, 2), stdout=b"a\nb\nc\n")
    assert [(item.path, item.original, item.replay) for item in more.divergences] == [
        ("/outcome/stdout/lines/2", "", "c")
    ]
    other = _judge(_two_calls(), _served(1, 2), stdout=b"a\nB\n", code=4)
    assert [item.path for item in other.divergences] == ["/outcome/exitCode", "/outcome/stdout/lines/1"]


def test_a_miss_comes_first_and_what_follows_is_its_consequence() -> None:
    """With the recorded and the replayed text."""
    leaf = {"path": "/body/messages/0/content", "recorded": "old", "replayed": "new"}
    call = {"kind": "http", "method": "POST", "endpoint": "http://h/v1"}
    miss = _frame(fr.MISS, {"call": call, "nearest": 2, "firstDifference": leaf, "path": "0"}, effect=2)
    answer = _judge(_two_calls(), [*_served(1), miss], stdout=b"a\n", code=1)
    first, *rest = answer.divergences
    assert (first.path, first.original, first.replay) == ("/effects/2/request/body/messages/0/content", "old", "new")
    assert rest
    assert all(item.consequence for item in rest)


def test_attempts_live_effects_and_an_end_by_us_are_never_equivalent() -> None:
    """Each alone is enough."""
    attempt = _frame(fr.ATTEMPT, {"what": "socket.connect", "where": "1.2.3.4:80", "stoppedBy": "audit hook"})
    live = _frame(fr.LIVE, {"what": "socket.connect", "where": "1.2.3.4:80"})
    assert not _judge(_two_calls(), [*_served(1, 2), attempt], stdout=b"a\nb\n").equivalent
    answer = _judge(_two_calls(), [*_served(1, 2), live], stdout=b"a\nb\n")
    assert (answer.equivalent, answer.liveEffects) == (False, 1)
    assert not _judge(_two_calls(), _served(1, 2), stdout=b"a\nb\n", ended_by="no progress").equivalent


def test_a_program_that_never_loaded_the_replay_is_not_called_equivalent() -> None:
    """Even if it wrote the same."""
    answer = _judge(_two_calls(), _served(1, 2), stdout=b"a\nb\n", ready=False)
    assert not answer.equivalent
    assert answer.confinement.network == "open"


def test_fewer_chunks_read_than_recorded_is_a_difference() -> None:
    """The program closed the answer earlier."""
    read = _frame(fr.CHUNK, {"read": 1, "recorded": 3}, effect=1)
    answer = _judge(_two_calls(), [*_served(1, 2), read], stdout=b"a\nb\n")
    assert [item.path for item in answer.divergences] == ["/effects/1/answer/chunksRead"]


def test_what_was_said_of_a_decision_is_compared_in_order() -> None:
    """Another output text; a decision that never opened."""
    run = Run().add(fr.OPEN, values.encode({"id": "dec_x"}), decision=1, path=1)
    run.add(fr.OUTPUT, values.encode({"text": "yes", "stopReason": "end_turn"}), decision=1, path=1)
    run.add(fr.CLOSE, values.encode({}), decision=1, path=1)
    opened = _frame(fr.OPEN, {"path": "0", "nth": 1}, effect=1)
    said = {"text": "no", "stopReason": "end_turn"}
    answer = _judge(run, [opened, _frame(fr.OUTPUT, said, effect=1), _frame(fr.CLOSE, {}, effect=1)], decision=1)
    assert [item.path for item in answer.divergences] == ["/decisions/1/output"]
    assert not _judge(run, [], decision=0).equivalent


def test_a_file_written_outside_is_an_attempt_unless_the_run_wrote_it_or_nobody_knows() -> None:
    """Whatever the overlay absorbed; the run's folder and the temp folders are its own."""
    paths = ["/w/in", "/tmp/in", "/srv/known", "/srv/other"]
    frames = _served(1, 2) + [_frame(fr.WRITTEN, {"path": path, "kind": "file"}) for path in paths]
    answer = _judge(_two_calls(), frames, stdout=b"a\nb\n", recorded_writes={"/srv/known"})
    assert [(one.what, one.where, one.stoppedBy) for one in answer.attempts if one.where.startswith("/srv")] == [
        ("file.write", "/srv/other", "overlay")
    ]
    assert not answer.equivalent
    assert _judge(_two_calls(), frames, stdout=b"a\nb\n").equivalent

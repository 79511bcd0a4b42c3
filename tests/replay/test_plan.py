"""The plan of a replay, and why one is refused."""

from __future__ import annotations

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.replay.lending import lend
from tachograph.replay.plan import Launch, Refusal, make_plan
from tests.replay.made import Run

NOBODY = lend(Run().log, environ={}, tag_key=bytes(32))


def test_argv_folder_umask_environment_stdin_and_streams_are_those_of_the_run() -> None:
    """Boundaries that the run used are answered from the record, the others are not used."""
    run = Run().add(fr.STREAM, b"fed to it", flags=0).call(1, b"{}")
    plan = make_plan(run.log, lent=NOBODY)
    assert isinstance(plan, Launch)
    assert (plan.argv, plan.cwd, plan.umask, plan.hash_seed) == (["python", "agent.py"], "/somewhere", 18, "7")
    assert (plan.environment, plan.stdin, plan.kinds) == ({"A": "b"}, b"fed to it", ("null", "pipe", "pipe"))
    assert plan.boundaries["http"] == "recorded_outputs"
    assert plan.boundaries["tool"] == "not_used"


def test_another_folder_and_command_can_be_named() -> None:
    """The rest stays as recorded."""
    plan = make_plan(Run().log, lent=NOBODY, cwd="/elsewhere", command=["python", "other.py"])
    assert isinstance(plan, Launch)
    assert (plan.cwd, plan.argv) == ("/elsewhere", ["python", "other.py"])


def test_a_connection_that_no_seam_recorded_is_a_reason_not_to_start() -> None:
    """The message says how many and which was the first."""
    run = Run().add(fr.NOTE, values.encode({"what": "socket.connect", "detail": "10.0.0.1:5432"}))
    refusal = make_plan(run.log, lent=NOBODY)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unrecorded_boundary"
    assert "10.0.0.1:5432" in refusal.message


def test_a_program_that_did_not_load_the_recorder_is_not_started_again() -> None:
    """The process that `tacho run` started is not among those that recorded themselves."""
    run = Run()
    run.frames = [frame for frame in run.frames if frame.kind != fr.PROCESS]
    refusal = make_plan(run.log, lent=NOBODY)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "not_watched"


def test_a_record_without_a_command_cannot_be_run_again() -> None:
    """Unless a command is given."""
    run = Run(argv=[])
    refusal = make_plan(run.log, lent=NOBODY)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "no_entry_point"
    assert isinstance(make_plan(run.log, lent=NOBODY, command=["python", "x.py"]), Launch)

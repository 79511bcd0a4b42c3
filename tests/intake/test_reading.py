"""Captures read back: output, coverage, damage, and values that import nothing."""

from __future__ import annotations

import sys

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.reading import Captured, plainly
from tests.intake.test_skeleton import ANSWER, CHAT, REQUEST
from tests.replay.made import RUN_ID, Run


def _captured(run: Run, number: int = 0) -> Captured:
    return Captured("dec_x", RUN_ID, number, [run.data])


def test_the_output_is_what_was_said_else_the_last_answer_else_stdout() -> None:
    """In this order, and None where none of them is there."""
    wrote = Run().add(fr.STREAM, b"written\n", flags=1)
    assert _captured(wrote).output == "written\n"
    assert _captured(wrote.call(1, REQUEST, url=CHAT, answer=ANSWER)).output == "a secret"
    said = values.encode({"text": "said", "stopReason": "end_turn"})
    assert _captured(wrote.add(fr.OUTPUT, said)).output == "said"
    assert _captured(Run().add(fr.OPEN, values.encode({"id": "d"}), decision=1), 1).output is None


def test_a_decision_has_its_own_effects_and_the_run_has_all() -> None:
    """By number."""
    run = Run().call(1, b"{}", decision=1).call(2, b"{}", decision=2)
    assert [effect.index for effect in _captured(run, 2).effects] == [2]
    assert len(_captured(run).effects) == 2


def test_reading_a_value_imports_nothing() -> None:
    """A class of the program stays a name."""
    assert "wave" not in sys.modules
    import wave

    data = values.encode(wave.Error("broken"))
    del sys.modules["wave"]
    assert "wave:Error" in str(plainly(data))
    assert "wave" not in sys.modules
    assert plainly(b"") is None

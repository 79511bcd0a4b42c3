"""Credentials in a replay: lent, or stood in for, and never what decides a match."""

from __future__ import annotations

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.effect_log import read_effect_log
from tachograph.intake.masking import tag_of
from tachograph.replay.lending import lend, stand_in
from tests.replay.made import Run

KEY = bytes(range(32))
VALUE, SHAPE = b"sk-0123456789abcdefXY", "sk-0000000000aaaaaaAA"


def _run() -> Run:
    said = {"SERVICE_KEY": {"shape": SHAPE, "tag": tag_of(KEY, VALUE)}}
    run = Run(credentials=said).call(1, b'{"key": "' + VALUE + b'"}', answer=b"you sent " + VALUE)
    return run.add(fr.STREAM, b"key=" + VALUE + b"\n", flags=1)


def test_a_variable_with_the_recorded_value_is_lent() -> None:
    """Then nothing stands in for anything."""
    lent = lend(_run().log, environ={"SERVICE_KEY": VALUE.decode()}, tag_key=KEY)
    assert (lent.variables, lent.placeholders) == ({"SERVICE_KEY": VALUE.decode()}, {})
    run = _run()
    assert stand_in([run.data], lent, tag_key=KEY).logs == [run.data]


def test_a_missing_or_another_value_is_stood_in_for_in_what_was_sent_and_written() -> None:
    """What the program was answered stays byte for byte."""
    for environ in ({}, {"SERVICE_KEY": "sk-another"}):
        lent = lend(_run().log, environ=environ, tag_key=KEY)
        assert lent.variables == {"SERVICE_KEY": SHAPE}
        assert list(lent.placeholders) == ["SERVICE_KEY"]
        stood_in = stand_in([_run().data], lent, tag_key=KEY)
        log = read_effect_log(stood_in.logs)
        assert log.effects[0].body == b'{"key": "' + SHAPE.encode() + b'"}'
        assert log.effects[0].answer == b"you sent " + VALUE
        assert log.streams[1] == b"key=" + SHAPE.encode() + b"\n"
        assert stood_in.compared(b"it says " + VALUE) == b"it says " + SHAPE.encode()


def test_the_tape_tells_the_child_what_stands_for_what() -> None:
    """As the last frame, and only where something was found."""
    lent = lend(_run().log, environ={}, tag_key=KEY)
    last = fr.read_log(b"".join(stand_in([_run().data], lent, tag_key=KEY).tape()))[-1]
    assert (last.kind, values.decode(last.payload)) == (fr.LENT, {VALUE: SHAPE.encode()})
    quiet = Run(credentials={"SERVICE_KEY": {"shape": SHAPE, "tag": tag_of(KEY, VALUE)}})
    assert b"".join(stand_in([quiet.data], lent, tag_key=KEY).tape()) == quiet.data

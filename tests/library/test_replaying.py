"""replay: in a fresh process, closed, judged for the decision asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.errors import Refused
from tests.library.conftest import Kept


def test_each_decision_replays_equivalent_without_the_key_and_the_server(kept: Kept) -> None:
    """The credential variable is stood in for, and that is said; nothing goes out."""
    answer = kept.store.replay(kept.refunds)
    assert answer.equivalent
    assert answer.liveEffects == 0
    assert answer.served == 4
    assert any("SERVICE_API_KEY" in note for note in answer.notes)
    assert kept.store.replay(kept.other).equivalent
    assert kept.store.replay(kept.bad).outcome.exitCode == 3


def test_what_differs_outside_the_decision_asked_for_is_a_note_and_no_divergence(kept: Kept, tmp_path: Path) -> None:
    """The first decision's prompt is edited: the second one is still equivalent."""
    program = tmp_path / "agent.py"
    recorded = kept.store.show(kept.refunds).facts["argv"]
    source = (kept.path.parent / "agent.py").read_text()
    program.write_text(source.replace("Answer from the memory.", "Answer only from the memory."))
    command = [recorded[0], str(program), *recorded[2:]]
    other = kept.store.replay(kept.other, command=command)
    assert any("outside this decision" in note for note in other.notes)
    edited = kept.store.replay(kept.refunds, command=command)
    assert not edited.equivalent
    assert edited.divergences[0].path == "/effects/2/request/body/messages/0/content"


def test_a_changed_input_is_named_and_compared_all_the_same(kept: Kept) -> None:
    """The file that argv names is not what it was."""
    program = kept.path.parent / "plain.py"
    before = program.read_text()
    try:
        program.write_text(before + "# a comment\n")
        answer = kept.store.replay(kept.good)
    finally:
        program.write_text(before)
    assert answer.equivalent
    assert [(Path(one["path"]).name, one["what"]) for one in answer.inputsChanged] == [("plain.py", "content")]


def test_a_folder_that_is_not_here_is_refused_with_the_way_out(kept: Kept) -> None:
    """The run's folder may be on another machine."""
    with pytest.raises(Refused, match="--cwd"):
        kept.store.replay(kept.good, cwd="/nonexistent/folder")

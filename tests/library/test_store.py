"""The library gives the command line's answers as typed objects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tachograph import Store
from tachograph.errors import NotFound, UsageError
from tests.library.conftest import Kept


def test_decisions_are_listed_newest_first_with_what_was_counted(kept: Kept) -> None:
    """Four decisions: two of one run, one each of two plain runs."""
    rows = kept.store.decisions()
    assert [row.decisionId for row in rows] == [kept.bad, kept.good, kept.other, kept.refunds]
    refunds = rows[3]
    assert (refunds.agentId, refunds.effects, refunds.modelCalls, refunds.toolCalls) == ("refunds", 4, 1, 1)
    assert refunds.stopReason == "end_turn"
    assert not refunds.failed
    assert refunds.exitCode is None
    assert rows[0].agentId.startswith("agt_")
    assert len(rows[0].agentId) == 20
    assert refunds.title.startswith("May I return the kettle?")


def test_failures_are_told_by_which_of_the_four_ways_holds(kept: Kept) -> None:
    """An exception out of a decision, and a non-zero exit of a run that is its own decision."""
    failed = {row.decisionId: row.failure for row in kept.store.decisions(failed=True)}
    assert failed == {kept.other: "exception", kept.bad: "exit_code"}


def test_filters_choose_by_agent_person_session_tool_time_and_text(kept: Kept) -> None:
    """Persons and sessions are looked up by keyed tags, texts by opening each capture."""

    def ids(**chosen: object) -> list[str]:
        return [row.decisionId for row in kept.store.decisions(**chosen)]  # type: ignore[arg-type]

    assert ids(agent="refunds") == [kept.refunds]
    assert ids(user="user-77") == [kept.other]
    assert ids(user="user-78") == []
    assert ids(session="session-5") == [kept.other]
    assert ids(tool="apply_policy") == [kept.refunds]
    assert ids(grep="hello here") == [kept.bad]
    assert ids(since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert ids(limit=2) == [kept.bad, kept.good]


def test_a_decision_is_found_by_id_prefix_ulid_and_last(kept: Kept) -> None:
    """Anything else is refused with what would have been right."""
    assert kept.store.show("last").decision.decisionId == kept.bad
    assert kept.store.show(kept.good).decision.decisionId == kept.good
    assert kept.store.show(kept.good[4:]).decision.decisionId == kept.good
    with pytest.raises(NotFound, match="4 decisions have an id"):
        kept.store.show("dec_0")
    with pytest.raises(NotFound, match="no decision has an id"):
        kept.store.show("dec_7ZZZZZZZZZ")
    with pytest.raises(UsageError, match="unique prefix"):
        kept.store.show("newest")


def test_exact_bytes_come_back_but_for_a_credential_of_the_headers(kept: Kept) -> None:
    """The key stands in the request's body too; there each of its characters is shown as an asterisk."""
    sent = kept.store.bytes(kept.refunds, 2, side="request")
    assert b"*" * len(kept.key) in sent
    assert kept.key.encode() not in sent
    assert b'"temperature":0.25' in sent
    with pytest.raises(NotFound, match="no effect 99"):
        kept.store.bytes(kept.refunds, 99)


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    """Reading never makes a store."""
    with pytest.raises(UsageError, match="no store"):
        Store(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_doctor_says_what_is_seen_and_how_large_the_store_is(kept: Kept) -> None:
    """Looked at now."""
    answer = kept.store.doctor()
    assert {seam.name: seam.watched for seam in answer.seams}["httpx2"] is True
    assert answer.store["path"] == str(kept.path)
    assert answer.problems == []
    assert answer.leftovers == []
    assert any("gRPC" in one for one in answer.notSeen)


def test_the_catalogue_is_made_anew_from_the_journal_alone(kept: Kept) -> None:
    """The same rows, in the same order."""
    before = kept.store.decisions()
    (kept.path / "catalogue.db").unlink()
    assert kept.store.decisions() == before  # read from the journal, nothing written
    assert kept.store.rebuild() == 7  # two keys, four decisions, and the record of the run that holds two of them
    assert kept.store.decisions() == before

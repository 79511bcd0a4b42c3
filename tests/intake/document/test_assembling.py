"""What a document says of a run's code and surroundings stands in the journal, so a program's own words may not."""

from __future__ import annotations

from typing import Any

import pytest

from tachograph.intake.document.assembling import assemble
from tachograph.intake.document.observed import Observed

RUN = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"


def document(around: Any) -> dict[str, Any]:
    return assemble(
        Observed.of([]), run_id=RUN, decision_id="dec" + RUN[3:], opened={}, run={"around": around}, failed=False,
        version_of=lambda kind, digest: "v0",
    ).document  # fmt: skip


@pytest.mark.parametrize("around", [None, 7, [], {"missing": 7}, {"missing": {"codeVersion": []}}, {"codeVersion": 7}])
def test_what_makes_no_sense_is_said_to_be_not_collected(around: Any) -> None:
    made = document(around)
    assert "codeVersion" not in made["runtime"]
    state = {"state": "unavailable", "provenance": "unknown", "reason": "not_collected"}
    assert made["evidenceStates"]["/runtime/codeVersion"] == state


def test_a_reason_of_nobody_s_list_and_a_long_text_are_not_taken_over() -> None:
    made = document({"missing": {"codeVersion": "ann's diagnosis"}, "entryPoint": "x" * 1025, "dependencySource": "x"})
    assert "diagnosis" not in str(made)
    assert "entryPoint" not in made["runtime"]
    assert made["runtime"]["dependencySource"] == "x"


def test_what_is_known_not_to_exist_is_absent_and_what_was_not_found_out_unavailable() -> None:
    made = document({"missing": {"codeVersion": "no_repository", "dependencyLockHash": "interpreter_unknown"}})
    states = {name: made["evidenceStates"][f"/runtime/{name}"] for name in ("codeVersion", "dependencyLockHash")}
    assert states["codeVersion"] == {"state": "absent", "provenance": "observed", "reason": "no_repository"}
    assert states["dependencyLockHash"]["state"] == "unavailable"
    assert states["dependencyLockHash"]["reason"] == "interpreter_unknown"

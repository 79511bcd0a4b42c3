"""The frozen samples of every `--json` document load, and are written back byte for byte.

A sample is never changed: a program that somebody wrote against it must go on reading what we print. A key that is
added has a default, so that samples from before it load; what they said is written back, no more and no less.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tachograph.formats.answers import DecisionRow, DiffAnswer, DoctorAnswer, ReplayAnswer, ShowAnswer, VerifyAnswer

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.json"))
# The document that a sample is: the first word of its name.
MODELS: dict[str, Any] = {
    "ls": list[DecisionRow], "show": ShowAnswer, "replay": ReplayAnswer, "diff": DiffAnswer, "doctor": DoctorAnswer,
    "verify": VerifyAnswer,
}  # fmt: skip


def adapter_of(sample: Path) -> TypeAdapter[Any]:
    return TypeAdapter(MODELS[sample.stem.partition("_")[0]])


def test_there_is_a_sample_of_every_document() -> None:
    assert {sample.stem.partition("_")[0] for sample in SAMPLES} == MODELS.keys()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_frozen_sample_loads_and_is_written_back_the_same(sample: Path) -> None:
    adapter, text = adapter_of(sample), sample.read_text(encoding="utf-8")
    loaded = adapter.validate_json(text)
    written = json.dumps(adapter.dump_python(loaded, mode="json", exclude_unset=True), indent=2, ensure_ascii=False)
    assert written + "\n" == text


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_key_that_is_not_known_is_refused(sample: Path) -> None:
    document = json.loads(sample.read_text(encoding="utf-8"))
    (document[0] if isinstance(document, list) else document)["surprise"] = 1
    with pytest.raises(ValidationError, match="surprise"):
        adapter_of(sample).validate_python(document)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_a_key_that_is_missing_is_refused(sample: Path) -> None:
    document = json.loads(sample.read_text(encoding="utf-8"))
    del (document[0] if isinstance(document, list) else document)[_first_required(document)]
    with pytest.raises(ValidationError, match="Field required"):
        adapter_of(sample).validate_python(document)


def _first_required(document: Any) -> str:
    return next(iter(document[0] if isinstance(document, list) else document))

"""docs/json.md is what tools/json_docs.py writes, and shows every document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.formats.answers import Answer
from tools import json_docs


class _Silent(Answer):
    """A document whose key says nothing."""

    key: str


class _Plain(Answer):
    """A document."""

    key: str | None
    """What it means."""
    inner: list[_Silent]
    """More."""


def test_the_page_is_what_the_models_say() -> None:
    assert json_docs.PAGE.read_text() == json_docs.page(), "docs/json.md is stale: python tools/json_docs.py"


def test_every_document_is_on_the_page() -> None:
    assert json_docs.undocumented() == []


def test_a_key_without_a_meaning_is_refused() -> None:
    assert json_docs.meanings(_Plain) == {"key": "What it means.", "inner": "More."}
    with pytest.raises(ValueError, match=r"_Silent\.key"):
        json_docs.meanings(_Silent)


def test_the_parts_of_a_document_are_found() -> None:
    assert list(json_docs.parts(_Plain)) == [_Silent]
    assert json_docs.type_in_words(_Plain.model_fields["key"].annotation) == "string or null"


def test_a_stale_page_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "json.md"
    assert json_docs.main(["--check"], path=page) == 1
    assert json_docs.main([], path=page) == 0
    assert json_docs.main(["--check"], path=page) == 0
    page.write_text(page.read_text().replace("string or null", "string", 1))
    assert json_docs.main(["--check"], path=page) == 1
    assert capsys.readouterr().err == "json.md is stale: python tools/json_docs.py\n" * 2

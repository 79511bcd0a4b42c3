"""The public surface is a list under test, and importing it costs a recorded program next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tachograph
from tests.repository.tree import ROOT

SURFACE = (Path(__file__).parent / "public_surface.txt").read_text().split()
# Row 1 of the numbers to reach: what `tachograph.install()` may not import, the two documents' libraries included.
KEPT_OUT = ["httpx", "httpx2", "orjson", "pydantic", "rfc8785", "rich", "sqlite3", "typer", "zstandard"]


def imported_by(code: str, folder: Path) -> set[str]:
    """The modules that a fresh Python has after running `code`, minus those that it has after running nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TACHO", "PYTHON", "COV"))}

    def after(program: str) -> set[str]:
        program += "\nimport sys\nsys.stdout.write('\\n'.join(sys.modules))\n"
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, check=True, text=True
        )
        return set(done.stdout.split())

    return after(code) - after("pass")


def test_the_public_names_are_the_listed_ones() -> None:
    assert sorted(tachograph.__all__) == sorted(SURFACE)
    assert sorted(SURFACE) == SURFACE, "the list is kept sorted"


@pytest.mark.parametrize("name", SURFACE)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(tachograph, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = tachograph.nonsense


def test_the_version_is_the_distribution_s() -> None:
    assert tachograph.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_installing_imports_none_of_the_heavy_libraries(tmp_path: Path) -> None:
    assert sorted(imported_by("import tachograph; tachograph.install()", tmp_path) & set(KEPT_OUT)) == []


def test_the_script_s_entry_imports_nothing_heavy_before_it_is_called(tmp_path: Path) -> None:
    assert sorted(imported_by("import tachograph.cli.main", tmp_path) & set(KEPT_OUT)) == []


def test_an_import_of_a_heavy_library_is_found(tmp_path: Path) -> None:
    assert {"sqlite3", "zstandard"} <= imported_by("import sqlite3, zstandard", tmp_path) & set(KEPT_OUT)

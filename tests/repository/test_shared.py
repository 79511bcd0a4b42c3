"""The rule about skipping: with the shared material there and in CI, a test that reads it may not be skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.tree import ROOT

TESTS = """
import os
import pytest

def test_asks_for_the_folder(shared):
    assert shared.is_dir()

@pytest.mark.shared
def test_is_marked_and_skips():
    pytest.skip("no such case file")

def test_reads_the_variable_itself():
    if "not there" not in os.environ:
        pytest.skip("TACHOGRAPH_SHARED is not good enough")

def test_has_nothing_to_do_with_it():
    pytest.skip("another reason")
"""
MODULE = 'import pytest\npytest.skip("TACHOGRAPH_SHARED, says the module", allow_module_level=True)\n'


def _outcome(folder: Path, **environment: str) -> str:
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = shared: reads it\n")
    (folder / "test_tests.py").write_text(TESTS)
    (folder / "test_module.py").write_text(MODULE)
    kept = {
        name: value for name, value in os.environ.items() if name not in ("CI", "TACHOGRAPH_SHARED", "PYTEST_ADDOPTS")
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--continue-on-collection-errors", "."],
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
    ).stdout


def test_without_the_folder_such_tests_are_skipped_with_a_plain_message(tmp_path: Path) -> None:
    output = _outcome(tmp_path, CI="true")
    assert "5 skipped" in output
    assert "TACHOGRAPH_SHARED is not set: this test reads the shared material, which is not here" in output


def test_with_the_folder_at_a_desk_a_skip_is_a_skip(tmp_path: Path) -> None:
    assert "1 passed, 4 skipped" in _outcome(tmp_path, TACHOGRAPH_SHARED=str(tmp_path))


def test_with_the_folder_in_ci_a_skip_is_a_failure(tmp_path: Path) -> None:
    output = _outcome(tmp_path, CI="true", TACHOGRAPH_SHARED=str(tmp_path))
    assert "2 failed, 1 passed, 1 skipped, 1 error" in output
    assert "was skipped all the same" in output


def test_a_variable_that_names_no_folder_is_a_failure(tmp_path: Path) -> None:
    assert "names no-such-folder, which is no folder" in _outcome(tmp_path, TACHOGRAPH_SHARED="no-such-folder")


def test_this_test_run_has_the_material_if_it_is_beside_the_checkout(request: pytest.FixtureRequest) -> None:
    if not os.environ.get("CI") or not (ROOT.parent / "shared" / "contracts").is_dir():
        pytest.skip("not in CI, or no shared material beside the checkout")
    assert os.environ.get("TACHOGRAPH_SHARED"), ".ci/run sets it"

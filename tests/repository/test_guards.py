"""The guards that lint keeps can each fail: what they forbid is written down here, and they say so.

`make lint` shows that the tree passes them; these tests show that a tree which should not pass does not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.repository.tree import ROOT

BIN = Path(sys.executable).parent
# Contract: the module to which its breach is added, and the breach.
BREACHES = {
    "layers": ("errors.py", "import tachograph.model"),
    "capture-knows-no-replay": ("capture/recorder.py", "import tachograph.replay.child"),
    "pure": ("comparison/compare.py", "import random"),
    "inside": ("formats/frame.py", "import pydantic"),
}


def _contracts() -> dict[str, str]:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {contract["id"]: contract["name"] for contract in configuration["tool"]["importlinter"]["contracts"]}


def _linted(folder: Path) -> str:
    return subprocess.run(
        [BIN / "lint-imports", "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": str(BIN), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    ).stdout


def test_every_contract_has_a_breach_here() -> None:
    assert BREACHES.keys() == _contracts().keys()


def test_each_contract_finds_its_breach_and_only_that(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert "0 broken" in _linted(tmp_path)
    for module, breach in BREACHES.values():
        path = tmp_path / "src" / "tachograph" / module
        path.write_text(path.read_text() + f"\n{breach}\n")
    output = _linted(tmp_path)
    for contract, name in _contracts().items():
        assert f"{name} BROKEN" in output, f"{contract} does not notice {BREACHES[contract]}\n{output}"


def test_a_new_package_must_be_given_its_layer(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src" / "tachograph" / "placeless.py").write_text('"""Nowhere."""\n')
    assert "placeless" in _linted(tmp_path)


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("from unittest.mock import MagicMock\n", "TID251"),
        ("import mock\n", "TID251"),
        ("def f() -> None:\n    try:\n        g()\n    except Exception:\n        pass\n", "BLE001"),
        ("import os  # noqa\n", "PGH004"),
        ("x = 1  # noqa: E501\n", "RUF100"),
        (f"x = '{'y' * 120}'\n", "E501"),
    ],
)
def test_ruff_refuses(code: str, rule: str) -> None:
    done = subprocess.run(
        [BIN / "ruff", "check", "--output-format", "concise", "--stdin-filename", "tests/test_x.py", "-"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert rule in done.stdout


def test_mypy_is_strict_over_the_whole_source() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"] is True
    assert mypy["files"] == ["src"]
    assert not [o for o in mypy["overrides"] if any(m.startswith("tachograph") for m in o["module"])]

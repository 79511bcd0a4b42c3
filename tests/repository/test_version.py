"""The version is written twice, for the build and for the program: both must say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tachograph


def test_the_distribution_and_the_program_have_one_version() -> None:
    """pyproject.toml and tachograph.version."""
    described = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert described["project"]["version"] == tachograph.__version__

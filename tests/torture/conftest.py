"""What the torture's tests share: a folder where a sync costs nothing, and assertions that read well."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.torture.harness", "tests.torture.kept")

MEMORY = "/dev/shm"


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: that a sync was asked for matters here, not that it happens."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="tachograph-torture-") as folder:
        yield Path(folder)

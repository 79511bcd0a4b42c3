"""The torture's checks live in modules of their own, whose assertions shall read as well as a test's."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.torture.harness", "tests.torture.kept")

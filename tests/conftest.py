"""What every test gets, and the one rule about skipping.

- `shared` is the folder of shared material that TACHOGRAPH_SHARED names. Without the variable, a test that asks for it
  is skipped with a plain message; with the variable set in CI, skipping such a test is a failure, since the material
  is there and nobody would notice that it was not read.
- No test touches the keys or the store of whoever runs it: the configuration folder is a fresh one, and the variables
  that name a store are gone.
- Hypothesis has no deadline (two shared cores make one meaningless) and repeats its examples in CI.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

SHARED_VARIABLE = "TACHOGRAPH_SHARED"

hypothesis.settings.register_profile("desk", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material; skips where TACHOGRAPH_SHARED is not set."""
    named = os.environ.get(SHARED_VARIABLE)
    if not named:
        pytest.skip(f"{SHARED_VARIABLE} is not set: this test reads the shared material, which is not here")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"{SHARED_VARIABLE} names {folder}, which is no folder")
    return folder


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Configuration and state folders of the tests' own, for this process and every child that inherits them."""
    folder = tmp_path_factory.mktemp("configuration")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TACHO_")]:
            patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that takes the fixture carries the marker too, so that `-m shared` selects all of them."""
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.shared)


def _must_not_skip() -> bool:
    return bool(os.environ.get("CI")) and bool(os.environ.get(SHARED_VARIABLE))


def _fail_instead(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} reads the shared material, which is here, and was skipped all the same: {reason}"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    needs_shared = item.get_closest_marker("shared") is not None or SHARED_VARIABLE in str(report.longrepr)
    if report.skipped and needs_shared and not hasattr(report, "wasxfail") and _must_not_skip():
        _fail_instead(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole module can skip while it is collected; the rule is the same."""
    report = yield
    if report.skipped and SHARED_VARIABLE in str(report.longrepr) and _must_not_skip():
        _fail_instead(report)
    return report

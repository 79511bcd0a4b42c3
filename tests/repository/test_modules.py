"""Modules keep the house's proportions, names and promises, and tests use no mock objects."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import pytest

from tests.repository.tree import Tracked, modules

LONGEST = 450
LONGEST_TEST = 600  # a test file mirrors one source file: cutting it by size would break that, so it may be longer
REFUSED = {
    "utils", "helpers", "core", "common", "manager", "base", "misc", "trace", "audit", "snapshot", "cassette",
}  # fmt: skip
MOCKS = {"unittest.mock", "mock", "pytest_mock"}


def refused_names(files: Iterable[Tracked]) -> list[str]:
    """Modules and folders whose name says nothing, or says one of our things by another word."""
    return [
        f"{file.path}: the name {part!r} is refused"
        for file in files
        for part in PurePosixPath(file.path).with_suffix("").parts
        if part in REFUSED
    ]


def too_long(files: Iterable[Tracked]) -> list[str]:
    found = []
    for file in files:
        length, most = len(file.text.splitlines()), LONGEST_TEST if file.path.startswith("tests/") else LONGEST
        if length > most:
            found.append(f"{file.path}: {length} lines, at most {most}")
    return found


def without_promise(files: Iterable[Tracked]) -> list[str]:
    return [f"{file.path}: no opening docstring" for file in files if not ast.get_docstring(file.tree())]


def mock_objects(files: Iterable[Tracked]) -> list[str]:
    """Imports of a mocking library, and `monkeypatch.setattr` on something of ours."""
    return [f"{file.path}:{line}: {what}" for file in files for line, what in _mocks_in(file.tree())]


def _mocks_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    ours = {"tachograph"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in MOCKS:
                    yield node.lineno, f"imports {alias.name}"
                if alias.name.split(".")[0] == "tachograph":
                    ours.add((alias.asname or "tachograph").split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module in MOCKS or (node.module == "unittest" and any(a.name == "mock" for a in node.names)):
                yield node.lineno, f"imports from {node.module}"
            if node.module.split(".")[0] == "tachograph":
                ours.update(alias.asname or alias.name for alias in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "monkeypatch.setattr" and node.args:
            target = ast.unparse(node.args[0]).strip("'\"").split(".")[0]
            if target in ours:
                yield node.lineno, f"patches our own {ast.unparse(node.args[0])}"


def test_no_module_has_a_refused_name() -> None:
    assert refused_names(modules()) == []


def test_no_module_is_longer_than_the_house_allows() -> None:
    assert too_long(modules()) == []


def test_every_module_opens_with_its_promise() -> None:
    assert without_promise(modules()) == []


def test_no_test_uses_mock_objects() -> None:
    assert mock_objects(modules()) == []


@pytest.mark.parametrize("path", ["src/tachograph/utils.py", "src/tachograph/core/engine.py", "tests/helpers.py"])
def test_a_refused_name_is_found(path: str) -> None:
    assert len(refused_names([Tracked(path, "")])) == 1


def test_a_long_module_is_found() -> None:
    assert too_long([Tracked("a.py", "x = 1\n" * 450)]) == []
    assert too_long([Tracked("a.py", "x = 1\n" * 451)]) == ["a.py: 451 lines, at most 450"]
    assert too_long([Tracked("tests/a.py", "x = 1\n" * 601)]) == ["tests/a.py: 601 lines, at most 600"]


def test_a_module_without_a_promise_is_found() -> None:
    assert without_promise([Tracked("a.py", '"""Promise."""\n')]) == []
    assert len(without_promise([Tracked("a.py", "x = 1\n"), Tracked("b.py", "# comment\n"), Tracked("c.py", "")])) == 3


@pytest.mark.parametrize(
    "source",
    [
        "from unittest.mock import MagicMock",
        "from unittest import mock",
        "import unittest.mock",
        "def test(): import mock",
        "import pytest_mock",
        "from tachograph.store import spool\ndef test(monkeypatch): monkeypatch.setattr(spool, 'write', None)",
        "def test(monkeypatch): monkeypatch.setattr('tachograph.store.spool.write', None)",
        "import tachograph\ndef test(monkeypatch): monkeypatch.setattr(tachograph.intake, 'run', None)",
    ],
)
def test_a_mock_object_is_found(source: str) -> None:
    assert len(mock_objects([Tracked("t.py", source)])) == 1


def test_setting_the_environment_or_another_project_is_no_mock() -> None:
    source = (
        "import time\ndef test(monkeypatch):\n  monkeypatch.setenv('A', 'b')\n  monkeypatch.setattr(time, 'time', 0)"
    )
    assert mock_objects([Tracked("t.py", source)]) == []

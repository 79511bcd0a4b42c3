"""Nothing in the tree points at a machine, at a registry, or at how the project was made.

The patterns are put together at run time, since this file is part of the tree that it searches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.repository.tree import Tracked, tracked

HOSTS = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("deb", "debian", "org"),
    ("crates", "io"),
    ("golang", "org"),
    ("rubygems", "org"),
    ("anaconda", "org"),
    ("maven", "org"),
]
PLACES = ["root", "work", "home/[A-Za-z]", "Users/[A-Za-z]", "opt/wheels", "opt/pypi", "tmp/plan"]
PHRASES = [
    "co-authored" + "-by",
    "claude" + " code",
    "chat" + "gpt",
    r"(ai|llm|machine)[- ]" + "generated",
    r"(written|generated|made|filed) by an? " + "(ai|llm|model|assistant|session)",
    "as an " + "ai",
    "sub-?" + "agents?",
    "working " + "agreement",
    "interfaces" + r"\.md",
    r"\bthe " + "lead" + r"\b",
    r"\bissue " + r"#?\d",
    r"\b(this|next|previous|evidence) " + "issue",
    "issues " + "show",
]
PATTERNS = {
    "a registry's host": re.compile("|".join(r"\b" + r"\.".join(parts) + r"\b" for parts in HOSTS), re.IGNORECASE),
    "a path of some machine": re.compile(r"(?<![\w.~$}<])/(?:" + "|".join(PLACES) + r")(?=[/\w])|\.py" + "env/"),
    "how the project was made": re.compile("|".join(PHRASES), re.IGNORECASE),
}


def faults(files: Iterable[Tracked]) -> list[str]:
    """Every place where a file holds what must not be in it, as `path:line: what`."""
    return [
        f"{file.path}:{number}: {what}: {match.group()!r}"
        for file in files
        for number, line in enumerate(file.text.splitlines(), start=1)
        for what, pattern in PATTERNS.items()
        for match in pattern.finditer(line)
    ]


def test_the_tree_names_no_host_no_machine_and_not_how_it_was_made() -> None:
    assert faults(tracked()) == []


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://pypi" + ".org/simple",
        "--hash https://files.pythonhosted" + ".org/packages/aa",
        "open('/" + "work/main/x')",
        "cd /" + "root/project",
        "see /" + "home/someone/notes",
        "Co-Authored" + "-By: somebody",
        "to be done in the " + "next " + "issue",
        "see issue" + " #12",
    ],
)
def test_a_line_that_does_is_found(line: str) -> None:
    assert len(faults([Tracked("x.md", f"good\n{line}\n")])) == 1


@pytest.mark.parametrize("line", ["cd build/root/x", "$HOME/work/x", "https://example.org/work/x", "tests/work/x.py"])
def test_a_line_that_does_not_is_left_alone(line: str) -> None:
    assert faults([Tracked("x.md", line)]) == []

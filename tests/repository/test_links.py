"""Every relative link in every page leads to a tracked file, and every fragment to a heading."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from urllib.parse import unquote

import pytest

from tests.repository.tree import Tracked, pages, tracked

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(
    r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]+)\"", re.MULTILINE
)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


def links(page: Tracked) -> Iterator[str]:
    prose = CODE.sub("", FENCE.sub("", page.text))
    for groups in LINK.findall(prose):
        target = next(group for group in groups if group)
        if not re.match(r"[a-z][a-z0-9+.-]*:|//", target):
            yield unquote(target)


def anchors(text: str) -> set[str]:
    """The fragments that a page's headings get: lower case, spaces to hyphens, punctuation gone."""
    headings = (re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", r"\1", h) for h in HEADING.findall(FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(files: Iterable[Tracked], known: Collection[str], texts: dict[str, str]) -> list[str]:
    faults = []
    folders = {posixpath.dirname(path) for path in known}
    folders |= {parent for folder in folders for parent in _parents(folder)}
    for page in files:
        for link in links(page):
            path, _, fragment = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), path)) if path else page.path
            if target not in known and target not in folders and target != ".":
                faults.append(f"{page.path}: {link}: no such file")
            elif fragment and target.endswith(".md") and fragment not in anchors(texts[target]):
                faults.append(f"{page.path}: {link}: no such heading")
    return faults


def _parents(folder: str) -> Iterator[str]:
    while folder:
        yield folder
        folder = posixpath.dirname(folder)


def test_every_relative_link_leads_somewhere() -> None:
    files = tracked()
    assert broken(pages(), {file.path for file in files}, {file.path: file.text for file in files}) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a](b.md)", None),
        ("[a](missing.md)", "missing.md: no such file"),
        ("[a](../README.md)", None),
        ("[a](b.md#two-words)", None),
        ("[a](b.md#three)", "b.md#three: no such heading"),
        ("[a]: gone.md", "gone.md: no such file"),
        ('<img src="gone.png">', "gone.png: no such file"),
        ("`[a](in/code.md)`", None),
        ("```\n[a](in/fence.md)\n```", None),
        ("[a](https://example.org/x)", None),
    ],
)
def test_a_broken_link_is_found(text: str, fault: str | None) -> None:
    texts = {"README.md": "", "docs/a.md": text, "docs/b.md": "# One\n\n## Two `words`!\n"}
    found = broken([Tracked("docs/a.md", text)], texts.keys(), texts)
    assert found == ([f"docs/a.md: {fault}"] if fault else [])

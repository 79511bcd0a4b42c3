"""The lock files hold what pyproject.toml asks for, with hashes, and point nowhere.

A fresh machine installs from them with `--require-hashes`; which index serves the files is that machine's affair.
"""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.tree import ROOT

LOCKS = ["runtime.txt", "demo.txt", "dev.txt", "model.txt"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def read(text: str) -> dict[str, str]:
    """Name to version. Raises ValueError for a line that is no pinned requirement with a hash."""
    joined = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    pinned = {}
    for line in filter(None, (line.strip() for line in joined.splitlines())):
        match = re.match(r"([a-z0-9.-]+)==([^ ;]+)( ;[^-]*)?", line)
        if not match or not HASH.search(line):
            raise ValueError(f"not a pinned requirement with a hash: {line[:80]}")
        pinned[match[1]] = match[2]
    return pinned


def lock(name: str) -> dict[str, str]:
    return read((ROOT / "requirements" / name).read_text())


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_line_is_pinned_with_its_hashes(name: str) -> None:
    assert lock(name)


@pytest.mark.parametrize(
    "text",
    [
        "orjson==3.13.0\n",
        "orjson>=3 --hash=sha256:" + "0" * 64,
        "--extra-index-url somewhere\n",
        "--find-links folder\n",
        "orjson @ https://example.org/orjson.whl --hash=sha256:" + "0" * 64,
    ],
)
def test_a_line_that_is_not_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a pinned requirement"):
        read(text)


def test_the_locks_hold_what_the_project_asks_for() -> None:
    optional = project()["optional-dependencies"]
    assert isinstance(optional, dict)
    wanted = {"runtime.txt": project()["dependencies"], "demo.txt": [*optional["demo"], *optional["replay"]]}
    wanted["model.txt"] = optional["local"]
    wanted["dev.txt"] = optional["evidence"]
    for name, requirements in wanted.items():
        pinned = lock(name)
        assert isinstance(requirements, list)
        for requirement in map(Requirement, requirements):
            version = pinned.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not in requirements/{name}: make lock"
            assert requirement.specifier.contains(version), f"requirements/{name} has {requirement.name} {version}"


def test_each_lock_holds_the_one_before_it_unchanged() -> None:
    runtime, demo, dev = lock("runtime.txt"), lock("demo.txt"), lock("dev.txt")
    assert runtime.items() <= demo.items() <= dev.items()

"""The executable is sought, and its absence told, as a shell does."""

from __future__ import annotations

import errno

import pytest

from tachograph.supervision.program import candidates, refusal_sentence


@pytest.mark.parametrize(
    ("name", "path", "tried"),
    [
        ("agent", "/a:/b", ("/a/agent", "/b/agent")),
        ("agent", "/a::/b", ("/a/agent", "./agent", "/b/agent")),
        ("./agent", "/a", ("./agent",)),
        ("sub/agent", "/a", ("sub/agent",)),
    ],
)
def test_path_is_searched_in_order(name: str, path: str, tried: tuple[str, ...]) -> None:
    assert candidates(name, {"PATH": path}) == tried


def test_without_path_the_systems_is_searched() -> None:
    assert "/bin/agent" in candidates("agent", {})


@pytest.mark.parametrize(
    ("name", "number", "code", "sentence"),
    [
        ("agent", errno.ENOENT, 127, "agent: command not found"),
        ("./agent", errno.ENOENT, 127, "./agent: No such file or directory"),
        ("./agent", errno.EACCES, 126, "./agent: Permission denied"),
        ("/", errno.EACCES, 126, "/: Is a directory"),
        ("agent", errno.E2BIG, 126, "agent: Argument list too long"),
    ],
)
def test_a_refusal_says_what_a_shell_says(name: str, number: int, code: int, sentence: str) -> None:
    assert refusal_sentence(name, number) == (code, sentence)

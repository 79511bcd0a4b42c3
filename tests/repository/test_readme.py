"""The examples of the README and of the guide do what they show."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.repository.console import Typed, Write, agrees, run_page, steps
from tests.repository.tree import ROOT, Tracked, pages


def _with_examples() -> list[Tracked]:
    return [page for page in pages() if any(steps(page.text))]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", [pytest.param(page, id=page.path) for page in _with_examples()])
def test_a_page_does_what_it_shows(page: Tracked, tmp_path: Path) -> None:
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert run_page(page.text, tmp_path) == []


def test_the_readme_shows_something_that_is_run() -> None:
    readme = next((page for page in pages() if page.path == "README.md"), None)
    if readme is None:
        pytest.skip("there is no README.md yet")
    assert any(isinstance(step, Typed) for step in steps(readme.text))


PAGE = """
Words.

<!-- file: agent.py -->
```python
print("hello 42 worlds")
```

<!-- run -->
```console
$ export WHO=me; mkdir inside; cd inside
$ python ../agent.py
hello ... worlds
```

```console
$ rm -rf not run
```

<!-- run: exit 3 -->
```console
$ echo $WHO; basename $PWD; \\
>   echo last >&2
me
...
last
$ (exit 3)
```
"""


def test_a_page_is_read_in_its_order() -> None:
    assert list(steps(PAGE)) == [
        Write("agent.py", 'print("hello 42 worlds")\n'),
        Typed("export WHO=me; mkdir inside; cd inside", "", 0),
        Typed("python ../agent.py", "hello ... worlds", 0),
        Typed("echo $WHO; basename $PWD; \\\n  echo last >&2", "me\n...\nlast", 0),
        Typed("(exit 3)", "", 3),
    ]


def test_a_page_that_is_true_has_no_fault(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("hello ... worlds", "hello ... moons"),
        ("me\n...\nlast", "me\n...\nlast\nmore"),
        ("run: exit 3", "run: exit 4"),
        ("$ (exit 3)", "$ exit 3"),
        ("mkdir inside", "mkdir a/b"),
        ('print("hello', 'raise SystemExit("hello'),
    ],
)
def test_a_page_that_is_not_true_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    assert right in PAGE
    assert len(run_page(PAGE.replace(right, wrong), tmp_path)) == 1


@pytest.mark.parametrize(
    "page",
    [
        "<!-- run -->\n```python\nprint()\n```\n",
        "<!-- run -->\n```console\nno command\n```\n",
        "<!-- run: twice -->\n```console\n$ true\n```\n",
    ],
)
def test_a_mark_that_runs_nothing_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match="marked to run"):
        list(steps(page))


@pytest.mark.parametrize(
    ("shown", "came", "same"),
    [
        ("", "anything", True),
        ("a\nb", "a\nb\n", True),
        ("a\nb", "a\nc", False),
        ("a", "a\nb", False),
        ("  a\nb", "  a\nb", True),
        ("  a\nb", "a\nb", False),
        ("a\n...", "a\nb\nc", True),
        ("...\nc", "a\nb\nc", True),
        ("run_...", "run_01J5", True),
        ("run_...", "decision", False),
        ("a ... c", "a\nc", False),
        ("1.5 (x)", "1.5 (x)   ", True),
        ("1.5", "1x5", False),
    ],
)
def test_what_came_is_compared_with_what_is_shown(shown: str, came: str, same: bool) -> None:
    assert agrees(shown, came) is same

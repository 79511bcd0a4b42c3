"""Runs the console examples of a page as a reader would type them.

What a page says in comments, which a reader does not see:

- `<!-- run -->` before a ```console block: its `$ ` lines are typed, one shell for the whole page, in a fresh folder.
  Lines starting with `> ` continue a command. Lines below a command are what it prints, standard error included; `...`
  stands for any text, on a line of its own for any lines. A command with nothing below it may print anything.
- `<!-- run: exit 1 -->`: the last command of the block ends with that status. All others end with 0.
- `<!-- file: agent.py -->` before any fenced block: its text is written to that file first.

A page that does not do what it shows fails with the command, what was shown and what came.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARKED = re.compile(
    r"<!--\s*(?P<what>run|file)\s*(?::\s*(?P<argument>[^>]*?))?\s*-->\s*\n(?P<fence>```+)(?P<language>[\w-]*)[^\n]*\n"
    r"(?P<body>.*?)^(?P=fence)\s*$",
    re.MULTILINE | re.DOTALL,
)
END = "\x1eend of command\x1e"
SECONDS = 240


@dataclass(frozen=True)
class Write:
    """A file that a page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class Typed:
    """One command, what the page says it prints (empty: nothing said), and its status."""

    command: str
    shown: str
    status: int


def steps(page: str) -> Iterator[Write | Typed]:
    """What a page asks to be done, in its order. Raises ValueError for a marked block that says nothing to run."""
    for block in MARKED.finditer(page):
        if block["what"] == "file":
            yield Write(name=block["argument"], text=block["body"])
            continue
        if block["language"] != "console":
            raise ValueError(f"a block marked to run is {block['language'] or 'plain'}, not console")
        commands = list(_commands(block["body"]))
        if not commands:
            raise ValueError("a block marked to run holds no line that starts with '$ '")
        argument = (block["argument"] or "exit 0").split()
        if len(argument) != 2 or argument[0] != "exit":
            raise ValueError(f"a block marked to run says {block['argument']!r}; it can say 'exit N'")
        for command, shown in commands[:-1]:
            yield Typed(command, shown, 0)
        yield Typed(*commands[-1], int(argument[1]))


def _commands(body: str) -> Iterator[tuple[str, str]]:
    command: list[str] = []
    shown: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command:
                yield "\n".join(command), "\n".join(shown)
            command, shown = [line[2:]], []
        elif line.startswith("> ") and command and not shown:
            command.append(line[2:])
        else:
            shown.append(line)
    if command:
        yield "\n".join(command), "\n".join(shown)


def agrees(shown: str, came: str) -> bool:
    """Whether what came is what the page shows, trailing blanks aside."""
    if not shown.strip():
        return True
    lines = []
    for line in shown.strip("\n").splitlines():
        if line.strip() in ("...", "…"):
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            parts = re.split(r"\.\.\.|…", line.rstrip())
            lines.append("[^\n]*".join(re.escape(part) for part in parts) + r"[ \t]*\n")
    return re.fullmatch(r"\n*" + "".join(lines) + r"\s*", came.rstrip() + "\n") is not None


def run_page(page: str, folder: Path) -> list[str]:
    """Do what a page says in `folder`; the faults found, at most one, since what follows a fault says nothing."""
    script = ["exec 2>&1"]
    typed: list[Typed] = []
    for step in steps(page):
        if isinstance(step, Write):
            script.append(f"cat > {step.name} <<'{END}'\n{step.text}{END}")
        else:
            typed.append(step)
            script.append(f"{step.command}\n__status=$?; printf '\\n%s%s\\n' '{END}' $__status")
            script.append(f"[ $__status -eq {step.status} ] || exit 0")
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=_environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
    )
    return _first_fault(typed, done.stdout)


def _first_fault(typed: list[Typed], output: str) -> list[str]:
    came = re.split(rf"\n{END}(\d+)\n", output)
    for index, step in enumerate(typed):
        if 2 * index + 1 >= len(came):
            return [f"$ {step.command}\nnever ended; last seen:\n{came[-1]}"]
        text, status = came[2 * index], int(came[2 * index + 1])
        if status != step.status:
            return [f"$ {step.command}\nended with {status}, shown {step.status}:\n{text}"]
        if not agrees(step.shown, text):
            return [f"$ {step.command}\nshown:\n{step.shown}\n\ncame:\n{text}"]
    return []


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TACHO", "PYTHON", "PYTEST"))}
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }

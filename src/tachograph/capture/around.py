"""What a run says of its code and its surroundings (contracts/capture-v1.md, `runtime`).

- `entryPoint`: `file:`, `module:` or `program:` and a name, `code:` and the digest of what `-c` was given, `stdin`. A
  file's name is told from the repository's root, else from the working folder, else alone: it stands in the journal.
- `codeVersion`: `git:` and the commit, and what is not committed (`capture.uncommitted`); of the repository that the
  entry point lies in, else the one of the working folder.
- `dependencyLockHash` and `dependencySource`: see `capture.dependencies`.
- `containerImageDigest`: from TACHO_IMAGE_DIGEST, else as podman says, else as in `capture.image`, so named.

What is not there has a reason code in `missing`. Each is a text of at most 1024 bytes, or intake leaves it out.
`at_once` is for a program that records itself: it starts nothing and reads no large file. `capture.looking` says the
rest, beside the program.
"""

from __future__ import annotations

import os

from tachograph.capture.dependencies import DISTRIBUTIONS, digest_of, digest_of_list, distributions, lock_file
from tachograph.capture.repository import find_repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tachograph.capture.repository import Repository

FIELDS = ("codeVersion", "dependencyLockHash", "dependencySource", "containerImageDigest", "entryPoint")
CONTAINER = "/run/.containerenv"  # podman's
_DIGITS = {"sha256": 64, "sha512": 128}
_PYTHONS = ("python", "pypy")
_WITH_WORD = "WX"  # options of the interpreter that take a word


class Entry:
    """What argv starts: how it is called, the folder that it lies in, its file, and the interpreter that runs it.

    `file` is None where it is none, `python` where no interpreter was found.
    """

    __slots__ = ("file", "folder", "name", "python")

    def __init__(self, name: str, folder: str, file: str | None = None, python: str | None = None) -> None:
        self.name = name
        self.folder = folder
        self.file = file
        self.python = python


def entry_of(argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> Entry:
    """Return what argv starts, read as the shell, the kernel and the interpreter would."""
    program = _on_path(argv[0], cwd, environ)
    if os.path.basename(argv[0]).startswith(_PYTHONS):
        return _of_python(argv, cwd, program)
    words = _interpreter_line(program)
    if words and os.path.basename(words[0]) == "env" and words[1:]:
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if program is None or not words or not os.path.basename(words[0]).startswith(_PYTHONS):
        return Entry("program:" + os.path.basename(argv[0]), cwd)
    return Entry("file:", os.path.dirname(program), program, _on_path(words[0], cwd, environ))


def _of_python(argv: Sequence[str], cwd: str, python: str | None) -> Entry:
    words = iter(argv[1:])
    for word in words:
        if word == "-":
            break
        if not word.startswith("-"):
            file = os.path.join(cwd, word)
            return Entry("file:", os.path.dirname(file), file, python)
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, "")
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter in "cm":
                given = word[place:] or next(words, "")
                said = "module:" + given if letter == "m" else "code:" + digest_of(os.fsencode(given))
                return Entry(said, cwd, python=python)
            if letter in _WITH_WORD:
                if not word[place:]:
                    next(words, "")
                break
    return Entry("stdin", cwd, python=python)


def _interpreter_line(program: str | None) -> list[str]:
    try:
        with open(program or "", "rb") as file:
            first = file.readline(4096)
    except OSError:
        return []
    return os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []


def _on_path(name: str, cwd: str, environ: Mapping[str, str]) -> str | None:
    folders = [""] if "/" in name else environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(cwd, folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


class Around:
    """What is known of one run's code and surroundings, as it is found out."""

    def __init__(self, argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> None:
        self.argv, self.cwd, self.environ = argv, cwd, environ
        self.entry = entry_of(argv, cwd, environ)
        self.repository: Repository | None = find_repository(self.entry.folder) or find_repository(cwd)
        self.commit = None if self.repository is None else self.repository.commit()
        self.said: dict[str, Any] = {"entryPoint": self._entry_point(), "missing": {}}

    def _entry_point(self) -> str:
        file = self.entry.file
        if file is None:
            return self.entry.name
        tops = [os.path.realpath(self.cwd)]
        if self.repository is not None:
            tops.insert(0, self.repository.root)
        real = os.path.realpath(file)
        for path in (os.path.abspath(file), real):
            for top in tops:
                if path.startswith(top + os.sep):
                    return self.entry.name + path[len(top) + 1 :]
        return self.entry.name + os.path.basename(file)

    def code(self, uncommitted: str) -> None:
        """Say the code's version; `uncommitted` is what follows the commit."""
        if self.commit is not None:
            self.said["codeVersion"] = f"git:{self.commit}{uncommitted}"
        else:
            self.missing("no_repository" if self.repository is None else "no_commit", "codeVersion")

    def dependencies(self, folders: Sequence[str] | None) -> None:
        """Say what the code stands on; `folders` are those with distributions, None where they are not known."""
        locked = lock_file(self.entry.folder, self.repository.root if self.repository is not None else None)
        if locked is not None:
            self.said["dependencySource"], self.said["dependencyLockHash"] = locked
        elif folders is None:
            self.missing("interpreter_unknown", "dependencyLockHash", "dependencySource")
        else:
            self.said["dependencySource"] = DISTRIBUTIONS
            self.said["dependencyLockHash"] = digest_of_list(distributions(folders))

    def missing(self, reason: str, *names: str) -> None:
        """Say why fields are not there."""
        self.said["missing"].update(dict.fromkeys(names, reason))


def image_digest(environ: Mapping[str, str], *, container: str = CONTAINER) -> str | None:
    """Return the digest of the image as somebody says it: TACHO_IMAGE_DIGEST, else podman; None where nobody does.

    A digest is `sha256:` or `sha512:` and its hex digits; what stands before an `@` (an image's name, which may hold a
    credential) is left out. What is no digest is passed over.
    """
    given = environ.get("TACHO_IMAGE_DIGEST", "")
    kind, _, digits = given.rpartition("@")[2].partition(":")
    if _is_hex(digits, _DIGITS.get(kind, 0)):
        return f"{kind}:{digits}"
    try:
        with open(container, encoding="utf-8", errors="replace") as file:
            said = dict(line.strip().partition("=")[::2] for line in file)
    except OSError:
        return None
    digits = said.get("imageid", "").strip('"')
    return f"sha256:{digits}" if _is_hex(digits, 64) else None


def _is_hex(digits: str, length: int) -> bool:
    return bool(length) and len(digits) == length and all(digit in "0123456789abcdef" for digit in digits)


def at_once(argv: Sequence[str], cwd: str, environ: Mapping[str, str], *, path: Sequence[str]) -> dict[str, Any]:
    """Return what can be said without delaying the program that says it; `path` is its `sys.path`."""
    around = Around(argv, cwd, environ)
    around.code("+unknown:not_asked")
    around.dependencies(path)
    image = image_digest(environ)
    if image is not None:
        around.said["containerImageDigest"] = image
    else:
        around.missing("not_asked", "containerImageDigest")
    return around.said

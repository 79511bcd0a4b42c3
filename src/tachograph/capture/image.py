"""In which image a program runs: a container's, or what stands in for one.

Without a digest of an image, `env:sha256:` is said over the interpreter's bytes, the system's list of packages and the
C library's version, each distribution with its RECORD (which holds a digest of each of its files, shared libraries and
packed model weights included) and the model weights that argv and the environment name. These stand in for the
libraries that are loaded, which are others at each moment of a run, so that two runs in the same surroundings say the
same. Weights are told by their name, size, first and last megabyte.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PACKAGES = ("/var/lib/dpkg/status", "/lib/apk/db/installed", "/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages")
WEIGHTS = (".gguf", ".safetensors", ".onnx", ".pt", ".pth", ".bin")
_PIECE = 1 << 20


def surroundings(
    python: str, distributions: Mapping[str, str], *, argv: Iterable[str], cwd: str, environ: Mapping[str, str]
) -> str:  # fmt: skip
    """Return `env:sha256:` and 64 hex digits. `distributions`: their folders by `name==version`."""
    lines = [f"interpreter {_whole(os.path.realpath(python))}", f"machine {os.uname().machine} {_libc()}"]
    lines += [f"packages {found}" for path in PACKAGES if (found := _whole(path))]
    for name, folder in distributions.items():
        lines.append(f"{name} {_whole(os.path.join(folder, 'RECORD'))}")
    named = {os.path.join(cwd, word) for word in (*argv, *environ.values()) if word.endswith(WEIGHTS)}
    lines += sorted(line for path in named if (line := _weights(path)))
    return "env:sha256:" + sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):  # another C library
        return ""


def _whole(path: str) -> str:
    try:
        found = sha256()
        for piece in _pieces(path):
            found.update(piece)
        return found.hexdigest()
    except OSError:
        return ""


def _pieces(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def _weights(path: str) -> str:
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            found = sha256(file.read(_PIECE))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _PIECE))
            found.update(file.read(_PIECE))
    except (OSError, ValueError):
        return ""
    return f"weights {os.path.basename(path)} {size} {found.hexdigest()}"

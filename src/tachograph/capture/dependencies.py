"""What a program's code stands on: a lock file, or the distributions that its interpreter has.

Distributions are read from the names of their `*.dist-info` and `*.egg-info` folders, which costs a listing per folder
and not, as `importlib.metadata` does, a file per distribution. Standard library only, and cheap to import:
`tachograph.install()` reads this inside the program.
"""

from __future__ import annotations

import os
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LOCKS = (
    "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "pixi.lock", "conda-lock.yml",
    "requirements.lock", "requirements.txt",
)  # fmt: skip
"""The most specific first; requirements.txt only where it pins each version."""
DISTRIBUTIONS = "distributions"
_LARGEST = 64 << 20
_INFO = (".dist-info", ".egg-info")


def lock_file(folder: str, root: str | None) -> tuple[str, str] | None:
    """Return name and digest (`sha256:` and 64 hex digits) of the lock file nearest to a folder, None without one.

    Looked for is in the folder and, inside a repository, in those above it up to `root`.
    """
    folder = os.path.realpath(folder)
    while True:
        for name in LOCKS:
            data = _small(os.path.join(folder, name))
            if data is not None and (name != "requirements.txt" or _pins_all(data)):
                return name, digest_of(data)
        above = os.path.dirname(folder)
        if root is None or folder == root or above == folder or not folder.startswith(root + os.sep):
            return None
        folder = above


def _pins_all(data: bytes) -> bool:
    found = False
    for line in data.replace(b"\\\n", b" ").splitlines():
        words = line.partition(b"#")[0].strip()
        if words and not words.startswith(b"--"):
            found = True
            if b"==" not in words:
                return False
    return found


def digest_of(data: bytes) -> str:
    """Return `sha256:` and 64 hex digits."""
    return "sha256:" + sha256(data).hexdigest()


def distributions(folders: Iterable[str]) -> dict[str, str]:
    """Return `name==version` of each distribution and its folder, sorted; of two of one name the first is in use."""
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(_INFO):
                title, _, version = name[: -10 if name.endswith(_INFO[0]) else -9].partition("-")
                title = title.replace("_", "-").replace(".", "-").lower()
                version = version.partition("-py")[0]  # as in name-1.0-py3.11.egg-info
                found.setdefault(title, (f"{title}=={version}", os.path.join(folder, name)))
    return dict(sorted(found.values()))


def digest_of_list(found: Iterable[str]) -> str:
    """Return the digest of a list of distributions: of its lines, `name==version`, sorted."""
    return digest_of("\n".join(found).encode("utf-8", "surrogateescape"))


def folders_of(python: str, environ: Mapping[str, str]) -> list[str]:
    """Return the folders in which an interpreter finds distributions, as it orders them; `python` is its path.

    Those that its own start-up would make, without starting it: PYTHONPATH, those of its virtual environment, the
    user's, its prefix's. What `.pth` files add is not among them.
    """
    found = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    home = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    said = _small(os.path.join(home, "pyvenv.cfg"))
    if said is not None:
        found += _below(home, "")
        settings = [line.partition(b"=")[::2] for line in said.lower().splitlines()]
        if (b"include-system-site-packages", b"true") not in [(name.strip(), of.strip()) for name, of in settings]:
            return found
    real = os.path.realpath(python)
    version = os.path.basename(real)
    version = version if version.startswith("python3.") else ""
    if not environ.get("PYTHONNOUSERSITE"):
        base = environ.get("PYTHONUSERBASE") or os.path.join(environ.get("HOME", "/"), ".local")
        found += _below(base, version)
    prefix = os.path.dirname(os.path.dirname(real))
    for place in dict.fromkeys((*(("/usr/local",) if prefix == "/usr" else ()), prefix)):  # Debian's order
        found += _below(place, version)
    return found


def _below(prefix: str, version: str) -> Iterator[str]:
    for lib in ("lib", "lib64"):
        place = os.path.join(prefix, lib)
        if lib == "lib64" and os.path.islink(place):
            continue
        try:
            names = sorted(name for name in os.listdir(place) if name.startswith("python3"))
        except OSError:
            continue
        for name in names:
            if name in ("python3", version) or not version:
                for kind in ("site-packages", "dist-packages"):
                    yield os.path.join(place, name, kind)


def _small(path: str) -> bytes | None:
    try:
        if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST:
            with open(path, "rb") as file:
                return file.read()
    except OSError:
        pass
    return None

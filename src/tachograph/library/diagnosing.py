"""`doctor`: what a recording here will see, what it will not, and how the store is. Looked at now, never remembered."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

from tachograph.errors import TachographError
from tachograph.formats.answers.doctor import DoctorAnswer, SeamItem
from tachograph.replay.confinement import possible
from tachograph.version import VERSION

WATCHED = {
    "httpx": "transports, sync and async",
    "httpx2": "transports, sync and async",
    "openai": "through httpx2",
    "requests": "through http.client, at the socket",
    "urllib3": "through http.client, at the socket",
    "botocore": "through http.client, at the socket",
    "aiohttp": "client, below its parser",
}
UNWATCHED = {
    "grpcio": "native sockets: only that a channel is opened is seen; a replay refuses",
    "websockets": "has no seam: its connections are counted as bypassed, a replay refuses",
    "pycurl": "native sockets: not seen at all",
}
ALSO_THROUGH_HTTPX2 = ("anthropic", "google-genai", "mcp")
NOT_SEEN = [
    "gRPC, websockets, native clients (libcurl, database drivers in C): no seam",
    "children started with -I, -E or -S, frozen programs, other languages: played by a stub, not watched inside",
    "files that native code opens by itself, and what a listed folder held",
    "time-outs of locks, of poll and epoll objects and of native code: waited for in a replay too",
]
NOT_REPRODUCIBLE = [
    "object addresses (id(), default repr)",
    "random numbers of native generators (numpy, torch) and of uuid_utils",
    "thread scheduling",
]


def installed(name: str) -> str | None:
    """Return the version of an installed distribution, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def seams() -> list[SeamItem]:
    """Say of each client library that people use whether it is installed here and watched."""
    items = [SeamItem(name=name, installed=installed(name), watched=True, how=how) for name, how in WATCHED.items()]
    for name in ALSO_THROUGH_HTTPX2:
        found = installed(name)
        items.append(SeamItem(name=name, installed=found, watched=True, how="through httpx2, where it sits on it"))
    for name, how in UNWATCHED.items():
        items.append(SeamItem(name=name, installed=installed(name), watched=False, how=how))
    return items


def command() -> tuple[str | None, bool]:
    """Return the `tacho` on PATH and whether it is ours: another distribution owns a script of that name."""
    found = shutil.which("tacho")
    if found is None:
        return None, False
    try:
        with open(found, "rb") as file:
            return found, b"tachograph" in file.read(4096)
    except OSError:
        return found, False


def confinement() -> dict[str, str]:
    """What a replay here is closed by, tried now in processes that are thrown away."""
    found = possible.look()
    guard = "an audit hook in every Python process refuses"
    native = f"not listed: {found.filter}" if found.filter else "listed, by a seccomp filter"
    if not found.namespaces:
        network = f"kernel: a network of its own with nothing but loopback; before it {guard}"
        files = "kernel: an overlay over every folder, whose upper layer lies in memory and ends with the replay"
    elif not found.landlock and not found.filter:
        network = f"kernel: Landlock and a seccomp filter let no connection out; before them {guard}"
        files = (
            "kernel: Landlock; what a replayed program writes to its temp folders is really written, elsewhere refused"
        )
    else:
        native = "not held, and not listed"
        network = f"Python: {guard} every connection; native code is not held"
        files = "open: what a replayed program writes is really written"
    said = {
        "network": network,
        "programs": "Python: starting an unrecorded program is refused; recorded ones are played by a stub",
        "files": files,
    }
    if found.namespaces:
        said["namespaces"] = f"not here: {found.namespaces}"
    if found.landlock:
        said["landlock"] = f"not here: {found.landlock}"
    said["native attempts"] = native
    return said


def diagnose(*, store_facts: dict[str, str | int | None], leftovers: list[str], problems: list[str]) -> DoctorAnswer:
    """Put the answer together."""
    where, ours = command()
    found = list(problems)
    if where is not None and not ours:
        found.append(f"the `tacho` on PATH ({where}) is another package's: call `tachograph` or `python -m tachograph`")
    if sys.flags.isolated or sys.flags.no_site:
        found.append("this interpreter runs isolated: children that inherit its flags will not be watched")
    if os.environ.get("PYTHONNOUSERSITE") is None and sys.version_info < (3, 11):
        found.append("Tachograph needs Python 3.11 or later")
    return DoctorAnswer(
        version=VERSION,
        python=".".join(map(str, sys.version_info[:3])),
        command=where,
        commandIsOurs=ours,
        seams=seams(),
        notSeen=NOT_SEEN,
        notReproducible=NOT_REPRODUCIBLE,
        confinement=confinement(),
        store=store_facts,
        leftovers=leftovers,
        problems=found,
    )


def word_of(fault: BaseException) -> str:
    """Say a fault in one line, with its code where it has one."""
    return f"{fault.code}: {fault}" if isinstance(fault, TachographError) else f"{type(fault).__name__}: {fault}"

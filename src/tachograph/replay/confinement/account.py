"""The account of a closed world: what held, by which part, and what stayed open. From what was probed, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tachograph.formats.answers.replay import Confinement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

NAMESPACE, SECCOMP, PYTHON, OPEN = "namespace", "seccomp+landlock", "python", "open"
OVERLAY, LANDLOCK = "overlay", "landlock"

_NETWORK = ("tcp", "udp", "unix", "abstract")
_WORDS = {
    "namespaces": "user, mount, network, process and IPC namespaces, with an overlay over every folder",
    "landlock": "Landlock for files and TCP, and a filter that lets no other socket be made",
}
_NO_KERNEL = "system calls made by native code without Python: the kernel closes nothing here"
_NO_FILES = "files: what the program writes is really written"


_CACHES = ("/__pycache__/",)


def written_outside(paths: Iterable[str], inside: Iterable[str], recorded: Collection[str]) -> list[str]:
    """Of the files that a replay wrote, those outside the folders `inside` that the recorded run did not write.

    The interpreter's own caches of compiled code are none: whether they are written depends on the machine alone.
    """
    folders = tuple(folder.rstrip("/") + "/" for folder in inside)
    return [
        path for path in paths
        if not path.startswith(folders) and path not in recorded and not any(cache in path for cache in _CACHES)
    ]  # fmt: skip


def account(*, guard: Mapping[str, bool], kernel: Mapping[str, Any], came_out: Sequence[str]) -> Confinement:
    """Say what held. `guard` and `kernel` are what the probes inside found, `came_out` what arrived outside."""
    held: Mapping[str, bool] = kernel.get("held", {})
    way: str = kernel.get("way", "none")
    closed = way != "none" and all(held.get(name) for name in _NETWORK) and not set(_NETWORK) & set(came_out)
    files = way != "none" and "file" not in came_out and "file" in held
    python = bool(guard.get("connect"))
    network = (NAMESPACE if way == "namespaces" else SECCOMP) if closed else PYTHON if python else OPEN
    how = [_WORDS[way]] if closed or files else []
    how += ["a seccomp filter"] if held.get("io_uring") else []
    how += ["an audit hook in every Python process"] if python else []
    open_ = [f"{name}: a probe from inside came out" for name in came_out]
    open_ += [f"{one} closes no world here: {why}" for one, why in kernel.get("failed", ())]
    open_ += kernel.get("open", ())
    if not closed:
        open_ += [_NO_KERNEL] if python else ["network", _NO_KERNEL]
    elif not held.get("io_uring"):
        open_.append("attempts of native code lead nowhere, and are not listed: no filter could be set here")
    if not files:
        open_.append(_NO_FILES)
    if not guard.get("start") and not closed:
        open_.append("processes")
    return Confinement(
        network=network,
        filesystem=(OVERLAY if way == "namespaces" else LANDLOCK) if files else OPEN,
        how="; ".join(how) + ", each probed from inside" if how else "nothing held",
        open=open_,
    )

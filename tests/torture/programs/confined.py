"""Runs commands in a mount namespace of its own, whose folder has little room or cannot be written.

`confined.py FOLDER STEPS` where STEPS is a JSON list of steps: {"tmpfs": "256k"} mounts an empty one on FOLDER,
{"resize": "8m"} gives it more room, {"read_only": true} takes the right to write, {"run": [words], "env": {...}} runs a
command. The results of the commands are printed as one JSON list: exit code, stdout, stderr (latin-1). Exit code 77:
this kernel gives no namespace to us. No privilege is needed, and nothing outlives the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

NEW_NAMESPACE, NEW_USER = 0x00020000, 0x10000000
READ_ONLY, REMOUNT, BIND, PRIVATE, RECURSIVE = 1, 32, 4096, 1 << 18, 16384
NOT_HERE = 77

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    words = (source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data and data.encode())
    _check(_libc.mount(*words))


def enter() -> None:
    """A user and a mount namespace of our own; in it we are root over our own mounts alone."""
    user, group = os.getuid(), os.getgid()
    _check(_libc.unshare(NEW_NAMESPACE | NEW_USER))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    mount("none", "/", None, PRIVATE | RECURSIVE)


def carry_out(folder: str, step: dict[str, Any]) -> dict[str, Any] | None:
    """One step; what a command gave."""
    if "tmpfs" in step:
        mount("tmpfs", folder, "tmpfs", 0, f"size={step['tmpfs']}")
    elif "resize" in step:
        mount("tmpfs", folder, "tmpfs", REMOUNT, f"size={step['resize']}")
    elif "read_only" in step:
        mount(folder, folder, None, BIND)
        mount(folder, folder, None, BIND | REMOUNT | READ_ONLY)
    else:
        ran = subprocess.run(
            step["run"],
            env={**os.environ, **step.get("env", {})},
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        return {"code": ran.returncode, "out": ran.stdout.decode("latin-1"), "err": ran.stderr.decode("latin-1")}
    return None


def main() -> int:
    folder, steps = sys.argv[1], json.loads(sys.argv[2])
    try:
        enter()
    except OSError as fault:
        print(f"no namespace: {fault}", file=sys.stderr)
        return NOT_HERE
    results = [carry_out(folder, step) for step in steps]
    print(json.dumps([result for result in results if result is not None]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a run says of itself: its id, its environment without credentials, the files that started it."""

from __future__ import annotations

import os
import sys
from binascii import a2b_base64
from hashlib import sha256
from hmac import digest
from time import time_ns

from tachograph.formats.credentials import is_credential_variable, placeholder_like
from tachograph.model.identity import mint
from tachograph.seams import injection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_OWN = ("TACHO_STORE", "TACHO_QUIET", "TACHO_REQUIRE")


def new_run_id() -> str:
    """Mint the id of a run that starts now."""
    return mint("run", at_ms=time_ns() // 1_000_000, chance=os.urandom(10))


def environment_facts(environment: Mapping[str, str], *, tag_key: bytes) -> dict[str, Any]:
    """Split an environment into what may be kept and the credentials of which only names, shapes and keyed tags are."""
    kept: dict[str, str] = {}
    credentials: dict[str, dict[str, Any]] = {}
    for name, value in environment.items():
        if name in _OWN or name.startswith(injection.PREFIX):
            continue
        if is_credential_variable(name, value):
            secret = os.fsencode(value)
            tag = digest(tag_key, b"credential\0" + secret, "sha256")[:16]
            credentials[name] = {"shape": placeholder_like(secret).decode("latin-1"), "tag": tag}
        else:
            kept[name] = value
    return {"environment": kept, "credentials": credentials}


def read_key(path: str) -> bytes:
    """Read a key file, such as the tag key's. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()


def entry_files(argv: list[str], cwd: str) -> dict[str, str]:
    """Return path and SHA-256 of the files that argv names and that are there: the program's entry point and inputs."""
    found = {}
    for word in argv[1:] or argv:
        path = os.path.join(cwd, word)
        try:
            if os.path.isfile(path) and os.path.getsize(path) <= 64 << 20:
                with open(path, "rb") as file:
                    found[path] = sha256(file.read()).hexdigest()
        except (OSError, ValueError):
            continue
    return found


def own_files() -> dict[str, str]:
    """Return path and SHA-256 of the program's own loaded modules: neither the library's nor installed ones."""
    library, installed = os.path.dirname(os.__file__) + os.sep, os.sep + "site-packages" + os.sep
    found = {}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or path.startswith((library, injection.HOME)) or installed in path:
            continue
        try:
            with open(path, "rb") as file:
                found[os.path.abspath(path)] = sha256(file.read()).hexdigest()
        except OSError:
            continue
    return found


def newest_checkpoint(spool: str) -> list[Any]:
    """Return size and root (hexadecimal) of the newest checkpoint of the store's log: what was sealed came before this.

    An empty list where there is none yet, or it does not read as one. Read by hand: a recorded program pays for it.
    """
    try:
        with open(os.path.join(store_of(spool), "log", "checkpoint"), "rb") as file:
            _, size, root = file.read(4096).split(b"\n")[:3]
        head = a2b_base64(root, strict_mode=True)
        return [int(size), head.hex()] if len(head) == 32 else []
    except (OSError, ValueError):
        return []


def store_of(spool: str) -> str:
    """Return the folder whose files are our own: the store that a spool folder lies in, or that folder alone."""
    folder = os.path.realpath(spool)
    above = os.path.dirname(folder)
    return (above if os.path.isdir(os.path.join(above, "journal")) else folder) + os.sep

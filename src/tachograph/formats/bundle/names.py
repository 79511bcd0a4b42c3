"""The closed list of members of a bundle (evidence.md, "Bundle"), and how names may not look. Pure.

Invariants: a name that is not in the list is refused, whatever it says; no two names fold to one, since some file
system would put the second in the place of the first; names are ASCII, relative, and of plain files.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from tachograph.formats.bundle.refused import BundleRefused

MANIFEST, EXPORT, SUMS, VERIFY = "MANIFEST.json", "EXPORT.dsse.json", "SHA256SUMS", "VERIFY.txt"
CHECKPOINT, CUSTODY, DID = "log/checkpoint", "custody.jsonl", "keys/did.json"

IN_EVERY = (MANIFEST, EXPORT, SUMS, VERIFY)
"""Without these a file is no bundle."""

NOT_IN_MANIFEST = frozenset((MANIFEST, EXPORT, SUMS))
"""EXPORT signs the digest of MANIFEST, so MANIFEST can name neither; SHA256SUMS lists all but itself."""

_ID = r"[a-z]{2,3}_[0-7][0-9A-HJKMNP-TV-Z]{25}"
_HEX = r"[0-9a-f]{64}"
_WORD = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_LIST = re.compile(
    "|".join(
        (
            rf"captures/{_ID}\.json",
            rf"envelopes/{_ID}\.dsse\.json",
            rf"signed/{_ID}\.(?:pae|sig)",
            rf"log/proofs/{_ID}\.tlog-proof",
            rf"blobs/{_HEX}",
            rf"keys/{_HEX}\.pem",
            rf"time/{_WORD}\.tsr",
            rf"time/certs/{_WORD}\.pem",
            rf"attestations/{_WORD}\.json",
            *(re.escape(name) for name in (MANIFEST, EXPORT, SUMS, VERIFY, CHECKPOINT, CUSTODY, DID)),
        )
    )
)


def is_member(name: str) -> bool:
    """Whether a name is in the closed list."""
    return _LIST.fullmatch(name) is not None


def ids_of(names: Iterable[str], folder: str, ending: str) -> list[str]:
    """Return the ids for which a folder has a member, sorted: `ids_of(names, "captures", ".json")`."""
    start = folder + "/"
    return sorted(
        one.removeprefix(start).removesuffix(ending) for one in names if one.startswith(start) and one.endswith(ending)
    )


def check_name(name: str, at: int) -> None:
    """Refuse a name that leads elsewhere, that is no file's, or that is not in the list. Raises BundleRefused."""
    if name.endswith("/"):
        raise BundleRefused("a folder, where only files may stand", reason="folder", member=name, at=at)
    parts = name.split("/")
    if "\\" in name or ":" in name or any(part in ("", ".", "..") for part in parts) or not name.isprintable():
        raise BundleRefused("a name that leads elsewhere", reason="path", member=name, at=at)
    if not is_member(name):
        raise BundleRefused("not one of the members that a bundle has", reason="name", member=name, at=at)


def folded(name: str) -> str:
    """Return what a file system that forgives case and composition takes a name for (Unicode TR 15 and 21)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def check_twins(named: Iterable[tuple[str, int]]) -> None:
    """Refuse two names that fold to one. Takes names with the byte that each stands at. Raises BundleRefused."""
    seen: dict[str, str] = {}
    for name, at in named:
        other = seen.setdefault(folded(name), name)
        if other is not name:
            raise BundleRefused(f"the same name as {ascii(other)[:200]}", reason="twins", member=name, at=at)

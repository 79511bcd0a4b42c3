"""Ids: a prefix that says what it names, an underscore, and a ULID.

`mint` is pure: the clock (milliseconds since 1970) and the chance (10 random bytes) come in as arguments. Ids sort by
the time at which they were minted. Source of the prefixes: contracts/capture-v1.md, "Ids".
"""

from __future__ import annotations

PREFIXES = ("dec", "run", "rep", "tri", "fnd", "grt", "rt", "stm")
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_LENGTH = 26


def mint(prefix: str, *, at_ms: int, chance: bytes) -> str:
    """Return `<prefix>_<ULID>` for a time in milliseconds and exactly 10 random bytes.

    Raises ValueError for an unknown prefix, a time outside 48 bits, or another number of bytes.
    """
    if prefix not in PREFIXES:
        raise ValueError(f"unknown id prefix {prefix!r}; one of {', '.join(PREFIXES)}")
    if len(chance) != 10:
        raise ValueError(f"a ULID takes 10 random bytes, got {len(chance)}")
    if not 0 <= at_ms < 1 << 48:
        raise ValueError(f"time {at_ms} ms does not fit a ULID's 48 bits")
    number = (at_ms << 80) | int.from_bytes(chance, "big")
    letters = [_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(letters)}"


def is_id(text: str, prefix: str | None = None) -> bool:
    """Say whether `text` is a whole id (of that prefix, if one is given)."""
    head, underscore, ulid = text.partition("_")
    if not underscore or head not in PREFIXES or (prefix is not None and head != prefix):
        return False
    return len(ulid) == _LENGTH and all(letter in _VALUES for letter in ulid) and ulid[0] <= "7"


def minted_at_ms(text: str) -> int:
    """Return the time (milliseconds since 1970) at which an id was minted. Raises ValueError if it is none."""
    if not is_id(text):
        raise ValueError(f"{text!r} is not an id")
    number = 0
    for letter in text.partition("_")[2][:10]:
        number = number * 32 + _VALUES[letter]
    return number


def with_prefix(text: str, prefix: str) -> str:
    """Return the same ULID under another prefix: a run that is its own decision shares its run's ULID."""
    if not is_id(text) or prefix not in PREFIXES:
        raise ValueError(f"cannot make a {prefix!r} id of {text!r}")
    return f"{prefix}_{text.partition('_')[2]}"

"""Errors are facts plus a way out.

Every error that leaves Tachograph on purpose is a `TachographError`. Invariants:

- each leaf class has a stable `code` (snake_case, part of the interface) and the `exit_code` that the command line
  gives for it (DESIGN section 10);
- the message names the fault, the place, and the way out;
- a refusal that is an *answer* (one of many in a report) is a typed result elsewhere; it becomes a `Refused` only
  where a caller asked for exactly the refused thing.

Standard library only: this module is imported inside recorded programs.
"""

from __future__ import annotations


class TachographError(Exception):
    """Base of every error that Tachograph raises on purpose."""

    code = "error"
    exit_code = 1


class UsageError(TachographError):
    """The call's words are wrong: an unknown option, an id that is none, a folder that is no store."""

    code = "usage"
    exit_code = 2


class NotFound(UsageError):
    """Nothing has that id, or more than one thing has that prefix."""

    code = "not_found"


class Refused(TachographError):
    """Understood, possible, and not done: `reason` is a stable code, the message says why and what would help."""

    code = "refused"
    exit_code = 3

    def __init__(self, message: str, *, reason: str = "refused") -> None:
        super().__init__(message)
        self.reason = reason


class StoreLocked(Refused):
    """Another process seals into this store right now."""

    code = "store_locked"

    def __init__(self, message: str, *, reason: str = "store_locked") -> None:
        super().__init__(message, reason=reason)


class KeyMissing(Refused):
    """The keys of this store are not on this machine: its content cannot be read here."""

    code = "key_missing"

    def __init__(self, message: str, *, reason: str = "key_missing") -> None:
        super().__init__(message, reason=reason)


class ExtraMissing(Refused):
    """A part of Tachograph that is installed on request is not there; the message holds the command."""

    code = "extra_missing"

    def __init__(self, message: str, *, reason: str = "extra_missing") -> None:
        super().__init__(message, reason=reason)


class DamagedStore(TachographError):
    """Bytes on disk are not what was written: refused, never served. The message names the file and the place."""

    code = "damaged_store"
    exit_code = 4


class FormatError(DamagedStore):
    """A frame, log or record that does not parse; `at` is the byte where the reader stopped."""

    code = "format"

    def __init__(self, message: str, *, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class NotSerialised(TachographError):
    """A value cannot be written in the form that was asked for."""

    code = "not_serialised"

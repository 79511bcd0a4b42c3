"""`tacho doctor --json`: what will be seen here, what not, which confinement holds, how large the store is."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer


class SeamItem(Answer):
    """A client library: whether it is installed here, and whether a seam watches it."""

    name: str
    """The library's distribution name."""
    installed: str | None
    """The version installed here; null where it is not."""
    watched: bool
    """Whether its calls are recorded."""
    how: str
    """Through which seam, or what happens instead."""


class DoctorAnswer(Answer):
    """The state of this machine and store, as looked at now."""

    version: str
    """Of tachograph."""
    python: str
    """Of the Python that answers."""
    command: str | None
    """The `tacho` on PATH; null where there is none."""
    commandIsOurs: bool
    """False where another distribution owns the script of that name."""
    seams: list[SeamItem]
    """Client libraries, watched or not."""
    notSeen: list[str]
    """What no seam sees."""
    notReproducible: list[str]
    """What a replay cannot make the same."""
    confinement: dict[str, str]
    """Per boundary, what closes a replay here."""
    store: dict[str, str | int | None]
    """Where the store is and how many bytes its parts take."""
    leftovers: list[str]
    """Runs that lie in the spool."""
    problems: list[str]
    """What needs somebody's attention; one that begins with `damaged` makes the exit code 4."""

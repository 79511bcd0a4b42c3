"""`tacho doctor --json`: what will be seen here, what not, which confinement holds, how large the store is."""

from __future__ import annotations

from tachograph.formats.answers.parts import Answer


class SeamItem(Answer):
    """A client library: whether it is installed here, and whether a seam watches it."""

    name: str
    installed: str | None
    watched: bool
    how: str


class DoctorAnswer(Answer):
    """The state of this machine and store, as looked at now."""

    version: str
    python: str
    command: str | None
    commandIsOurs: bool
    seams: list[SeamItem]
    notSeen: list[str]
    notReproducible: list[str]
    confinement: dict[str, str]
    store: dict[str, str | int | None]
    leftovers: list[str]
    problems: list[str]

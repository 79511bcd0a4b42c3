"""`tacho verify --json`: each check of evidence.md by name, for every capture, and never one truth value for all."""

from __future__ import annotations

from typing import Literal

from tachograph.formats.answers.parts import Answer


class CheckItem(Answer):
    """What one check found."""

    state: Literal["ok", "failed", "not_checked"]
    """`not_checked` says nothing for or against; the reason says what would be needed."""
    reason: str | None = None
    """Why it failed or was not checked, or what an `ok` rests on, in words."""
    at: str | None = None
    """Where: a JSON pointer, a member of the bundle, a file and byte, or a time."""


class ContentItem(Answer):
    """The check `content`: every committed place of the capture."""

    state: Literal["ok", "failed", "not_checked"]
    """`ok` where every place that is there opens its commitment."""
    reason: str | None = None
    """Why it failed or was not checked, in words."""
    at: str | None = None
    """Where."""
    items: dict[str, Literal["intact", "withheld", "erased", "mismatch", "missing", "not_captured"]]
    """By JSON pointer: whether what stands there opens its commitment, or why nothing does."""


class Checks(Answer):
    """The checks of one capture, in the order in which they build on one another."""

    identity: CheckItem
    """Whether the signer is one whom the verifier brought (`--trust`, pins); a store's own key is none."""
    format: CheckItem
    """Whether payload and document are what `replay/v1` says."""
    signature: CheckItem
    """Whether the signer's key signed the payload's bytes."""
    key: CheckItem
    """Whether that key was one of the log's, and not revoked when it signed."""
    time: CheckItem
    """Between which times it was sealed, as far as somebody else vouches for them."""
    inclusion: CheckItem
    """Whether its leaf stands in the log under the checkpoint."""
    consistency: CheckItem
    """Whether the checkpoint is that of the log, and later ones continue earlier ones."""
    anchor: CheckItem
    """Whether a checkpoint kept elsewhere agrees; what lies after it is not checked."""
    content: ContentItem
    """Whether the content is what was committed, place by place."""
    sequence: CheckItem
    """Whether the captures before and after it in the log are the ones that it names."""
    coverage: CheckItem
    """Whether anything is known to have gone past the recorder."""


class VerifiedItem(Answer):
    """One capture."""

    decisionId: str
    """Whose capture it is."""
    checks: Checks
    """What each check found."""


class VerifyAnswer(Answer):
    """All captures that were asked for."""

    captures: list[VerifiedItem]
    """One item a capture, in the order of the log."""
    failed: int
    """How many checks failed, in all of them and in the log as a whole."""
    faults: list[str]
    """What failed that belongs to no one capture: the log, the journal, a bundle's container."""

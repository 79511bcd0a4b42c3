"""A recorded answer to an inbound request, held against what the replayed program answered.

Status, then headers but the volatile ones and credentials (`comparison.headers`), then the body out of its framing, by
meaning where its type says how (`comparison.bodies`). An answer that was not sent whole in the recording is compared as
far as it goes. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tachograph.comparison.leaves import Leaf, as_json
from tachograph.comparison.requests import Request, compare_requests
from tachograph.formats import frame as fr
from tachograph.formats.credentials import redact_headers
from tachograph.formats.wire import Deframer, Head, HeadTaker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tachograph.formats.effect_log import EffectLog


@dataclass(frozen=True)
class Replied:
    """Where the answers first differ, as (path, recorded, replayed), None where nowhere; what was overlooked."""

    first: tuple[str, Any, Any] | None = None
    notes: tuple[str, ...] = ()


def compare_replies(log: EffectLog, replayed: Sequence[fr.Frame], number: int) -> Replied:
    """Compare the answer that the log holds for a decision with the frames of a replay's report. `number`: whose."""
    frames = [fact for fact in log.of(fr.REPLY) if fact.decision == number]
    asked = b"".join(f.payload for f in log.of(fr.INBOUND) if f.decision == number and not f.flags)
    whole = any(frame.flags for frame in frames)
    ours = _read(b"".join(frame.payload for frame in frames if not frame.flags), asked)
    theirs = _read(b"".join(f.payload for f in replayed if f.kind == fr.REPLY and f.effect == number), asked)
    at = f"/decisions/{number}/reply"
    if ours is None or theirs is None:
        same = ours is None and (theirs is None or not whole)
        return Replied(None if same else (at, _line(ours), _line(theirs)))
    (head, body), (other, other_body) = ours, theirs
    if head.status != other.status:
        return Replied((f"{at}/status", head.status, other.status))
    verdict = compare_requests(
        Request("reply", "", "", redact_headers(head.headers)[0], body),
        Request("reply", "", "", redact_headers(other.headers)[0], other_body if whole else other_body[: len(body)]),
    )  # fmt: skip
    leaf = verdict.first
    return Replied(None if leaf is None else (f"{at}{leaf.path}", *_shown(leaf)), verdict.notes)


def _shown(leaf: Leaf) -> tuple[Any, Any]:
    return as_json(leaf.recorded), as_json(leaf.replayed)


def _read(data: bytes, asked: bytes) -> tuple[Head, bytes] | None:
    """Return the final head of an answer and its body; None where no head is there."""
    head = HeadTaker().take(data)[1]
    return None if head is None else (head, Deframer(bodiless=asked.startswith(b"HEAD ")).feed(data))


def _line(answer: tuple[Head, bytes] | None) -> str | None:
    return None if answer is None else f"{answer[0].status} {answer[0].reason.decode('latin-1')}".strip()

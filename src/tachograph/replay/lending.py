"""Credentials in a replay: lent where this machine has the same one, stood in for where it does not.

The record holds of each credential variable its name, its shape and a keyed tag. Where today's variable has that tag,
the program gets it; otherwise a placeholder of the same shape. A program may put its key into what it sends or prints.
So that credentials never decide a match, both sides are compared with the placeholder in the key's place (redacted form
with redacted form; lengths are equal, nothing else moves). What the program is answered stays as it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.intake.masking import Credentials, tag_of

if TYPE_CHECKING:
    from tachograph.formats.effect_log import EffectLog

SENT = (fr.CALL, fr.BODY, fr.STREAM, fr.ENTER, fr.OUTPUT, fr.CLOSE, fr.REPLY, fr.FILE_AFTER)


@dataclass(frozen=True)
class Lent:
    """The credential variables that the program gets; `placeholders` maps the tags of the missing ones to stand-ins."""

    variables: dict[str, str]
    placeholders: dict[str, bytes]
    stand_ins: dict[bytes, bytes]


def lend(log: EffectLog, *, environ: Mapping[str, str], tag_key: bytes) -> Lent:
    """Decide for each recorded credential variable what the replayed program gets."""
    facts = log.first(fr.RUN) or log.first(fr.PROCESS)
    variables: dict[str, str] = {}
    placeholders: dict[str, bytes] = {}
    stand_ins: dict[bytes, bytes] = {}
    recorded: dict[str, dict[str, Any]] = facts.get("credentials", {})
    for name, said in recorded.items():
        today = environ.get(name)
        if today is not None and tag_of(tag_key, today.encode("utf-8", "surrogateescape")) == said["tag"]:
            variables[name] = today
        else:
            variables[name] = said["shape"]
            placeholders[name] = stand_ins[said["tag"]] = said["shape"].encode("latin-1")
    return Lent(variables, placeholders, stand_ins)


@dataclass(frozen=True)
class StoodIn:
    """The logs as they are compared, and the pairs of (credential, placeholder) that were found in them."""

    logs: Sequence[bytes]
    pairs: dict[bytes, bytes]

    def tape(self) -> Iterator[bytes]:
        """Yield the logs, and the pairs where there are any: the child compares in the same way."""
        yield from self.logs
        if self.pairs:
            frame = fr.Frame(fr.LENT, 0, 0, 0, 0, 0, 0, b"", values.encode(self.pairs))
            yield fr.write_log([frame])[0]

    def compared(self, data: bytes) -> bytes:
        """Return bytes that the replayed program wrote, with placeholders in the place of credentials."""
        for value, placeholder in self.pairs.items():
            data = data.replace(value, placeholder)
        return data


def stand_in(logs: Sequence[bytes], lent: Lent, *, tag_key: bytes) -> StoodIn:
    """Put the placeholders where the missing credentials stood in what the program sent or wrote."""
    if not lent.stand_ins:
        return StoodIn(logs, {})
    credentials = Credentials(lent.stand_ins, tag_key=tag_key, shapes=lent.stand_ins.values())
    pairs: dict[bytes, bytes] = {}

    def replacement(value: bytes, tag: bytes) -> bytes:
        pairs[value] = lent.stand_ins[tag]
        return pairs[value]

    changed = []
    for log in logs:
        frames = fr.read_log(log)
        for frame in frames:
            if frame.kind in SENT:
                frame.payload = credentials.replace(frame.payload, replacement)
        changed.append(fr.write_log(frames)[0])
    return StoodIn(changed, pairs)

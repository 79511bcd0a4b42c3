"""What a list shows of a decision without opening its content: the facts that the journal keeps for the catalogue.

A summary is written into the decision's journal record, so that the catalogue can be rebuilt from the journal alone.
Invariants:

- no content and no name of a person: users and sessions are keyed tags, the title is encrypted under the decision's own
  secret and dies with it;
- every field is what intake said; nothing is worked out here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import digest
from os import urandom

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tachograph.errors import DamagedStore

_NONCE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The catalogue's columns. Times are milliseconds since 1970; `title` is what `seal_title` returned."""

    agent: str
    captured_at_ms: int
    level: str
    reason: str
    effects: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    tools: tuple[str, ...] = ()
    stop_reason: str | None = None
    exit_code: int | None = None
    failed: bool = False
    failure: str | None = None
    user_tag: str | None = None
    session_tag: str | None = None
    title: bytes = b""
    first_seen: tuple[str, ...] = ()  # prompts and schemas: `family:tag:number` of those that no earlier record names

    def pack(self) -> bytes:
        """Return the summary's bytes: a JSON object."""
        fields = asdict(self)
        fields["title"] = self.title.hex()
        if not self.first_seen:
            del fields["first_seen"]
        return orjson.dumps(fields)


def unpack(data: bytes) -> Summary:
    """Read a summary; fields that this version does not know are left out. Raises DamagedStore."""
    try:
        fields = orjson.loads(data)
        known = {name: value for name, value in fields.items() if name in Summary.__slots__}
        known["first_seen"] = tuple(known.get("first_seen", ()))
        return Summary(
            **{
                **known,
                "tools": tuple(known["tools"]),
                "title": bytes.fromhex(known["title"]),
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise DamagedStore(f"a decision's summary does not parse: {fault}") from fault


def seal_title(secret: bytes, decision: str, title: str) -> bytes:
    """Encrypt a list's one line about a decision under the decision's 32-byte secret."""
    nonce = urandom(_NONCE)
    return nonce + AESGCM(_title_key(secret)).encrypt(nonce, title.encode("utf-8", "replace"), _place(decision))


def open_title(secret: bytes, decision: str, sealed: bytes) -> str:
    """Undo `seal_title`. Raises DamagedStore if it was changed or belongs to another decision."""
    try:
        plain = AESGCM(_title_key(secret)).decrypt(sealed[:_NONCE], sealed[_NONCE:], _place(decision))
    except (InvalidTag, ValueError):
        raise DamagedStore(f"the title of {decision} is not what was written") from None
    return plain.decode("utf-8", "replace")


def _title_key(secret: bytes) -> bytes:
    return digest(secret, b"tachograph title v1", sha256)


def _place(decision: str) -> bytes:
    return b"tachograph title v1 " + decision.encode()

"""Erasure domains: what is erased together (contracts/evidence.md, "At rest").

A domain is a tenant, a data subject and a session; what belongs to a run and to no one decision has a domain of its
own; one `shared` domain per tenant holds what was declared free of personal data. Deduplication, delta parents and
dictionaries never cross a domain. Invariants:

- on disk a domain is an HMAC under the store's tag key: nobody learns a subject or session from a store, and nobody
  without the key can test a guess;
- the fields are length-prefixed before they are hashed: no two different domains share an id by concatenation.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from hmac import digest
from typing import Literal

DEFAULT_TENANT = "default"
ID_SIZE = 16

Kind = Literal["session", "run", "shared"]


@dataclass(frozen=True, slots=True)
class Domain:
    """What is erased together. `subject` and `session` may be empty: a program that names neither has its run."""

    tenant: str
    kind: Kind
    subject: str = ""
    session: str = ""
    run: str = ""

    @classmethod
    def of_session(cls, tenant: str, *, subject: str, session: str, run: str) -> Domain:
        """Return the domain of a decision: its subject and session, or its run where it names neither."""
        if subject or session:
            return cls(tenant, "session", subject=subject, session=session)
        return cls(tenant, "session", run=run)

    @classmethod
    def of_run(cls, tenant: str, *, run: str) -> Domain:
        """Return the domain of what belongs to a run and to no one decision."""
        return cls(tenant, "run", run=run)

    @classmethod
    def shared(cls, tenant: str) -> Domain:
        """Return the tenant's domain for prompts and schemas declared free of personal data."""
        return cls(tenant, "shared")

    def id(self, tag_key: bytes) -> bytes:
        """Return the 16 bytes by which the store knows this domain."""
        return _keyed(tag_key, "domain", self.tenant, self.kind, self.subject, self.session, self.run)[:ID_SIZE]


def tag(tag_key: bytes, kind: str, tenant: str, text: str) -> str:
    """Return the 32 hex digits that stand for a user or session (`kind`) in the catalogue."""
    return _keyed(tag_key, "tag " + kind, tenant, text)[:ID_SIZE].hex()


def _keyed(key: bytes, *fields: str) -> bytes:
    parts = []
    for text in fields:
        encoded = text.encode("utf-8", "surrogatepass")
        parts.append(len(encoded).to_bytes(4, "little"))
        parts.append(encoded)
    return digest(key, b"".join(parts), sha256)

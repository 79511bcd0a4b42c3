"""Which version of a prompt or schema this is: the ordinal under which the store first saw its digest for this agent.

Digests of texts never enter the journal or the catalogue: a keyed tag stands for each. What is seen for the first time
is named in the summary of the record that saw it, so that the catalogue can be made anew.
"""

from __future__ import annotations

from tachograph.store.catalogue import Catalogue
from tachograph.store.domains import tag

_DIGITS = 16


class Versions:
    """The versions that one decision uses. `fresh` holds, by family, those of the batch that is under way."""

    def __init__(
        self, catalogue: Catalogue, tag_key: bytes, tenant: str, agent: str, fresh: dict[str, dict[str, int]]
    ) -> None:  # fmt: skip
        self._catalogue, self._tag_key, self._tenant, self._agent = catalogue, tag_key, tenant, agent
        self._fresh = fresh
        self.first: list[str] = []

    def of(self, kind: str, digest: str) -> str:
        """Return `v<n>` for a digest of that kind."""
        family = tag(self._tag_key, f"family {kind}", self._tenant, self._agent)[:_DIGITS]
        name = tag(self._tag_key, f"version {kind}", self._tenant, f"{self._agent} {digest}")[:_DIGITS]
        known = self._fresh.get(family)
        if known is None:
            known = self._fresh[family] = self._catalogue.versions(family)
        if name not in known:
            known[name] = max(known.values(), default=0) + 1
            self.first.append(f"{family}:{name}:{known[name]}")
        return f"v{known[name]}"

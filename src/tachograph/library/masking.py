"""Masking: a credential taken out of headers or queries is not shown either where the same value stands in a body.

The value itself was never kept. What was kept is a tag, keyed with the store's key; a word of a text whose tag is among
them is that credential, and each of its characters is shown as `*`. Content at rest and in replays stays what it was.
"""

from __future__ import annotations

import re
from hmac import digest

from tachograph.formats.effect_log import EffectLog

_WORDS = re.compile(rb"[A-Za-z0-9_\-.~+/=]{8,}")


class Masking:
    """Masks the credentials of one run's effects."""

    def __init__(self, log: EffectLog, *, tag_key: bytes) -> None:
        self._key = tag_key
        self._tags = {tag for effect in log.effects for _, tag in (*effect.tags, *effect.response_tags)}
        self._known: dict[bytes, bool] = {}

    def raw(self, data: bytes) -> bytes:
        """Return the bytes with each such credential replaced by as many asterisks."""
        if not self._tags:
            return data
        return _WORDS.sub(lambda found: b"*" * len(found[0]) if self._is_credential(found[0]) else found[0], data)

    def text(self, text: str) -> str:
        """The same for text."""
        if not self._tags:
            return text
        return self.raw(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def _is_credential(self, word: bytes) -> bool:
        known = self._known.get(word)
        if known is None:
            tags = (digest(self._key, b"credential\0" + form, "sha256")[:16] for form in (word, b"Bearer " + word))
            known = self._known[word] = any(tag in self._tags for tag in tags)
        return known

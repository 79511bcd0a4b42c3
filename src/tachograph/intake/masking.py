"""Credentials found again: where a value that was taken out of a header, a query or a variable stands in content.

The value itself was never kept. What was kept is a tag, keyed with the store's key, and a placeholder of its shape; a
word of a text whose tag is among them is that credential, and so is the part of one behind a separator, or any part of
that shape (texts run together: `KEYand`). Two uses: views show each of its characters as `*`, and a replay on a machine
without the key lets the placeholder of a missing variable stand for it. Content at rest stays what it was. A credential
with spaces or other signs between its words is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from hmac import digest

from tachograph.formats import frame as fr
from tachograph.formats.credentials import classes_of, redact_headers, redact_url
from tachograph.formats.effect_log import EffectLog, read_tags

_WORDS = re.compile(rb"[A-Za-z0-9_\-.~+/=:]{8,}")
_BORDERS = re.compile(rb"[=:/+~.]")
_SCHEMES = (b"", b"Bearer ", b"bearer ", b"token ", b"Basic ")
_SHORTEST = 8  # bytes; as in _WORDS


def tag_of(tag_key: bytes, value: bytes) -> bytes:
    """Return the 16 bytes that stand for a credential (as `capture.recorder` makes them)."""
    return digest(tag_key, b"credential\0" + value, "sha256")[:16]


class Credentials:
    """Finds the credentials with the given tags in bytes; `shapes` are their placeholders, where they are known."""

    def __init__(self, tags: Iterable[bytes], *, tag_key: bytes, shapes: Iterable[bytes] = ()) -> None:
        self._key = tag_key
        self._tags = set(tags)
        self._shapes = sorted({classes_of(shape.rpartition(b" ")[2]) for shape in shapes})
        self._known: dict[bytes, bytes | None] = {}

    @classmethod
    def of(cls, log: EffectLog, *, tag_key: bytes) -> Credentials:
        """Look for those that were taken out of a run's requests and answers, those that came in too."""
        tags = [tag for effect in log.effects for _, tag in (*effect.tags, *effect.response_tags)]
        for fact in log.of(fr.INBOUND):
            if fact.flags:
                tags += [tag for _, tag in read_tags(fact.said.get("tags", b""))]
        return cls(tags, tag_key=tag_key, shapes=_placeholders(log))

    def replace(self, data: bytes, replacement: Callable[[bytes, bytes], bytes]) -> bytes:
        """Return the bytes with `replacement(value, tag)` in the place of each credential."""
        if not self._tags:
            return data
        return _WORDS.sub(lambda found: self._in_word(found[0], replacement), data)

    def _in_word(self, word: bytes, replacement: Callable[[bytes, bytes], bytes]) -> bytes:
        for start, end in (*_parts(word), *self._of_shape(word)):
            tag = self._tag(word[start:end])
            if tag is not None:
                rest = self._in_word(word[end:], replacement) if len(word) - end >= _SHORTEST else word[end:]
                return word[:start] + replacement(word[start:end], tag) + rest
        return word

    def _of_shape(self, word: bytes) -> Iterator[tuple[int, int]]:
        classes = classes_of(word)
        for shape in self._shapes:
            at = classes.find(shape) if _SHORTEST <= len(shape) < len(word) else -1
            while at >= 0:
                yield at, at + len(shape)
                at = classes.find(shape, at + 1)

    def _tag(self, word: bytes) -> bytes | None:
        if word not in self._known:
            tags = (tag_of(self._key, scheme + word) for scheme in _SCHEMES)
            self._known[word] = next((tag for tag in tags if tag in self._tags), None)
        return self._known[word]

    def masked(self, data: bytes) -> bytes:
        """Return the bytes with as many asterisks in the place of each credential."""
        return self.replace(data, lambda value, _: b"*" * len(value))

    def masked_text(self, text: str) -> str:
        """The same for text."""
        if not self._tags:
            return text
        return self.masked(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _placeholders(log: EffectLog) -> Iterator[bytes]:
    """Yield what stands in the place of each credential: a placeholder is its own placeholder."""
    for effect in log.effects:
        if effect.tags or effect.response_tags:
            for headers in (effect.headers, effect.response_headers):
                yield from (shape for _, shape in redact_headers(headers)[1])
            yield from (shape.encode("utf-8", "surrogateescape") for _, shape in redact_url(effect.url)[1])


def _parts(word: bytes) -> Iterator[tuple[int, int]]:
    """Yield the word itself, then its parts between separators, longest first, of at least eight bytes."""
    borders = [0, *(found.end() for found in _BORDERS.finditer(word))][:16]
    ends = [*(found.start() for found in _BORDERS.finditer(word)), len(word)][-16:]
    pairs = {(start, end) for start in borders for end in ends if end - start >= _SHORTEST}
    yield from sorted(pairs, key=lambda pair: (pair[0] - pair[1], pair[0]))

"""The registry: which dialect a request speaks, or none.

A request is recognised by its method, the end of its path and, where that is ambiguous, a header. What nobody here
speaks (embeddings, moderations, other providers' formats) is None, and is kept as any other HTTP call.
"""

from __future__ import annotations

from tachograph.dialects import anthropic_messages, openai_chat, openai_responses
from tachograph.dialects.reading import Dialect, Headers

DIALECTS: tuple[Dialect, ...] = (openai_chat, openai_responses, anthropic_messages)


def recognise(method: str, url: str, headers: Headers, body: bytes) -> Dialect | None:
    """Return the dialect of a request, or None."""
    path = url.partition("?")[0].partition("#")[0]
    for dialect in DIALECTS:
        if dialect.speaks(method.upper(), path, headers, body):
            return dialect
    return None


def by_name(name: str) -> Dialect | None:
    """Return the dialect of that name, as a capture gives it, or None."""
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    return None

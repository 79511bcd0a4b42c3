"""Headers: all of them decide a match, but those of a listed volatile set (DESIGN section 6, Matching).

The list is closed, and short on purpose: a header that is not on it and differs (`anthropic-version`, `openai-beta`,
`accept`) is a different question. What is listed says who asks, when, with which tool and how often:

- credentials, cookies included (`formats.credentials` knows them): a replay works on a machine without the key;
- `user-agent`, `x-stainless-*`, `amz-sdk-*`: the client's own description of itself and of its retries;
- dates, trace context (`traceparent`, `tracestate`, `b3`, `x-b3-*`), idempotency keys: drawn anew for each call;
- `content-length`, which the body decides, and of a multipart `content-type` the boundary.

Names are compared without case. The order of different names means nothing, that of one name's values does.
"""

from __future__ import annotations

from tachograph.comparison.leaves import ABSENT, Leaf, pointer
from tachograph.formats.credentials import is_credential_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Headers = Sequence[tuple[bytes, bytes]]

VOLATILE = frozenset(
    (
        b"user-agent", b"date", b"x-amz-date", b"x-ms-date", b"x-goog-date", b"if-modified-since", b"traceparent",
        b"tracestate", b"b3", b"idempotency-key", b"x-idempotency-key", b"content-length",
    )
)  # fmt: skip
VOLATILE_BEGINNINGS = (b"x-stainless-", b"amz-sdk-", b"x-b3-")

_KNOWN: dict[bytes, bytes | None] = {}  # by the name as sent: the name to compare by, or None where it is volatile
_MOST_NAMES = 4096


def significant(headers: Headers) -> dict[bytes, tuple[bytes, ...]]:
    """Return what decides a match: lower-case name -> its values in order."""
    found: dict[bytes, tuple[bytes, ...]] = {}
    for name, value in headers:
        try:
            known = _KNOWN[name]
        except KeyError:
            known = _learn(name)
        if known is None:
            continue
        if known == b"content-type":
            value = without_boundary(value)
        found[known] = (*found[known], value) if known in found else (value,)
    return found


def is_volatile(name: bytes) -> bool:
    """Say whether a header of this name (any case) is left out of a comparison."""
    lower = name.lower()
    return lower in VOLATILE or lower.startswith(VOLATILE_BEGINNINGS) or is_credential_header(lower)


def first_header_difference(recorded: Headers, replayed: Headers) -> Leaf | None:
    """Return the first header that differs, in recorded order, then those only in the replay; None if all agree."""
    return first_significant_difference(significant(recorded), significant(replayed))


def first_significant_difference(
    recorded: dict[bytes, tuple[bytes, ...]], replayed: dict[bytes, tuple[bytes, ...]]
) -> Leaf | None:
    """The same, for headers that `significant` has read."""
    if recorded == replayed:
        return None
    for name, values in recorded.items():
        if replayed.get(name) != values:
            return Leaf(_place(name), _shown(values), _shown(replayed.get(name)))
    for name, values in replayed.items():
        if name not in recorded:
            return Leaf(_place(name), ABSENT, _shown(values))
    return None


def value_of(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header, by its lower-case name."""
    for sent, value in headers:
        if sent.lower() == name:
            return value
    return None


def without_boundary(content_type: bytes) -> bytes:
    """Return a multipart content type without its boundary, which is random; any other as it is."""
    if content_type[:10].lower() != b"multipart/":
        return content_type
    first, *parameters = content_type.split(b";")
    return b";".join([first, *[one for one in parameters if one.strip()[:9].lower() != b"boundary="]])


def _learn(name: bytes) -> bytes | None:
    if len(_KNOWN) >= _MOST_NAMES:
        _KNOWN.clear()
    known = _KNOWN[name] = None if is_volatile(name) else name.lower()
    return known


def _place(name: bytes) -> str:
    return "/headers" + pointer(name.decode("latin-1"))


def _shown(values: tuple[bytes, ...] | None) -> object:
    if values is None:
        return ABSENT
    texts = [value.decode("latin-1") for value in values]
    return texts[0] if len(texts) == 1 else texts

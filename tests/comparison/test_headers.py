"""Headers: all decide but a short listed set."""

from __future__ import annotations

import pytest

from tachograph.comparison import headers
from tachograph.comparison.headers import (
    first_header_difference,
    is_volatile,
    significant,
    value_of,
    without_boundary,
)
from tachograph.comparison.leaves import ABSENT, Leaf

IGNORED = [
    b"Authorization", b"x-api-key", b"Cookie", b"User-Agent", b"X-Stainless-Retry-Count", b"amz-sdk-invocation-id",
    b"Date", b"X-Amz-Date", b"traceparent", b"tracestate", b"b3", b"X-B3-TraceId", b"Idempotency-Key",
    b"Content-Length", b"x-amz-security-token",
]  # fmt: skip
DECIDING = [
    b"anthropic-version", b"openai-beta", b"accept", b"accept-encoding", b"content-type", b"x-request-id", b"host",
    b"openai-organization", b"x-ratelimit-remaining-tokens", b"content-encoding", b"baggage", b"mcp-session-id",
]  # fmt: skip


@pytest.mark.parametrize("name", IGNORED)
def test_a_listed_header_does_not_decide(name: bytes) -> None:
    assert is_volatile(name)
    assert first_header_difference([(name, b"1")], [(name.lower(), b"2")]) is None
    assert first_header_difference([(name, b"1")], []) is None


@pytest.mark.parametrize("name", DECIDING)
def test_every_other_header_decides(name: bytes) -> None:
    path = f"/headers/{name.decode()}"
    assert first_header_difference([(name, b"1")], [(name, b"2")]) == Leaf(path, "1", "2")
    assert first_header_difference([(name, b"1")], []) == Leaf(path, "1", ABSENT)
    assert first_header_difference([], [(name, b"2")]) == Leaf(path, ABSENT, "2")


def test_names_have_no_case_and_no_order_but_values_of_one_name_have() -> None:
    one = [(b"Accept", b"a"), (b"X-List", b"1"), (b"x-list", b"2")]
    assert first_header_difference(one, [(b"x-list", b"1"), (b"accept", b"a"), (b"X-LIST", b"2")]) is None
    turned = [(b"accept", b"a"), (b"x-list", b"2"), (b"x-list", b"1")]
    assert first_header_difference(one, turned) == Leaf("/headers/x-list", ["1", "2"], ["2", "1"])


def test_the_first_in_recorded_order_is_named() -> None:
    recorded = [(b"b", b"1"), (b"a", b"1")]
    assert first_header_difference(recorded, [(b"a", b"2"), (b"b", b"2")]) == Leaf("/headers/b", "1", "2")


def test_the_boundary_of_a_multipart_type_does_not_decide_and_the_rest_of_it_does() -> None:
    one, other = (
        (b"content-type", b"multipart/form-data; boundary=a"),
        (b"content-type", b"multipart/form-data; boundary=b"),
    )
    assert first_header_difference([one], [other]) is None
    assert first_header_difference([one], [(b"content-type", b"multipart/mixed; boundary=a")]) is not None
    assert without_boundary(b"multipart/related; Boundary=x; type=a/b") == b"multipart/related; type=a/b"
    assert without_boundary(b"text/plain; boundary=x") == b"text/plain; boundary=x"


def test_a_header_is_found_by_its_name_in_any_case() -> None:
    raw = [(b"Host", b"h"), (b"Content-Type", b"a"), (b"content-type", b"b")]
    assert value_of(raw, b"content-type") == b"a"
    assert value_of(raw, b"accept") is None


def test_many_names_do_not_fill_the_memory() -> None:
    for number in range(10_000):
        significant([(b"x-%d" % number, b"")])
    assert len(headers._KNOWN) <= headers._MOST_NAMES

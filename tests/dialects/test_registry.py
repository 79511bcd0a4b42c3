"""The registry: a request speaks one dialect or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tachograph.dialects.registry import DIALECTS, by_name, recognise
from tests.dialects.recordings import exchanges

VERSIONED = [(b"Anthropic-Version", b"2023-06-01")]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1/chat/completions", "openai.chat"),
        ("https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1", "openai.chat"),
        ("https://api.mistral.ai/v1/chat/completions#stream", "openai.chat"),
        ("http://127.0.0.1:8080/v1/responses/", "openai.responses"),
        ("https://api.anthropic.com/v1/messages?beta=true", "anthropic.messages"),
        ("https://proxy.test/anthropic/messages", None),
        ("https://api.openai.com/v1/embeddings", None),
        ("https://api.openai.com/v1/threads/t1/messages", None),
        ("https://api.anthropic.com/v1/messages/count_tokens", None),
        ("https://api.anthropic.com/v1/complete", None),
        ("https://api.openai.com/v1/responses/resp_1", None),
        ("https://h.test/?next=/chat/completions", None),
    ],
)
def test_a_request_is_recognised_by_its_path(url: str, name: str | None) -> None:
    found = recognise("POST", url, [], b"{}")
    assert (found and found.name) == name
    assert recognise("GET", url, VERSIONED, b"") is None


def test_a_version_header_decides_where_the_path_does_not() -> None:
    found = recognise("post", "https://proxy.test/anthropic/messages", VERSIONED, b"{}")
    assert found is not None
    assert found.name == "anthropic.messages"
    for url in (
        "https://h.test/v1/threads/t/messages",
        "https://h.test/v1/messages/count_tokens",
        "https://h.test/v1/complete",
    ):
        assert recognise("POST", url, VERSIONED, b"{}") is None


def test_names_lead_back_to_their_dialects() -> None:
    assert [by_name(dialect.name) for dialect in DIALECTS] == list(DIALECTS)
    assert by_name("nobody") is None


def test_real_requests_are_recognised(shared: Path) -> None:
    seen = {recognise(one.method, one.url, one.headers, one.body) for one in exchanges(shared, "")}
    assert seen == {*DIALECTS, None}

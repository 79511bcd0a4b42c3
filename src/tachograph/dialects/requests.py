"""Requests, as far as all dialects read them alike: model, parameters, tools, and why something is missing.

Whatever stands at the top of a request and is not known to be content or routing is a parameter: one that only a single
provider knows (`num_ctx`, `top_k`) changes the answer as much as `temperature` does, and must not be lost (R23).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tachograph.dialects.body import joined, text
from tachograph.dialects.json_text import JsonText, read_text
from tachograph.dialects.reading import Message, RequestReading

# At the top of a request, in any dialect, and no parameter: what is asked, with which tools, and how it is delivered,
# kept or billed.
_NO_PARAMETERS = frozenset(
    (
        "model", "messages", "input", "prompt", "system", "instructions", "tools", "functions", "stream",
        "stream_options", "metadata", "user", "store", "previous_response_id", "conversation", "background", "include",
        "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "mcp_servers", "container",
    )
)  # fmt: skip


def read(body: bytes, collect: Callable[[JsonText], list[Message]]) -> RequestReading:
    """Read a request whose texts `collect` finds; a body that is no JSON object gives the reason for every field."""
    document = read_text(body)
    if isinstance(document, JsonText) and isinstance(document.value, dict):
        return _read_object(document, document.value, collect(document))
    reason = document if isinstance(document, str) else "the request is no JSON object"
    fields = ("model", "system_text", "developer_text", "messages", "tools_json", "sampling")
    return RequestReading(reasons=dict.fromkeys(fields, reason))


def _read_object(document: JsonText, top: dict[str, Any], messages: list[Message]) -> RequestReading:
    reasons: dict[str, str] = {}
    tools = document.at("tools") or document.at("functions")
    systems = [one.text for one in messages if one.role == "system" and one.text is not None]
    developers = [one.text for one in messages if one.role == "developer" and one.text is not None]
    for name, value in (("model", text(top.get("model"))), ("tools_json", tools)):
        if value is None:
            reasons[name] = "not sent"
    for name, texts in (("system_text", systems), ("developer_text", developers)):
        if len(texts) != 1:
            reasons[name] = f"{len(texts)} texts, joined by blank lines" if texts else "not sent"
    return RequestReading(
        model=text(top.get("model")),
        system_text=joined(systems),
        developer_text=joined(developers),
        messages=tuple(messages),
        tools_json=tools,
        sampling={key: document.at(key) or "" for key in top if key not in _NO_PARAMETERS},
        stream=top.get("stream") is True,
        reasons=reasons,
    )

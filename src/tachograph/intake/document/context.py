"""The groups `agentConfiguration` and `memoryState`: what the model was given in its last call, and from where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tachograph.canonical import NotCanonical, canonical, digest, read_exact
from tachograph.dialects.reading import RequestReading
from tachograph.formats import frame as fr
from tachograph.formats import values
from tachograph.formats.value_view import view
from tachograph.intake.document.calls import error_of, milliseconds, origin_of
from tachograph.intake.document.observed import Observed, Seen
from tachograph.intake.document.page import DECLARED, MAPPED, Page
from tachograph.intake.sketch import short
from tachograph.model.effect import RETRIEVAL
from tachograph.signing.merkle import leaf_hash, root_of

CONFIGURATION, MEMORY = "/agentConfiguration", "/memoryState"
_ENTRIES = f"{MEMORY}/workingSetEntries"

VersionOf = Callable[[str, str], str]
"""`version_of(kind, digest)`: the ordinal `v<n>` under which the store first saw a prompt or schema of this agent."""


def configuration(page: Page, observed: Observed, version_of: VersionOf) -> dict[str, Any]:
    """Return prompt, schema, model and sampling parameters of the last model call."""
    last = observed.model_calls[-1] if observed.model_calls else None
    made: dict[str, Any] = {"samplingParameters": {}}
    if last is None or last.asked is None:
        page.absent(f"{CONFIGURATION}/modelIdentifier", "no_model_call")
        return made
    asked, declared = last.asked, observed.said(fr.CONFIGURE)
    versions = {name: text for said in declared for name, text in said.items()}
    _text(page, made, "systemPromptText", "systemPromptHash", asked.system_text)
    _text(page, made, "developerPromptText", "developerPromptHash", asked.developer_text)
    if asked.tools_json is not None:
        at = f"{CONFIGURATION}/toolSchemaJson"
        made["toolSchemaJson"] = page.json(at, asked.tools_json.encode("utf-8", "surrogatepass"))
        page.digested(made, "toolSchemaJson", "toolSchemaHash", CONFIGURATION)
    else:
        page.absent(f"{CONFIGURATION}/toolSchemaJson", asked.reasons.get("tools_json", "not_sent").split(" ")[0])
    for name, of in (("systemPromptVersion", "systemPromptHash"), ("toolSchemaVersion", "toolSchemaHash")):
        if short(versions.get(name)):
            made[name] = versions[name]
            page.provenance(f"{CONFIGURATION}/{name}", DECLARED)
        elif of in made:
            made[name] = version_of(of, made[of])
            page.provenance(f"{CONFIGURATION}/{name}", MAPPED, "first_seen_by_this_store")
        else:
            page.absent(f"{CONFIGURATION}/{name}", "not_sent")
    if short(asked.model):
        made["modelIdentifier"] = asked.model
    else:
        page.unavailable(f"{CONFIGURATION}/modelIdentifier", "not_stated")
    answered = last.answered.model_version if last.answered is not None else None
    if short(answered):
        made["modelVersion"] = answered
    else:
        page.unavailable(f"{CONFIGURATION}/modelVersion", "not_stated")
    if short(origin_of(last.effect.url)):
        made["modelProviderEndpoint"] = origin_of(last.effect.url)
    sampling = made["samplingParameters"]
    for name, text in asked.sampling.items():
        sampling[name] = _as_sent(page, f"{CONFIGURATION}/samplingParameters/{_step(name)}", text)
    return made


def _text(page: Page, made: dict[str, Any], name: str, hash_name: str, text: str | None) -> None:
    if text is None:
        page.absent(f"{CONFIGURATION}/{name}", "not_sent")
        return
    made[name] = page.text(f"{CONFIGURATION}/{name}", text)
    page.digested(made, name, hash_name, CONFIGURATION)


def _as_sent(page: Page, at: str, text: str) -> Any:
    data = text.encode("utf-8", "surrogatepass")
    try:
        value = read_exact(data)
    except NotCanonical:
        return page.blob(at, data)
    return page.value(at, value, data)


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def memory(page: Page, observed: Observed) -> dict[str, Any]:
    """Return the entries that stood in the last model call, in the order of their first byte, and every retrieval."""
    last = observed.model_calls[-1] if observed.model_calls else None
    found = [seen for seen in observed.effects if seen.effect.kind == RETRIEVAL]
    kept = [(seen, _kept(seen)) for seen in found]
    made: dict[str, Any] = {
        "workingSetEntries": _working_set(page, kept, last.asked if last is not None else None),
        "retrievals": [_retrieval(page, seen, returned, n) for n, (seen, returned) in enumerate(kept)],
    }
    tokens = last.answered.input_tokens if last is not None and last.answered is not None else None
    if tokens is not None:
        made["totalContextTokens"] = tokens
    else:
        page.unavailable(f"{MEMORY}/totalContextTokens", "not_stated" if last is not None else "no_model_call")
    head = _head(made["workingSetEntries"])
    page.trees[f"{MEMORY}/contextSetHash"] = head
    made["contextSetHash"] = "sha256:" + head.hex()
    return made


def _head(entries: list[dict[str, Any]]) -> bytes:
    """RFC 6962 head over the entries in their order (rule 2)."""
    leaves = [{name: one[name] for name in ("contextPosition", "entryId", "renderedContentHash")} for one in entries]
    return root_of(leaf_hash(canonical(leaf)) for leaf in leaves)


def _kept(seen: Seen) -> dict[str, Any]:
    try:
        value = view(seen.effect.value) if seen.effect.value else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _entries(returned: dict[str, Any]) -> list[dict[str, Any]]:
    entries = returned.get("entries")
    return [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []


def _working_set(
    page: Page, kept: list[tuple[Seen, dict[str, Any]]], asked: RequestReading | None
) -> list[dict[str, Any]]:  # fmt: skip
    texts = [message.text for message in asked.messages if message.text] if asked is not None else []
    if asked is not None and asked.system_text and asked.system_text not in texts:
        texts.insert(0, asked.system_text)
    placed: dict[tuple[int, int], tuple[Seen, int, dict[str, Any], str]] = {}
    for seen, returned in kept:
        for rank, entry in enumerate(_entries(returned)):
            text = entry.get("text")
            if not isinstance(text, str) or not text or not _is_text(text):
                continue
            place = next(((n, at) for n, whole in enumerate(texts) if (at := whole.find(text)) >= 0), None)
            if place is not None:
                placed.setdefault(place, (seen, rank, entry, text))
    made = []
    for position, (_, (seen, rank, entry, text)) in enumerate(sorted(placed.items(), key=lambda one: one[0])):
        made.append(_entry(page, entry, text, position, f"{_ENTRIES}/{position}", seen, rank))
    return made


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _entry(
    page: Page, entry: dict[str, Any], text: str, position: int, at: str, seen: Seen, rank: int
) -> dict[str, Any]:  # fmt: skip
    name = entry.get("id")
    made: dict[str, Any] = {
        "entryId": name if isinstance(name, str) and _is_text(name) else f"effect {seen.effect.index} entry {rank}",
        "renderedContent": text,
        "renderedContentHash": digest(text.encode()),
        "contextPosition": position,
    }
    tier = short(entry.get("tier"))
    if tier is not None:
        made["tier"] = tier
        page.provenance(f"{at}/tier", DECLARED)
    else:
        page.unavailable(f"{at}/tier", "not_declared")
    provenance = entry.get("provenance")
    if isinstance(provenance, dict) and provenance:
        made["provenance"] = page.value(f"{at}/provenance", provenance, values.encode(provenance))
        page.provenance(f"{at}/provenance", DECLARED)
    else:
        page.unavailable(f"{at}/provenance", "not_declared")
    score, method = entry.get("score"), short(entry.get("method"))
    if type(score) in (int, float):
        made["retrievalScore"] = score
    if method is not None:
        made["retrievalMethod"] = method
    for field, name_ in (("embedding_model", "embeddingModel"), ("embedding_version", "embeddingVersion")):
        if isinstance(entry.get(field), str):
            made[name_] = page.text(f"{at}/{name_}", entry[field])
    return made


def _retrieval(page: Page, seen: Seen, returned: dict[str, Any], number: int) -> dict[str, Any]:
    effect, at = seen.effect, f"{MEMORY}/retrievals/{number}"
    made: dict[str, Any] = {"callId": f"effect {effect.index}"}
    made["query"] = page.encoded(f"{at}/query", effect.inputs)
    spec = effect.spec
    configured = spec.get("configuration") or {}
    made["configuration"] = page.value(f"{at}/configuration", configured, values.encode(configured))
    if isinstance(spec.get("corpus"), str):
        made["corpusVersion"] = page.text(f"{at}/corpusVersion", spec["corpus"])
        page.provenance(f"{at}/corpusVersion", DECLARED)
    else:
        page.unavailable(f"{at}/corpusVersion", "not_declared")
    page.unavailable(f"{at}/corpusHash", "not_declared")
    listed = [
        {"id": one.get("id"), "score": one.get("score"), "rank": rank} for rank, one in enumerate(_entries(returned))
    ]
    made["returned"] = page.value(f"{at}/returned", listed, effect.value)
    took = milliseconds(seen)
    if took is not None:
        made["latencyMs"] = took
    if effect.error:
        made["error"] = error_of(effect)
    return made

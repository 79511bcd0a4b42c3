"""Fills every group of a document: memory entries, tools, externals, a failed read. Settings: library, url, asked."""

from __future__ import annotations

import json
import sys

import tachograph

settings = json.loads(sys.argv[1])
ASKED = settings.get("asked", "Refund order 7.")


@tachograph.tool
def refund(order, amount):
    return {"ok": True, "order": order, "amount": amount}


@tachograph.retrieval(configuration={"k": 2}, corpus="policies-7")
def search(query):
    return [
        tachograph.Entry(
            id="p1",
            text="Refunds after 30 days are refused.",
            tier="warm",
            score=0.75,
            method="bm25",
            provenance={"writerId": "ops", "writtenAt": "2026-01-01T00:00:00.000Z", "sourceType": "doc"},
        ),
        tachograph.Entry(id="p2", text="Nobody renders this one.", tier="cold", score=0.5, method="bm25"),
    ]


def unreachable():
    raise ConnectionError("no route to the rates")


def ask(system):
    if settings["library"] == "openai":
        from openai import OpenAI

        client = OpenAI(base_url=settings["url"] + "/v1", api_key="sk-live-1234567890abcdef")
        done = client.chat.completions.create(
            model="small-1",
            temperature=0.25,
            seed=7,
            stop=["END"],
            messages=[
                {"role": "system", "content": system},
                {"role": "user", "content": ASKED},
            ],
            tools=[{"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}],
        )
        return done.choices[0].message.content
    from anthropic import Anthropic

    client = Anthropic(base_url=settings["url"], api_key="sk-ant-1234567890abcdef")
    done = client.messages.create(
        model="small-1",
        max_tokens=64,
        extra_body={"temperature": 0.25},
        system=system,
        messages=[{"role": "user", "content": ASKED}],
        tools=[{"name": "refund", "input_schema": {"type": "object"}}],
    )
    return done.content[0].text


with tachograph.decision(agent="billing", user="ann", session="s-1", request={"order": 7}) as d:
    d.configure(system_prompt_version="p3")
    found = search("refunds")
    tachograph.external("rate", lambda: 1.25, source="https://rates.example/eur")
    try:
        tachograph.external("other rate", unreachable)
    except ConnectionError:
        pass
    tachograph.observe("queue", 3, source="memory")
    said = ask("Be kind. " + found[0].text)
    refund(7, 12.5)
    d.output(said)
print(said)

"""A refund agent: looks up a policy in its memory, asks a model for the refund window, applies it to an order.

    python agent.py --memory good --base-url http://127.0.0.1:8111/v1     DENIED, exit code 0
    python agent.py --memory bad --base-url http://127.0.0.1:8111/v1      REFUNDED, exit code 1

The kettle of order 1042 was bought 20 days ago, and its refund window is 14 days. With a stale entry of 2024 in the
memory (`bad`), retrieval ranks that entry first, the model reads 30 days, and the refund goes out although it must
not. The order system, which knows the window that was sold with the order, notices afterwards.

A plain program: openai's SDK, SQLite's full-text search, one tool. It does not know that it may be recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from openai import OpenAI
from openai.types.chat import ChatCompletionToolParam

QUESTION = "I want a refund for the kettle from order 1042. How many days do I have to return an item?"
ORDER_ID = "1042"


@dataclass(frozen=True)
class Order:
    """What the order system knows: days since the purchase, and the refund window sold with it."""

    item: str
    bought_days_ago: int
    window_days: int


@dataclass(frozen=True)
class Entry:
    """One entry of the agent's memory."""

    id: str
    provenance: str
    text: str


@dataclass(frozen=True)
class Hit:
    """A retrieved entry and its score: BM25 as SQLite gives it, where less is better."""

    entry: Entry
    score: float


ORDERS = {ORDER_ID: Order(item="kettle", bought_days_ago=20, window_days=14)}

GOOD_MEMORY = (
    Entry("policy-2026", "handbook 2026", "Refund policy v3 (2026): the refund window is 14 days from purchase."),
    Entry("shipping-iceland", "handbook 2026", "Shipping to Iceland takes 9 business days."),
    Entry("gift-cards", "handbook 2026", "Gift cards cannot be refunded or exchanged."),
    Entry("passwords", "handbook 2025", "Password resets are handled by the identity team."),
    Entry("descaling", "product notes", "Descale a kettle every two months with citric acid."),
    Entry("warranty", "product notes", "The warranty on kettles and toasters is two years."),
    Entry("opening-hours", "handbook 2026", "The shop is open from 9 to 18 on weekdays."),
    Entry("return-labels", "handbook 2025", "A return label is printed at the parcel desk."),
)
STALE_ENTRY = Entry(
    "policy-2024",
    "handbook 2024",
    "Refund policy v2 (2024): customers may return any item and get a refund within 30 days of purchase.",
)
MEMORIES = {"good": GOOD_MEMORY, "bad": (*GOOD_MEMORY, STALE_ENTRY)}

# Words that stand in nearly every question and say nothing about what is asked.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and any are at be can do for from have how i in is it many me my of on or our that the this to want was "
        "what with you your",
    )
)

TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "apply_refund_policy",
            "description": "Apply the refund policy with the given refund window in days.",
            "parameters": {
                "type": "object",
                "properties": {"refund_window_days": {"type": "integer"}},
                "required": ["refund_window_days"],
            },
        },
    }
]


def query_words(question: str) -> list[str]:
    """The words of a question that are worth searching for, each once, in their order."""
    words = re.findall(r"[a-z0-9]+", question.lower())
    return list(dict.fromkeys(word for word in words if word not in STOP_WORDS))


def retrieve(question: str, memory: Iterable[Entry], *, limit: int = 1) -> list[Hit]:
    """The entries that fit a question best, best first; ties in the order of their ids."""
    entries = {entry.id: entry for entry in memory}
    with sqlite3.connect(":memory:") as database:
        try:
            database.execute("CREATE VIRTUAL TABLE memory USING fts5(id UNINDEXED, text, tokenize='porter unicode61')")
        except sqlite3.OperationalError as error:
            raise SystemExit(
                f"The agent's memory needs SQLite with FTS5, and this Python's has none: {error}"
            ) from error
        database.executemany("INSERT INTO memory VALUES (?, ?)", [(entry.id, entry.text) for entry in entries.values()])
        wanted = " OR ".join(f'"{word}"' for word in query_words(question))
        found = database.execute(
            "SELECT id, bm25(memory) FROM memory WHERE memory MATCH ? ORDER BY bm25(memory), id LIMIT ?",
            (wanted, limit),
        ).fetchall()
    return [Hit(entries[id], score) for id, score in found]


def ask_model(client: OpenAI, *, model: str, system_prompt: str, memory: Entry) -> int:
    """The refund window in days, as the model reads it from the memory entry; the call's arguments are streamed."""
    stream = client.chat.completions.create(
        model=model,
        messages=[
            {"role": "system", "content": f"{system_prompt}\nMemory entry: {memory.text}"},
            {"role": "user", "content": QUESTION},
        ],
        tools=TOOLS,
        tool_choice="required",
        temperature=0,
        seed=0,
        stream=True,
    )
    arguments = ""
    for chunk in stream:
        for call in chunk.choices[0].delta.tool_calls or [] if chunk.choices else []:
            arguments += (call.function and call.function.arguments) or ""
    return int(json.loads(arguments)["refund_window_days"])


def apply_refund_policy(refund_window_days: int, order: Order) -> str:
    """The tool: whether the order is still inside the window."""
    return "REFUNDED" if order.bought_days_ago <= refund_window_days else "DENIED"


def refunded_outside_window(decision: str, order: Order) -> bool:
    """The order system's own check, afterwards: a refund for an order whose window, as sold, is over."""
    return decision == "REFUNDED" and order.bought_days_ago > order.window_days


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one customer. Returns 0, or 1 where a refund went out that must not."""
    parser = argparse.ArgumentParser(description="A refund agent.")
    parser.add_argument("--memory", choices=sorted(MEMORIES), default="good")
    parser.add_argument("--base-url", default=None, help="default: OPENAI_BASE_URL, else the provider's own")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--system-prompt", type=Path, default=Path(__file__).with_name("system_prompt.txt"))
    given = parser.parse_args(arguments)

    order = ORDERS[ORDER_ID]
    hit = retrieve(QUESTION, MEMORIES[given.memory])[0]
    print(f"Customer: {QUESTION}")
    print(f"Memory:   {hit.entry.text}")
    client = OpenAI(base_url=given.base_url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    system_prompt = given.system_prompt.read_text(encoding="utf-8").strip()
    window = ask_model(client, model=given.model, system_prompt=system_prompt, memory=hit.entry)
    decision = apply_refund_policy(window, order)
    print(f"Tool:     apply_refund_policy(refund_window_days={window})")
    print(
        f"Agent:    {decision}. The {order.item} was bought {order.bought_days_ago} days ago; "
        f"the refund window is {window} days."
    )
    if refunded_outside_window(decision, order):
        print(
            f"order system: refund issued outside the window of order {ORDER_ID} "
            f"({order.bought_days_ago} days after purchase, {order.window_days} allowed)",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

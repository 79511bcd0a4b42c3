"""A small refund agent that says in code what it does: decision, retrieval, tool, external, observe; sync or async.

Settings: library, mode, url. Files beside it that may be edited: `question.txt`, `tool.txt` (the name of the tool that
is called), `again.txt` (how often). Each function that really runs appends its name to `executed.txt` in the working
folder, so that whoever looks can count.
"""

from __future__ import annotations

import asyncio
import decimal
from pathlib import Path
from typing import Any

from clients import SETTINGS, AsyncCaller, Caller, beside

import tachograph


def ran(name: str) -> None:
    """Leave word that a function really ran."""
    with Path("executed.txt").open("a", encoding="utf-8") as file:
        file.write(name + "\n")


@tachograph.retrieval(configuration={"k": 2}, corpus="policies-3", determinism="deterministic")
def policies(question: str) -> list[tachograph.Entry]:
    """Two entries, one with everything that an entry can say."""
    ran("policies")
    return [
        tachograph.Entry(
            id="p-1",
            text=f"The window is 14 days. ({question})",
            tier="hot",
            provenance={"author": "ops"},
            score=0.75,
            method="bm25",
            position=0,
            embedding_model="none",
            embedding_version="0",
        ),
        tachograph.Entry(id="p-2", text="Gift cards stay."),
    ]


@tachograph.tool(determinism="deterministic")
def load_order(number: int, *, fields: tuple[str, ...] = ()) -> dict[str, Any]:
    """An order, with values that JSON has no word for."""
    ran("load_order")
    return {"number": number, "price": decimal.Decimal("12.50"), "raw": b"\x00\xff", "fields": fields}


@tachograph.tool
def queue_charge(number: int, *, fields: tuple[str, ...] = ()) -> str:
    """Another tool that takes the same arguments."""
    ran("queue_charge")
    return f"queued {number}"


@tachograph.tool
def refuses(number: int) -> str:
    """A tool that fails."""
    ran("refuses")
    raise LookupError("no such order", number)


def rate() -> float:
    """What a service says today."""
    ran("rate")
    return 1.0829


def sync() -> None:
    """The agent, blocking."""
    question = beside("question.txt", "May I return the kettle?")
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    with tachograph.decision(agent="refunds", user="u-7", session="s-1", request={"question": question}) as decided:
        decided.configure(system_prompt_version="3", tool_schema_version="1")
        found = policies(question)
        for _ in range(int(beside("again.txt", "1"))):
            order = globals()[beside("tool.txt", "load_order")](7, fields=("price", "date"))
        worth = tachograph.external("rate", rate, source="https://rates.example/eur")
        tachograph.observe("locale", "is-IS", source="argv")
        try:
            refuses(8)
        except LookupError as fault:
            print("refused", fault.args)
        answer = caller.ask(f"{question} {found[0].text} {order} {worth}").text
        decided.output(answer, stop_reason="end_turn")
    print(found, order, worth, answer, decided.id is not None)


@tachograph.retrieval
async def policies_async(question: str) -> list[tachograph.Entry]:
    """The same, awaited."""
    await asyncio.sleep(0)
    return policies.__wrapped__(question)


@tachograph.tool
async def load_order_async(number: int, *, fields: tuple[str, ...] = ()) -> dict[str, Any]:
    """The same, awaited."""
    await asyncio.sleep(0)
    return load_order.__wrapped__(number, fields=fields)


@tachograph.tool
async def queue_charge_async(number: int, *, fields: tuple[str, ...] = ()) -> str:
    """The same, awaited."""
    return queue_charge.__wrapped__(number, fields=fields)


@tachograph.tool
async def refuses_async(number: int) -> str:
    """The same, awaited."""
    return refuses.__wrapped__(number)


async def rate_async() -> float:
    """The same, awaited."""
    return rate()


async def asynchronous() -> None:
    """The agent, awaiting, with two tools at once."""
    question = beside("question.txt", "May I return the kettle?")
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    named = globals()[beside("tool.txt", "load_order") + "_async"]
    async with tachograph.decision(agent="refunds", user="u-7", session="s-1", request=question) as decided:
        found = await policies_async(question)
        for _ in range(int(beside("again.txt", "1"))):
            order, other = await asyncio.gather(named(7, fields=("price",)), load_order_async(9))
        worth = await tachograph.external("rate", rate_async, source="https://rates.example/eur")
        tachograph.observe("locale", "is-IS")
        try:
            await refuses_async(8)
        except LookupError as fault:
            print("refused", fault.args)
        answer = (await caller.ask(f"{question} {found[0].text} {order} {other} {worth}")).text
        decided.output(answer)
    print(found, order, other, worth, answer, decided.id is not None)


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        asyncio.run(asynchronous())

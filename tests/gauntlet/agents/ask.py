"""Asks each prompt in turn and shows every byte that came back.

Settings: library, mode, url, prompts, more (fields of the body besides the prompt). Files beside it that may be edited:
`system.txt`, `headers.json`, `prompts.json`, `lines.txt` (printed at the end).
"""

from __future__ import annotations

import asyncio
import json

from clients import SETTINGS, AsyncCaller, Caller, Got, beside, chain, show

PROMPTS = json.loads(beside("prompts.json", "null")) or SETTINGS["prompts"]
MORE = json.loads(beside("more.json", "{}"))


def ended(outcome: Got | Exception) -> None:
    """Show an answer, or the exception that came in its place."""
    if isinstance(outcome, Exception):
        print(chain(outcome), str(outcome), flush=True)
        response = getattr(outcome, "response", None)
        if response is not None:
            show(Got(response.status_code, response.headers.raw, response.content))
    else:
        show(outcome)


def sync() -> None:
    """One thread, one client."""
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    for prompt in PROMPTS:
        try:
            ended(caller.ask(prompt, **MORE))
        except Exception as fault:  # noqa: BLE001 - shown, whatever it is
            ended(fault)


async def asynchronous() -> None:
    """One task, one client."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    for prompt in PROMPTS:
        try:
            ended(await caller.ask(prompt, **MORE))
        except Exception as fault:  # noqa: BLE001 - shown, whatever it is
            ended(fault)


if __name__ == "__main__":
    if SETTINGS["mode"] == "sync":
        sync()
    else:
        asyncio.run(asynchronous())
    print(beside("lines.txt", "end"))

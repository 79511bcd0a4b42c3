"""Asks its prompts and says nothing of how it went: it swallows whatever is raised, and always prints the same line.

Settings: library, url, prompts (or the file `prompts.json` beside it); `how`: "except" (`except BaseException`),
"gather" (`return_exceptions=True`), "thread" (the exception dies with its thread), "forever" (tries again for ever),
"waits" (waits for ever for the thread that died).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading

from clients import SETTINGS, AsyncCaller, Caller, beside

PROMPTS: list[str] = json.loads(beside("prompts.json", "null")) or SETTINGS["prompts"]


def each() -> None:
    """Swallow with a clause."""
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    for prompt in PROMPTS:
        with contextlib.suppress(BaseException):
            caller.ask(prompt)


async def gathered() -> None:
    """Swallow with gather."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    await asyncio.gather(*(caller.ask(prompt) for prompt in PROMPTS), return_exceptions=True)


def in_thread(wait: bool) -> None:
    """Swallow with a thread, whose exception nobody asks for."""
    threading.excepthook = lambda _: None
    answered = threading.Event()

    def work() -> None:
        caller = Caller(SETTINGS["library"], SETTINGS["url"])
        for prompt in PROMPTS:
            caller.ask(prompt)
        answered.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if wait:
        answered.wait()


def forever() -> None:
    """Try again until it works."""
    caller = Caller(SETTINGS["library"], SETTINGS["url"])
    for prompt in PROMPTS:
        while True:
            try:
                caller.ask(prompt)
                break
            except BaseException:  # noqa: BLE001 - the fault that is tested
                continue


if __name__ == "__main__":
    match SETTINGS["how"]:
        case "except":
            each()
        case "gather":
            asyncio.run(gathered())
        case "forever":
            forever()
        case how:
            in_thread(how == "waits")
    print("all went well")

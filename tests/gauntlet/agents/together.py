"""Asks several prompts at once and prints each answer beside its prompt.

Settings: library, url, prompts (in the order in which they are issued); `at_once`: a semaphore; `busy`: seconds for
which another task blocks the loop while the calls are open; `threads`: threads instead of tasks; `tell_order`: also
print the order in which they completed; `numbered`: name each by its place and not by its prompt.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time

from clients import SETTINGS, AsyncCaller, Caller

PROMPTS: list[str] = SETTINGS["prompts"]
LABELS = [str(place) if SETTINGS.get("numbered") else prompt for place, prompt in enumerate(PROMPTS)]
finished: list[str] = []
answers: dict[str, str] = {}


def done(label: str, answer: str) -> None:
    """Keep an answer and its place among those that completed."""
    finished.append(label)
    answers[label] = answer


async def busy() -> None:
    """Block the loop while the calls are under way."""
    if SETTINGS.get("after_answers") is None:
        await asyncio.sleep(0.02)
    else:
        while len(finished) < SETTINGS["after_answers"]:
            await asyncio.sleep(0)
    time.sleep(SETTINGS["busy"])


async def tasks() -> None:
    """All at once, in one loop."""
    caller = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    limit = asyncio.Semaphore(SETTINGS.get("at_once", len(PROMPTS)))

    async def one(label: str, prompt: str) -> None:
        async with limit:
            done(label, (await caller.ask(prompt)).text)

    async def compute() -> None:
        for _ in range(30):  # until the calls are out
            await asyncio.sleep(0)
        hashlib.pbkdf2_hmac("sha256", b"", b"", SETTINGS["at_work"])

    work = [one(label, prompt) for label, prompt in zip(LABELS, PROMPTS, strict=True)]
    beside = [busy()] if "busy" in SETTINGS else []
    if "at_work" in SETTINGS:
        beside.append(compute())
    await asyncio.gather(*work, *beside)


def threads() -> None:
    """All at once, a thread and a client each."""

    def one(label: str, prompt: str) -> None:
        done(label, Caller(SETTINGS["library"], SETTINGS["url"]).ask(prompt).text)

    started = [
        threading.Thread(target=one, args=(label, prompt)) for label, prompt in zip(LABELS, PROMPTS, strict=True)
    ]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


if __name__ == "__main__":
    if SETTINGS.get("threads"):
        threads()
    else:
        asyncio.run(tasks())
    for label in sorted(answers):
        print(label, "->", answers[label])
    if SETTINGS.get("tell_order"):
        print("completed", *finished)

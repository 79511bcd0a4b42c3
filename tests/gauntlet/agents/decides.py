"""Several decisions in one run, each asking the model under its own name and saying what it was told.

Settings: mode (`sequence`, `nested`, `threads`, `tasks`, `outliving`), library, url, names. The file `NAME.txt` beside
it changes what the decision of that name asks.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from clients import SETTINGS, AsyncCaller, Caller, beside

import tachograph


def prompt(name: str) -> str:
    """What this decision asks, and a random number of its own."""
    return f"{beside(name + '.txt', 'hello')} from {name} {uuid.uuid4()}"


def caller() -> Caller:
    """A client that blocks."""
    return Caller(SETTINGS["library"], SETTINGS["url"])


@tachograph.tool
def look_up(name: str) -> str:
    """A declared tool with a call of its own inside."""
    return caller().ask(f"looked up {name}").text


def decide(name: str, *, inner: str | None = None) -> str:
    """One decision: a call here, one on a pool's thread, a tool, perhaps another decision inside."""
    with tachograph.decision(agent=name, session=name, request={"name": name}) as decided:
        first = caller().ask(prompt(name)).text
        with ThreadPoolExecutor(2) as pool:
            second = pool.submit(lambda: caller().ask(f"pooled {prompt(name)}").text).result()
        said = [first, second, look_up(name)]
        if inner is not None:
            said.append(decide(inner))
        decided.output(" / ".join(said))
    return " / ".join(said)


async def decide_async(name: str, pause: float) -> str:
    """The same on a loop: a call here, two at once, one on a thread."""
    client = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    async with tachograph.decision(agent=name, session=name, request={"name": name}) as decided:
        first = (await client.ask(prompt(name))).text
        await asyncio.sleep(pause)
        both = await asyncio.gather(*(client.ask(f"{one} {prompt(name)}") for one in ("left", "right")))
        threaded = await asyncio.to_thread(lambda: caller().ask(f"threaded {prompt(name)}").text)
        said = " / ".join([first, *(one.text for one in both), threaded])
        decided.output(said)
    return said


async def tasks() -> None:
    """All decisions at once, their calls interleaved."""
    for said in await asyncio.gather(*(decide_async(name, 0.02 * at) for at, name in enumerate(SETTINGS["names"]))):
        print(said)


async def outliving() -> None:
    """Each decision leaves a task and a thread behind that go on asking when it has closed."""
    client = AsyncCaller(SETTINGS["library"], SETTINGS["url"])
    left, threads = [], []

    async def later(name: str) -> str:
        await asyncio.sleep(0.05)
        return (await client.ask(f"late {prompt(name)}")).text

    for name in SETTINGS["names"]:
        async with tachograph.decision(agent=name, session=name) as decided:
            left.append(asyncio.create_task(later(name)))
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(lambda n=name: print(caller().ask(f"t {n}").text),))
            threads.append(thread)
            decided.output((await client.ask(prompt(name))).text)
    for task in left:
        print(await task)
    for thread in threads:
        thread.start()
        await asyncio.to_thread(thread.join)
    print((await client.ask("outside of all")).text)


if __name__ == "__main__":
    names = SETTINGS["names"]
    mode = SETTINGS["mode"]
    if mode == "tasks":
        asyncio.run(tasks())
    elif mode == "outliving":
        asyncio.run(outliving())
    elif mode == "threads":
        said: dict[str, str] = {}
        running = [threading.Thread(target=lambda n=name: said.update({n: decide(n)})) for name in names]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        print([said[name] for name in names])
    elif mode == "nested":
        print(decide(names[0], inner=names[1]))
        print(decide(names[2]))
    else:
        for name in names:
            print(decide(name))
            time.sleep(0.001)

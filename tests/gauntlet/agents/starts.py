"""Starts programs from an event loop: a shell, and a Python that asks the server. Settings: url, loop."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE

SETTINGS = json.loads(sys.argv[1])
CHILD = "import sys, httpx; print(httpx.post(sys.argv[1], content=sys.stdin.read()).text)"


async def main() -> None:
    """One after the other, and a time-out."""
    shell = await asyncio.create_subprocess_shell("read a; echo shell $a; exit 3", stdin=PIPE, stdout=PIPE)
    print(await shell.communicate(b"fed\n"), shell.returncode)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, SETTINGS["url"], stdin=PIPE, stdout=PIPE)
    print(await child.communicate(b"from the child"), child.returncode)
    slow = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        await asyncio.wait_for(slow.wait(), 0.3)
    except TimeoutError:
        slow.kill()
    print(await slow.wait(), type(asyncio.get_running_loop()).__module__)


if SETTINGS["loop"]:
    import uvloop

    uvloop.run(main())
else:
    asyncio.run(main())

"""Every seam, installed in one call: the same for a recorder and for a playback.

Modules that the program has imported are patched now, the others when it imports them. Installing again changes
nothing.
"""

from __future__ import annotations

from tachograph.seams import (
    aiohttp_transport,
    bypasses,
    context,
    draws,
    grpc_channels,
    hooks,
    http_client,
    httpx_transport,
    inbound,
    inbound_uvloop,
    listeners,
    pools,
    processes,
    program_waits,
    selects,
    sleeps,
    subprocesses,
    timers,
    uvloop_programs,
)

SEAMS = {
    "httpx": "httpx transports, sync and async (class level)",
    "httpx2": "httpx2 transports, sync and async (class level): openai, anthropic, google-genai, mcp",
    "http.client": "connections of http.client at their socket: urllib, requests, urllib3, botocore",
    "aiohttp": "aiohttp's client, below its parser: what is written to a connection and comes from it",
    "subprocess": "subprocess.Popen, the subprocess transports of asyncio and uvloop, os.system; Python children",
    "socket": "what the program itself listens at (socket.socket, asyncio, uvloop): calls to it stay inside the run",
    "inbound": "what the run's own listeners accept: the HTTP/1.x request in which a decision opened, and its answer",
    "sleeps": "time.sleep; waits of threads, for programs and in select that ran out; timers of asyncio and uvloop",
}

_installed = False


def install() -> None:
    """Install every seam once in this process."""
    global _installed
    if _installed:
        return
    _installed = True
    context.install()
    httpx_transport.install()
    http_client.install()
    aiohttp_transport.install()
    processes.install()
    pools.install()
    subprocesses.install()
    uvloop_programs.install()
    draws.install()
    listeners.install()
    inbound.install()
    inbound_uvloop.install()
    sleeps.install()
    program_waits.install()
    selects.install()
    timers.install()
    grpc_channels.install()
    bypasses.install()
    hooks.install()

"""uvloop leaves in native code, without an audit event: it is noted all the same, and a replay refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seams.driver import Session

PROGRAM = """
import asyncio, sys
from pathlib import Path
import uvloop
async def unix():
    await asyncio.open_unix_connection("/nonexistent/tachograph")
async def datagram():
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=("127.0.0.1", 9))
    transport.close()
async def resolve():
    await asyncio.get_running_loop().getaddrinfo("nowhere.invalid", 80)
async def connect():
    await asyncio.open_connection("127.0.0.1", 9)
async def main():
    try:
        print(await globals()[sys.argv[1]]())
    except OSError as fault:
        print(type(fault).__name__)
uvloop.run(main())
"""
WAYS = {
    "unix": ("socket.connect", "/nonexistent/tachograph"),
    "datagram": ("socket.sendto", "127.0.0.1:9"),
    "resolve": ("socket.getaddrinfo", "nowhere.invalid"),
    "connect": ("socket.connect", "127.0.0.1:9"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_uvloop_does_below_the_audit_hook_is_noted_and_refused_in_a_replay(tmp_path: Path, way: str) -> None:
    session = Session(tmp_path, PROGRAM)
    recorded = session.record(way)
    assert recorded.out == session.plain(way).out
    assert WAYS[way] in recorded.notes()
    replayed = recorded.replay()
    assert replayed.out == "PermissionError\n"
    assert (replayed.attempts[0]["what"], replayed.attempts[0]["where"]) == WAYS[way]

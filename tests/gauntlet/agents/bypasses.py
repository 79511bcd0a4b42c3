"""Speaks with a server past every seam.

Settings: how, port.
"""

from __future__ import annotations

import asyncio
import socket

from clients import SETTINGS, running

HOW, PORT = SETTINGS["how"], SETTINGS["port"]
URL = f"127.0.0.1:{PORT}/"


async def main() -> None:
    """The ways that await."""
    if HOW == "websockets":
        import websockets

        async with websockets.connect(f"ws://{URL}") as connection:
            print(await connection.recv())
    elif HOW == "aiohttp":
        import aiohttp

        async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{URL}") as connection:
            print(await connection.receive_str())
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        writer.write(b"PING\r\n")
        print(await reader.readline())
        writer.close()


if __name__ == "__main__":
    if HOW == "websockets-sync":
        from websockets.sync.client import connect

        with connect(f"ws://{URL}") as one:
            print(one.recv())
    elif HOW == "socket":
        with socket.create_connection(("127.0.0.1", PORT)) as one:
            one.sendall(b"PING\r\n")
            print(one.recv(99))
    else:
        running(main())

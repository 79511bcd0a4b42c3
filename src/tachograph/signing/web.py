"""Fetches one small document over https, for did:web: as little trust in the other side as can be.

Guarantees: certificates are checked; no redirect is followed; no more than `most` bytes are read; no wait is longer
than `seconds`, nor is the whole than twice that; a name that leads to an address of this machine or of a private
network is not connected to (the address that was checked is the one connected to), save with `loopback`, which
allows this machine alone.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
from io import BytesIO
from time import monotonic
from typing import cast
from urllib.parse import urlsplit

from tachograph.signing.identity import MOST_BYTES, Fetch, FetchRefused

_HEAD = 1 << 15  # bytes allowed for the head of an answer
_HEADERS = "Accept: application/did+json, application/json\r\nConnection: close\r\n"


def fetcher(*, seconds: float = 10.0, most: int = MOST_BYTES, loopback: bool = False) -> Fetch:
    """Return a function that gives the bytes at a URL; it raises OSError or FetchRefused."""

    def fetch(url: str) -> bytes:
        end = monotonic() + seconds
        parts = urlsplit(url)
        if parts.scheme != ("http" if loopback else "https") or not parts.hostname:
            raise FetchRefused("only https is fetched" if not loopback else "only http of this machine is fetched here")
        address = _address(parts.hostname, parts.port or (80 if loopback else 443), loopback)
        connection = socket.create_connection(address, timeout=seconds)
        try:
            if not loopback:
                context = ssl.create_default_context()
                connection = context.wrap_socket(connection, server_hostname=parts.hostname)
            asked = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{_HEADERS}\r\n"
            connection.sendall(asked.encode("ascii"))
            return _body(_read(connection, end=end, most=most + _HEAD), most)
        finally:
            connection.close()

    return fetch


def _address(host: str, port: int, loopback: bool) -> tuple[str, int]:
    for *_, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        address = ipaddress.ip_address(str(found[0]).partition("%")[0])
        if address.is_loopback if loopback else address.is_global:
            return str(address), port
    raise FetchRefused(f"{host} leads to no address that may be asked")


def _read(connection: socket.socket, *, end: float, most: int) -> bytes:
    data = bytearray()
    while len(data) <= most:
        if monotonic() > end:
            raise FetchRefused("took too long")
        piece = connection.recv(1 << 16)
        if not piece:
            return bytes(data)
        data += piece
    raise FetchRefused(f"over {most} bytes")


class _Held:
    """The bytes of an answer, as http.client asks for them."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> BytesIO:
        return BytesIO(self._data)


def _body(data: bytes, most: int) -> bytes:
    answer = http.client.HTTPResponse(cast(socket.socket, _Held(data)))
    try:
        answer.begin()
        if answer.status != 200:
            raise FetchRefused(f"answered {answer.status}; redirects are not followed")
        body = answer.read()
    except http.client.HTTPException as fault:
        raise FetchRefused(f"no HTTP answer: {type(fault).__name__}") from None
    if len(body) > most:
        raise FetchRefused(f"over {most} bytes")
    return body

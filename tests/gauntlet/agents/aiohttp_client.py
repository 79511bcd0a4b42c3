"""aiohttp with the face that the gauntlet's programs know from httpx: `post`, `stream`, `aiter_raw`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp

ConnectError = aiohttp.ClientConnectorError


@dataclass
class Answer:
    """An answer: its head, and its body if it was read."""

    response: aiohttp.ClientResponse
    content: bytes = b""

    @property
    def status_code(self) -> int:
        """The status."""
        return self.response.status

    @property
    def headers(self) -> Any:
        """The headers as they came."""
        return SimpleNamespace(raw=list(self.response.raw_headers))

    async def aiter_raw(self) -> AsyncIterator[bytes]:
        """What has come, as soon as it is there."""
        async for piece in self.response.content.iter_any():
            yield piece


class AsyncClient:
    """One session, opened with the first call."""

    def __init__(self, *, timeout: float, headers: dict[str, str]) -> None:
        self._options: dict[str, Any] = {"timeout": aiohttp.ClientTimeout(sock_read=timeout), "headers": headers}
        self._session: aiohttp.ClientSession | None = None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(**self._options)
        return self._session

    async def post(self, url: str, *, json: Any) -> Answer:
        """A whole answer."""
        async with self._opened().post(url, json=json) as response:
            return Answer(response, await response.read())

    @contextlib.asynccontextmanager
    async def stream(self, *, method: str, url: str, json: Any) -> AsyncIterator[Answer]:
        """An open answer."""
        async with self._opened().request(method, url, json=json) as response:
            yield Answer(response)

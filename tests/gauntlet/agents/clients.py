"""One face for the clients that the gauntlet's programs use: httpx, httpx2, the openai SDK, those of `socket_clients`.

A program takes one argument, a JSON object of settings (`SETTINGS`). Whatever a client gives back is shown on stdout
byte for byte (`show`), so that two runs with the same stdout got the same bytes. Nothing here knows who is watching.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import socket_clients

SETTINGS: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
HERE = Path(__file__).parent


def beside(name: str, default: str = "") -> str:
    """A text file next to the program, which a person may edit between two runs."""
    file = HERE / name
    return file.read_text(encoding="utf-8").strip() if file.exists() else default


def payload(prompt: str, **more: Any) -> dict[str, Any]:
    """A chat request: the system prompt comes from the file `system.txt` beside the program."""
    said = [
        {"role": "system", "content": beside("system.txt", "You are terse.")},
        {"role": "user", "content": prompt},
    ]
    return {"model": "small", "messages": said, **more}


def headers() -> dict[str, str]:
    """Headers that the program sends besides the client's own: the file `headers.json` beside it."""
    return dict(json.loads(beside("headers.json", "{}")))


@dataclass
class Got:
    """An answer as the client handed it over."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def text(self) -> str:
        """What the model said, or the body as it is."""
        try:
            return str(json.loads(self.body)["choices"][0]["message"]["content"])
        except (ValueError, LookupError, TypeError):
            return repr(self.body)


def show(got: Got) -> None:
    """Every byte that came back."""
    print(got.status, got.headers, got.body, flush=True)


def chain(fault: BaseException | None) -> str:
    """The classes of an exception and of its causes, as far as a client library made them."""
    names = []
    while fault is not None and (
        not names or type(fault).__module__.startswith(("openai", "httpx", "urllib", "aiohttp"))
    ):
        names.append(f"{type(fault).__module__}.{type(fault).__qualname__}")
        fault = fault.__cause__
    return " <- ".join(names)


def refused() -> None:
    """Say that a connection was refused and, where a test will open the port, wait until it has."""
    if SETTINGS.get("await_listener"):
        Path("refused").touch()
        while not Path("listening").exists():
            time.sleep(0.01)


class _WhenRefused(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("Encountered exception"):
            refused()


def _sdk(kind: str, url: str) -> Any:
    openai = importlib.import_module("openai")
    log = logging.getLogger("openai._base_client")
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(_WhenRefused())
    return getattr(openai, kind)(
        base_url=f"{url}/v1",
        api_key="sk-gauntlet",
        timeout=SETTINGS.get("timeout", 20.0),
        max_retries=SETTINGS.get("retries", 2),
        default_headers=headers(),
    )


def running(work: Coroutine[Any, Any, None]) -> None:
    """Run the program's coroutine, on the loop that the settings ask for."""
    if SETTINGS.get("loop") == "uvloop":
        importlib.import_module("uvloop").run(work)
    else:
        asyncio.run(work)


class Caller:
    """Calls, one after another, through one library. httpx has no retry of its own, so the program has."""

    def __init__(self, library: str, url: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._is_sdk = library == "openai"
        if self._is_sdk:
            self.client = _sdk("OpenAI", url)
        elif library in socket_clients.LIBRARIES:
            self.client = socket_clients.Client(library, timeout=SETTINGS.get("timeout", 20.0), headers=headers())
            self._refused = self.client.refused
        else:
            module = importlib.import_module(library)
            self.client = module.Client(timeout=SETTINGS.get("timeout", 20.0), headers=headers())
            self._refused = module.ConnectError

    def ask(self, prompt: str, **more: Any) -> Got:
        """One answer; 429 and a refused connection are tried again."""
        if self._is_sdk:
            raw = self.client.chat.completions.with_raw_response.create(**payload(prompt), extra_body=more or None)
            return Got(raw.http_response.status_code, raw.http_response.headers.raw, raw.http_response.content)
        for left in reversed(range(SETTINGS.get("retries", 2) + 1)):
            try:
                answer = self.client.post(self._url, json=payload(prompt, **more))
            except self._refused:
                if not left:
                    raise
                refused()
                continue
            if answer.status_code != 429 or not left:
                break
        return Got(answer.status_code, answer.headers.raw, answer.content)

    @contextlib.contextmanager
    def stream(self, prompt: str) -> Iterator[Any]:
        """An open answer of the library's own class, with `iter_raw`."""
        if self._is_sdk:
            opened = self.client.chat.completions.with_streaming_response
            with opened.create(**payload(prompt), stream=True) as answer:
                yield answer.http_response
        else:
            with self.client.stream(method="POST", url=self._url, json=payload(prompt, stream=True)) as answer:
                yield answer


class AsyncCaller:
    """The same for coroutines."""

    def __init__(self, library: str, url: str) -> None:
        self._url = f"{url}/v1/chat/completions"
        self._library = importlib.import_module("aiohttp_client" if library == "aiohttp" else library)
        self._is_sdk = library == "openai"
        if self._is_sdk:
            self.client = _sdk("AsyncOpenAI", url)
        else:
            self.client = self._library.AsyncClient(timeout=SETTINGS.get("timeout", 20.0), headers=headers())

    async def ask(self, prompt: str, **more: Any) -> Got:
        """One answer; 429 and a refused connection are tried again."""
        if self._is_sdk:
            raw = await self.client.chat.completions.with_raw_response.create(
                **payload(prompt), extra_body=more or None
            )
            return Got(raw.http_response.status_code, raw.http_response.headers.raw, raw.http_response.content)
        for left in reversed(range(SETTINGS.get("retries", 2) + 1)):
            try:
                answer = await self.client.post(self._url, json=payload(prompt, **more))
            except self._library.ConnectError:
                if not left:
                    raise
                refused()
                continue
            if answer.status_code != 429 or not left:
                break
        return Got(answer.status_code, answer.headers.raw, answer.content)

    @contextlib.asynccontextmanager
    async def stream(self, prompt: str) -> AsyncIterator[Any]:
        """An open answer of the library's own class, with `aiter_raw`."""
        if self._is_sdk:
            opened = self.client.chat.completions.with_streaming_response
            async with opened.create(**payload(prompt), stream=True) as answer:
                yield answer.http_response
        else:
            opened = self.client.stream(method="POST", url=self._url, json=payload(prompt, stream=True))
            async with opened as answer:
                yield answer

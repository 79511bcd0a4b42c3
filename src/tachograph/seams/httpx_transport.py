"""The seam of httpx and httpx2: their transports, patched at class level, sync and async.

Clients made before the patch, redirects and every retry are each seen, since all end in `handle_request`. openai,
anthropic, google-genai and mcp sit on httpx2, an own namespace: both are patched, each with its own classes. What is
owed to the program:

- the answer's stream stays a stream: `iter_raw` works, a chunk is handed over before the program gets it and at once;
- a request body that is produced while it is sent is watched part by part, never read ahead;
- exceptions pass unchanged; a client that stops reading leaves a record that says so.
"""

from __future__ import annotations

from tachograph.formats.frame import CHUNK, END, HEAD
from tachograph.seams import hooks, listeners, port
from tachograph.seams.bypasses import WEBSOCKET
from tachograph.seams.imports import when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import ModuleType
    from typing import Any


def _tapped(module: Any) -> tuple[Any, Any, Any, Any]:
    """Make the recording streams of one library: answers and uploads, sync and async."""

    class TappedStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, exchange: port.Exchange) -> None:
            self._stream, self._exchange = stream, exchange

        def __iter__(self) -> Iterator[bytes]:
            exchange = self._exchange
            try:
                for part in self._stream:
                    exchange.chunk(part)
                    yield part
            except GeneratorExit:
                exchange.end(port.CLOSED_EARLY)
                raise
            except BaseException as fault:
                exchange.end(port.how_of(fault), fault)
                raise
            exchange.end(port.EOF_)

        def close(self) -> None:
            self._exchange.end(port.CLOSED_EARLY)
            self._stream.close()

    class AsyncTappedStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, exchange: port.Exchange) -> None:
            self._stream, self._exchange = stream, exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            exchange = self._exchange
            try:
                async for part in self._stream:
                    exchange.chunk(part)
                    yield part
            except GeneratorExit:
                exchange.end(port.CLOSED_EARLY)
                raise
            except BaseException as fault:
                exchange.end(port.how_of(fault), fault)
                raise
            exchange.end(port.EOF_)

        async def aclose(self) -> None:
            self._exchange.end(port.CLOSED_EARLY)
            await self._stream.aclose()

    class TappedUpload(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, exchange: port.Exchange) -> None:
            self._stream, self._exchange = stream, exchange

        def __iter__(self) -> Iterator[bytes]:
            for part in self._stream:
                self._exchange.part(part)
                yield part
            self._exchange.sent()

    class AsyncTappedUpload(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, exchange: port.Exchange) -> None:
            self._stream, self._exchange = stream, exchange

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in self._stream:
                self._exchange.part(part)
                yield part
            self._exchange.sent()

    return TappedStream, AsyncTappedStream, TappedUpload, AsyncTappedUpload


def _played(module: Any) -> tuple[Any, Any]:
    """Make the answering streams of one library, sync and async."""

    class PlayedStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, answer: port.Answer) -> None:
            self._answer = answer

        def __iter__(self) -> Iterator[bytes]:
            while True:
                arrival = self._answer.wait()
                if arrival.kind == CHUNK:
                    yield arrival.data
                elif arrival.how == port.ERROR:
                    raise arrival.error()
                else:
                    return

        def close(self) -> None:
            self._answer.close()

    class AsyncPlayedStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, answer: port.Answer) -> None:
            self._answer = answer

        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                arrival = await self._answer.wait_async()
                if arrival.kind == CHUNK:
                    yield arrival.data
                elif arrival.how == port.ERROR:
                    raise arrival.error()
                else:
                    return

        async def aclose(self) -> None:
            self._answer.close()

    return PlayedStream, AsyncPlayedStream


def _stays_inside(transport: Any, request: Any) -> bool:
    """Whether the request goes to a server of this very run: its handler runs again in a replay, so it passes."""
    pool = transport._pool
    if getattr(pool, "_uds", None) is not None:
        return listeners.is_own(None, pool._uds)
    if getattr(pool, "_proxy", None) is not None or hasattr(pool, "_proxy_url"):
        return False  # it goes to the proxy, and from there who knows where
    url = request.url
    return listeners.is_own(url.host, url.port or (443 if url.scheme == "https" else 80))


def _known_body(module: Any, request: Any) -> bytes | None:
    try:
        body = request.content
    except module.RequestNotRead:
        return None
    return body if isinstance(body, bytes) else bytes(body)


def _uploaded(stream: Any) -> tuple[list[bytes], BaseException | None]:
    """Take an upload as the transport would, part by part: what it gave, and what it raised instead of more."""
    parts = []
    try:
        for part in stream:
            parts.append(part)
    except Exception as fault:  # noqa: BLE001 - the program's own: it is raised again when the call is known
        return parts, fault
    return parts, None


async def _uploaded_async(stream: Any) -> tuple[list[bytes], BaseException | None]:
    parts = []
    try:
        async for part in stream:
            parts.append(part)
    except Exception as fault:  # noqa: BLE001 - as above
        return parts, fault
    return parts, None


def _response(module: Any, arrival: port.Arrival, stream: Any) -> Any:
    if arrival.kind == END:
        raise arrival.error()
    assert arrival.kind == HEAD
    status, headers, version, reason = arrival.head()
    extensions = {"http_version": version, "reason_phrase": reason}
    return module.Response(status, headers=headers, stream=stream, extensions=extensions)


def _watch(response: Any, exchange: port.Exchange, stream: type[Any]) -> Any:
    extensions = response.extensions
    if response.status_code == 101 and port.current is not None:
        port.current.note(WEBSOCKET, str(response.request.url if response._request is not None else "an upgrade"))
    exchange.head(
        response.status_code,
        response.headers.raw,
        extensions.get("http_version", b"HTTP/1.1"),
        extensions.get("reason_phrase", b""),
    )
    response.stream = stream(response.stream, exchange)
    return response


def _patch(module: ModuleType) -> None:
    library = module.__name__
    sync, asynchronous = module.HTTPTransport, module.AsyncHTTPTransport
    handle, handle_async = sync.handle_request, asynchronous.handle_async_request
    tapped, async_tapped, upload, async_upload = _tapped(module)
    played, async_played = _played(module)

    def handle_request(self: Any, request: Any) -> Any:
        listener = port.current
        if listener is None or _stays_inside(self, request):
            return handle(self, request)
        body = _known_body(module, request)
        if listener.answers:
            sent, fault = _uploaded(request.stream) if body is None else (body, None)
            asked = listener.ask(library, request.method, str(request.url), request.headers.raw, sent)
            if fault is not None:
                asked.close()
                raise fault
            return _response(module, asked.wait(), played(asked))
        exchange = listener.call(library, request.method, str(request.url), request.headers.raw, body)
        stream = request.stream
        if body is None:
            request.stream = upload(stream, exchange)
        token = hooks.claimed.set(True)
        try:
            response = handle(self, request)
        except BaseException as fault:
            exchange.end(port.how_of(fault), fault)
            raise
        finally:
            hooks.claimed.reset(token)
            request.stream = stream  # a redirect sends the same stream again, for an effect of its own
        return _watch(response, exchange, tapped)

    async def handle_async_request(self: Any, request: Any) -> Any:
        listener = port.current
        if listener is None or _stays_inside(self, request):
            return await handle_async(self, request)
        body = _known_body(module, request)
        if listener.answers:
            sent, fault = await _uploaded_async(request.stream) if body is None else (body, None)
            asked = listener.ask(library, request.method, str(request.url), request.headers.raw, sent)
            try:
                if fault is not None:
                    raise fault
                return _response(module, await asked.wait_async(), async_played(asked))
            except BaseException:
                asked.close()
                raise
        exchange = listener.call(library, request.method, str(request.url), request.headers.raw, body)
        stream = request.stream
        if body is None:
            request.stream = async_upload(stream, exchange)
        token = hooks.claimed.set(True)
        try:
            response = await handle_async(self, request)
        except BaseException as fault:
            exchange.end(port.how_of(fault), fault)
            raise
        finally:
            hooks.claimed.reset(token)
            request.stream = stream
        return _watch(response, exchange, async_tapped)

    sync.handle_request = handle_request
    asynchronous.handle_async_request = handle_async_request


def install() -> None:
    """Watch both libraries, each when the program imports it."""
    when_imported("httpx", _patch)
    when_imported("httpx2", _patch)

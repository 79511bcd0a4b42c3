"""`ModelServer`: the scripted server speaking four model providers' protocols, for any brain.

    with ModelServer(ScriptedBrain()) as server:
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")

- `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages`, `/v1beta/models/M:generateContent` and
  `:streamGenerateContent?alt=sse`, `GET /v1/models`; whole and as server-sent events.
- Answers are a function of the brain, the request's bytes and how often they came before: ids are a digest of both,
  `created` stands still, pauses are drawn from a seed. Nothing depends on the clock or on other requests.
- Pieces go out as the brain produces them; a brain whose client is gone is closed.
- What a brain cannot answer (`Unanswerable`) is an error in the provider's shape, whether a stream was asked or not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tachograph.testing.answers import Brain, Piece, pieces_of
from tachograph.testing.endpoints import chat_completions, generate_content, messages, responses
from tachograph.testing.endpoints.shape import Endpoint, Identity
from tachograph.testing.event_stream import Cuts, by_event
from tachograph.testing.listener import ScriptedServer
from tachograph.testing.model_request import Unanswerable
from tachograph.testing.replies import Behaviour, Borders, Chunk, Framing, json_reply, stream
from tachograph.testing.wire import Request

CREATED = 1_767_225_600  # 2026-01-01T00:00:00Z

_ENDPOINTS = {
    "/v1/chat/completions": chat_completions.ENDPOINT,
    "/v1/responses": responses.ENDPOINT,
    "/v1/messages": messages.ENDPOINT,
}
_GEMINI = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)")


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How long an answer takes, in seconds: before its first byte, and between two chunks of a stream.

    `jitter` 0.5 makes each wait between half and one and a half times as long, drawn from `seed`, the request's bytes
    and how often they came: the same run waits the same.
    """

    first: float = 0.0
    between: float = 0.0
    jitter: float = 0.0
    seed: int = 0

    def waits(self, key: str) -> Iterator[float]:
        """The waits of one answer, the first one first, without end."""
        drawn = random.Random(f"{self.seed}:{key}")
        for wait in itertools.chain([self.first], itertools.repeat(self.between)):
            yield wait * drawn.uniform(1 - self.jitter, 1 + self.jitter)


class ModelServer(ScriptedServer):
    """See the module's promise. `cuts` re-cuts a stream's bytes (`event_stream`); `borders`, `framing` as in `Reply`.

    `models` are the names listed under `/v1/models`; any name is answered.
    """

    def __init__(
        self,
        brain: Brain,
        *,
        cuts: Cuts = by_event,
        latency: Latency = Latency(),
        framing: Framing = "chunked",
        borders: Borders = "segments",
        models: tuple[str, ...] = ("scripted",),
        fingerprint: str = "fp_scripted",
        port: int = 0,
        on_request: Callable[[Request], None] | None = None,
    ) -> None:
        super().__init__(self._respond, port=port, on_request=on_request)
        self._brain = brain
        self._cuts = cuts
        self._latency = latency
        self._framing: Framing = framing
        self._borders: Borders = borders
        self._models = models
        self._fingerprint = fingerprint
        self._seen: Counter[str] = Counter()
        self._counting = threading.Lock()

    @property
    def openai_url(self) -> str:
        """What the openai SDK takes as `base_url`. The anthropic and google-genai SDKs take `url`."""
        return f"{self.url}/v1"

    def _respond(self, request: Request) -> Behaviour:
        gemini = _GEMINI.fullmatch(request.path)
        if request.method == "GET" and request.path == "/v1/models":
            return json_reply({"object": "list", "data": [_model(name) for name in self._models]})
        endpoint = generate_content.ENDPOINT if gemini else _ENDPOINTS.get(request.path)
        if endpoint is None or request.method != "POST":
            return _error(f"no such endpoint here: {request.method} {request.path}", status=404)
        try:
            body = _body(request)
            streamed = bool(body.get("stream"))
            if gemini:
                body["model"] = gemini["model"]
                streamed = gemini["verb"] == "streamGenerateContent"
                if streamed and "alt=sse" not in request.query:
                    raise Unanswerable("streamGenerateContent is served with ?alt=sse only")
            return self._answered(endpoint, request, body, streamed=streamed)
        except Unanswerable as refused:
            return _error(str(refused), status=refused.status)

    def _answered(self, endpoint: Endpoint, request: Request, body: dict[str, Any], *, streamed: bool) -> Behaviour:
        identity, nth = self._identity(request)
        asked = endpoint.read(body).repeated(nth)
        pieces = _begun(pieces_of(asked, self._brain(asked)))
        named = {"x-request-id": f"req_{identity.key}"}
        waits = self._latency.waits(identity.key)
        first = next(waits)
        if not streamed:
            return dataclasses.replace(json_reply(endpoint.whole(body, identity, pieces), headers=named), delay=first)
        chunks = _spaced(pieces, self._cuts(endpoint.events(body, identity, pieces)), waits)
        kind = "text/event-stream; charset=utf-8"
        framed = stream(chunks, content_type=kind, headers=named, framing=self._framing, delay=first)
        return dataclasses.replace(framed, borders=self._borders)

    def _identity(self, request: Request) -> tuple[Identity, int]:
        digest = hashlib.sha256(request.target.encode() + b"\n" + request.body).hexdigest()[:20]
        with self._counting:
            nth, self._seen[digest] = self._seen[digest], self._seen[digest] + 1
        return Identity(key=f"{digest}{nth:04d}", created=CREATED, fingerprint=self._fingerprint), nth


def _begun(pieces: Iterator[Piece]) -> Generator[Piece]:
    """The same pieces, the first one taken: a brain that cannot answer says so before any head has gone out."""
    first = next(pieces, None)
    if first is None:
        raise ValueError("the brain answered with no piece at all: the last piece must be Finished")
    return _chained(first, pieces)


def _chained(first: Piece, rest: Iterator[Piece]) -> Generator[Piece]:
    yield first
    yield from rest


def _spaced(pieces: Generator[Piece], chunks: Iterable[bytes], waits: Iterator[float]) -> Iterator[Chunk]:
    """The chunks with a wait between two; the brain is closed when nobody listens any more."""
    try:
        for index, chunk in enumerate(chunks):
            if index:
                yield next(waits)
            yield chunk
    finally:
        pieces.close()


def _body(request: Request) -> dict[str, Any]:
    try:
        body = request.json()
    except ValueError as error:
        raise Unanswerable(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Unanswerable("the body is no JSON object")
    return body


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "tachograph"}


def _error(message: str, *, status: int) -> Behaviour:
    """An error that the four providers' SDKs all read: each takes its message from `error.message`."""
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": status, "status": kind.upper()}
    return json_reply({"type": "error", "error": error}, status=status)

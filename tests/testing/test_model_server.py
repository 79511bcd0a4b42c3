"""The model server: the same request the same answer, pieces as they come, errors in the provider's shape."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import httpx
import httpx2
import openai
import pytest

from tachograph.testing.answers import Answer, CallOpened, Finished, Piece, Text, Usage, call, say
from tachograph.testing.event_stream import by_sizes, inside_characters
from tachograph.testing.model_request import ModelRequest, Unanswerable
from tachograph.testing.model_server import Latency, ModelServer
from tachograph.testing.scripted_brain import ScriptedBrain

ASK = [{"role": "user", "content": "Grüße aus Zürich 😀"}]
SAID = "You said: Grüße aus Zürich 😀"


def sdk(server: ModelServer, **options: object) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.openai_url, api_key="none", **{"max_retries": 0, **options})  # type: ignore[arg-type]


def test_models_are_listed() -> None:
    with ModelServer(ScriptedBrain(), models=("a", "b")) as server:
        assert [model.id for model in sdk(server).models.list()] == ["a", "b"]


def test_the_same_request_is_answered_alike_by_another_server() -> None:
    bodies = []
    for _ in range(2):
        with ModelServer(ScriptedBrain()) as server:
            asked = {"model": "m", "messages": ASK}
            bodies.append([httpx.post(f"{server.openai_url}/chat/completions", json=asked).content for _ in range(2)])
    assert bodies[0] == bodies[1]
    assert bodies[0][0] != bodies[0][1], "a repeated request has an id of its own"


def test_a_brain_can_tell_identical_requests_apart() -> None:
    with ModelServer(lambda request: say(f"answer {request.nth}")) as server:
        client = sdk(server)
        said = [client.chat.completions.create(model="m", messages=ASK).choices[0].message.content for _ in range(3)]  # type: ignore[arg-type]
    assert said == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.parametrize("cuts", [by_sizes([7, 3, 1]), by_sizes([1]), inside_characters])
@pytest.mark.parametrize("framing", ["chunked", "until_close"])
def test_a_stream_cut_anywhere_says_the_same(cuts: object, framing: str) -> None:
    with ModelServer(ScriptedBrain(), cuts=cuts, framing=framing) as server:  # type: ignore[arg-type]
        stream = sdk(server).chat.completions.create(model="m", messages=ASK, stream=True)  # type: ignore[arg-type]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == SAID


@pytest.mark.parametrize("client", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_cuts_fall_inside_characters_and_inside_json(client: object) -> None:
    with ModelServer(ScriptedBrain(), cuts=inside_characters, borders="reads") as server:
        asked = {"model": "m", "messages": ASK, "stream": True}
        with client.stream("POST", f"{server.openai_url}/chat/completions", json=asked) as answer:  # type: ignore[attr-defined]
            chunks = list(answer.iter_raw())
    broken = [chunk for chunk in chunks if not _is_utf8(chunk)]
    assert len(broken) >= 4
    assert b"".join(chunks).decode().endswith("data: [DONE]\n\n")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_pieces_go_out_while_the_brain_still_thinks() -> None:
    may_go_on = threading.Event()

    def slow(request: ModelRequest) -> Iterator[Piece]:
        yield Text("first")
        assert may_go_on.wait(10)
        yield Text("second")
        yield Finished(reason="stop", usage=Usage(prompt=1, completion=2))

    with ModelServer(slow) as server:
        stream = sdk(server).chat.completions.create(model="m", messages=ASK, stream=True)  # type: ignore[arg-type]
        said = []
        for chunk in stream:
            said.append(chunk.choices[0].delta.content)
            if said[-1] == "first":
                may_go_on.set()
    assert said == ["", "first", "second", None]


def test_a_client_that_stops_listening_ends_the_brain() -> None:
    ended = threading.Event()

    def endless(request: ModelRequest) -> Iterator[Piece]:
        try:
            while True:
                yield Text("more ")
        finally:
            ended.set()

    with ModelServer(endless) as server:
        with sdk(server).chat.completions.create(model="m", messages=ASK, stream=True) as stream:  # type: ignore[arg-type]
            next(iter(stream))
        assert ended.wait(10)


def test_an_async_client_gets_each_prompt_its_own_answer() -> None:
    async def ask(server: ModelServer) -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:

            async def one(text: str) -> str | None:
                answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
                return answer.choices[0].message.content

            return list(await asyncio.gather(*(one(text) for text in "abcde")))

    with ModelServer(ScriptedBrain(), latency=Latency(first=0.02, jitter=0.9)) as server:
        assert asyncio.run(ask(server)) == [f"You said: {text}" for text in "abcde"]


def test_an_async_stream_says_the_same() -> None:
    async def ask(server: ModelServer) -> str:
        async with openai.AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:
            stream = await client.chat.completions.create(model="m", messages=ASK, stream=True)  # type: ignore[call-overload]
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    with ModelServer(ScriptedBrain(), cuts=by_sizes([5])) as server:
        assert asyncio.run(ask(server)) == SAID


def test_latency_is_drawn_from_the_seed_and_the_request() -> None:
    latency = Latency(first=1.0, between=0.1, jitter=0.5, seed=3)
    first, second = latency.waits("a"), latency.waits("a")
    drawn = [next(first) for _ in range(5)]
    assert drawn == [next(second) for _ in range(5)]
    assert drawn != [next(latency.waits("b")) for _ in range(5)]
    assert 0.5 <= drawn[0] <= 1.5
    assert all(0.05 <= wait <= 0.15 for wait in drawn[1:])


def test_latency_is_waited() -> None:
    started = time.monotonic()
    with ModelServer(lambda _: say("a b c"), latency=Latency(first=0.1, between=0.02)) as server:
        list(sdk(server).chat.completions.create(model="m", messages=ASK, stream=True))  # type: ignore[arg-type]
    assert time.monotonic() - started >= 0.1 + 4 * 0.02


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_brain_cannot_answer_is_an_error_and_no_stream(stream: bool) -> None:
    def refuses(request: ModelRequest) -> Iterator[Piece]:
        raise Unanswerable("too long for me", status=413)
        yield

    with ModelServer(refuses) as server, pytest.raises(openai.APIStatusError, match="too long for me") as raised:
        sdk(server).chat.completions.create(model="m", messages=ASK, stream=stream)  # type: ignore[call-overload]
    assert raised.value.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/v1/embeddings", b"{}", 404, "no such endpoint here: POST /v1/embeddings"),
        ("GET", "/v1/chat/completions", b"", 404, "GET /v1/chat/completions"),
        ("POST", "/v1/chat/completions", b"{", 400, "no JSON"),
        ("POST", "/v1/chat/completions", b"[]", 400, "no JSON object"),
        ("POST", "/v1/chat/completions", b'{"messages": []}', 400, "no message"),
        ("POST", "/v1/chat/completions", b'{"messages": [{"role": "king"}]}', 400, "no such role: 'king'"),
        ("POST", "/v1/chat/completions", b'{"messages": 3}', 400, "no list"),
        ("POST", "/v1/chat/completions", b'{"messages": [], "temperature": "hot"}', 400, "wrong type"),
        ("POST", "/v1beta/models/m:streamGenerateContent", b"{}", 400, "alt=sse"),
    ],
)
def test_a_request_that_cannot_be_answered_says_why(
    method: str, path: str, body: bytes, status: int, said: str
) -> None:
    with ModelServer(ScriptedBrain()) as server:
        answer = httpx.request(method, server.url + path, content=body)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


def test_a_brain_without_an_answer_is_a_fault_of_the_test() -> None:
    def ask(brain: object) -> None:
        with ModelServer(brain) as server, pytest.raises(httpx.TransportError):  # type: ignore[arg-type]
            httpx.post(f"{server.openai_url}/chat/completions", json={"messages": ASK})

    with pytest.raises(ValueError, match="no piece at all"):
        ask(lambda _: iter(()))
    with pytest.raises(ValueError, match="no end"):
        ask(lambda _: iter([Text("a")]))


def test_a_brain_may_answer_in_words_and_call_several_tools() -> None:
    two = Answer(text="Both:", tool_calls=(*call("a", {"x": 1}).tool_calls, *call("b").tool_calls))
    with ModelServer(lambda _: two) as server:
        message = sdk(server).chat.completions.create(model="m", messages=ASK).choices[0].message  # type: ignore[arg-type]
    assert message.content == "Both:"
    assert [(made.function.name, made.function.arguments) for made in message.tool_calls or []] == [  # type: ignore[union-attr]
        ("a", '{"x": 1}'),
        ("b", "{}"),
    ]


def test_a_call_without_arguments_is_still_a_call() -> None:
    def bare(request: ModelRequest) -> Iterator[Piece]:
        yield CallOpened("now")
        yield Finished(reason="tool_calls", usage=Usage(prompt=1, completion=1))

    with ModelServer(bare) as server:
        stream = sdk(server).chat.completions.create(model="m", messages=ASK, stream=True)  # type: ignore[arg-type]
        deltas = [chunk.choices[0].delta for chunk in stream]
    assert [made.function.name for delta in deltas for made in delta.tool_calls or [] if made.function] == ["now"]

"""Conversations as an agent has them, to measure storage with: real prose, in the shapes that defeat simple schemes.

Every turn resends the history. `growing` is the plain case; `timestamp` has the time inside the system prompt; `window`
keeps the last 20 messages; `one string` keeps the whole history in one growing string (ReAct). Answers come whole or as
server-sent events in 40 chunks. The same seed gives the same bytes.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pydoc_data.topics import topics
from typing import Any

from tachograph.formats import frame

MODES = ("growing", "timestamp", "window", "one string")
WINDOW, CHUNKS = 20, 40
_PROSE = "\n".join(topics[name] for name in sorted(topics))  # 700 KB of English that every Python brings


class _Prose:
    """Text that does not repeat within a conversation."""

    def __init__(self, seed: int) -> None:
        self._at = random.Random(seed).randrange(len(_PROSE))

    def take(self, length: int) -> str:
        if self._at + length > len(_PROSE):
            self._at = 0
        self._at += length
        return _PROSE[self._at - length : self._at]


@dataclass(frozen=True)
class Conversation:
    """Requests and answers (in the chunks in which they arrived), and every distinct text in them."""

    requests: list[bytes]
    answers: list[list[bytes]]
    distinct: bytes

    @property
    def wire(self) -> bytes:
        """All answers' bytes."""
        return b"".join(b"".join(chunks) for chunks in self.answers)

    @property
    def plain(self) -> int:
        """How many bytes requests and answers are."""
        return sum(map(len, self.requests)) + len(self.wire)

    def logs(self) -> list[tuple[bytes, list[int]]]:
        """One log per turn, with its cuts."""
        clock = _Clock()
        return [frame.write_log(_frames(request, chunks, 1, clock)) for request, chunks in self._turns()]

    def one_log(self) -> list[tuple[bytes, list[int]]]:
        """All turns as one decision's log."""
        clock, frames = _Clock(), []
        for number, (request, chunks) in enumerate(self._turns()):
            frames += _frames(request, chunks, number + 1, clock)
        return [frame.write_log(frames)]

    def _turns(self) -> list[tuple[bytes, list[bytes]]]:
        return list(zip(self.requests, self.answers, strict=True))


def conversation(
    mode: str, *, turns: int = 50, prompt: int = 4096, tools: int = 4096, new: int = 2048, streamed: bool, seed: int = 1
) -> Conversation:
    """Return a conversation: sizes in bytes, `new` of them a turn."""
    chance, prose = random.Random(seed), _Prose(seed)
    system, schemas = prose.take(prompt), _schemas(tools)
    history: list[dict[str, str]] = []
    requests, answers, distinct = [], [], [system, json.dumps(schemas)]
    for turn in range(turns):
        question, answer = prose.take(new * 6 // 10), prose.take(new - new * 6 // 10)
        history.append({"role": "user", "content": question})
        requests.append(_request(mode, system, schemas, history, turn, chance))
        answers.append(_streamed(answer, turn, chance) if streamed else _whole(answer, turn, chance))
        history.append({"role": "assistant", "content": answer})
        distinct += [question, answer]
    return Conversation(requests, answers, "".join(distinct).encode())


def _schemas(size: int) -> list[dict[str, Any]]:
    prose, found = _Prose(5), list[dict[str, Any]]()
    while len(json.dumps(found)) < size:
        properties = {f"argument_{n}": {"type": "string", "description": prose.take(40)} for n in range(3)}
        parameters = {"type": "object", "properties": properties, "required": ["argument_0"]}
        function = {"name": f"tool_{len(found)}", "description": prose.take(120), "parameters": parameters}
        found.append({"type": "function", "function": function})
    return found


def _request(
    mode: str,
    system: str,
    schemas: list[dict[str, Any]],
    history: list[dict[str, str]],
    turn: int,
    chance: random.Random,
) -> bytes:
    if mode == "timestamp":
        half = len(system) // 2
        now = f" Now: 2026-11-30T12:{turn // 60:02}:{turn % 60:02}.{chance.randrange(10**6):06} "
        system = system[:half] + now + system[half:]
    messages = [{"role": "system", "content": system}, *(history[-WINDOW:] if mode == "window" else history)]
    if mode == "one string":
        told = "\n".join(
            f"{'Observation' if said['role'] == 'user' else 'Thought'}: {said['content']}" for said in history
        )
        messages = [{"role": "user", "content": f"{system}\n{told}"}]
    return _json({"model": "model-1", "messages": messages, "tools": schemas, "temperature": 0.2})


def _whole(answer: str, turn: int, chance: random.Random) -> list[bytes]:
    message = {"role": "assistant", "content": answer}
    usage = {"prompt_tokens": chance.randrange(9999), "completion_tokens": chance.randrange(999)}
    return [_json({**_head("chat.completion", turn, chance), "usage": usage,
                   "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})]  # fmt: skip


def _streamed(answer: str, turn: int, chance: random.Random) -> list[bytes]:
    head, at, events = _head("chat.completion.chunk", turn, chance), 0, []
    while at < len(answer):
        length = chance.choice((3, 4, 5, 6))
        delta = {"content": answer[at : at + length]}
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]
        events.append(b"data: " + _json({**head, "choices": choices}) + b"\n\n")
        at += length
    events.append(b"data: [DONE]\n\n")
    per = -(-len(events) // CHUNKS)
    return [b"".join(events[at : at + per]) for at in range(0, len(events), per)]


def _head(kind: str, turn: int, chance: random.Random) -> dict[str, Any]:
    return {"id": f"chatcmpl-{chance.getrandbits(96):024x}", "object": kind, "created": 1_760_000_000 + 7 * turn,
            "model": "model-1", "system_fingerprint": "fp_0123456789"}  # fmt: skip


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class _Clock:
    """Times as calls have them: up to 60 ms apart, in nanoseconds."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        self._now = 1_760_000_000_000_000_000

    def tick(self) -> int:
        self._now += self._chance.randrange(1_000, 60_000_000)
        return self._now


def _frames(request: bytes, chunks: list[bytes], effect: int, clock: _Clock) -> list[frame.Frame]:
    sent = frame.pack_headers(
        [(b"host", b"api.example.com"), (b"accept", b"application/json"), (b"content-type", b"application/json"),
         (b"user-agent", b"OpenAI/Python 3.57.0"), (b"content-length", b"%d" % len(request))]
    )  # fmt: skip
    got = frame.pack_headers(
        [
            (b"content-type", b"text/event-stream"),
            (b"x-request-id", b"req_%032x" % random.Random(request).getrandbits(128)),
        ]
    )
    payloads = [
        (frame.CALL, frame.fields(b"POST", b"https://api.example.com/v1/chat/completions", sent)),
        (frame.BODY, request),
        (frame.SENT, b""),
        (frame.HEAD, frame.fields(b"200", b"OK", got)),
        *((frame.CHUNK, chunk) for chunk in chunks),
        (frame.END, b"\x01"),
    ]
    return [frame.Frame(kind, 0, 1, effect, 1, 0, clock.tick(), b"", payload) for kind, payload in payloads]

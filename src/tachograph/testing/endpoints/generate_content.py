"""Gemini: `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent?alt=sse`.

Streamed: one whole response object per event, lines ended by CRLF as the provider ends them; a function call comes in
one event, since this protocol does not cut its arguments. The last event carries `finishReason`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from tachograph.testing.answers import CallArguments, CallOpened, Finished, Piece, Text, Usage, whole
from tachograph.testing.endpoints.shape import Body, Endpoint, Identity, arguments_of, objects, sampling_of, tool_of
from tachograph.testing.event_stream import event
from tachograph.testing.model_request import (
    Message,
    ModelRequest,
    Tool,
    ToolCall,
    ToolChoice,
    Unanswerable,
    choose,
    text_of,
)

_CHOICES: dict[str, ToolChoice] = {"AUTO": "auto", "ANY": "required", "NONE": "none", "VALIDATED": "auto"}


def read(body: Body) -> ModelRequest:
    """The question; `model` is filled in by the server from the path. Raises `Unanswerable` for a wrong field."""
    tools = tuple(_tool(declared) for group in objects(body, "tools") for declared in _declared(group))
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    choice = _CHOICES.get(config.get("mode", "AUTO"))
    if choice is None:
        raise Unanswerable(f"functionCallingConfig.mode cannot be {config.get('mode')!r}")
    allowed = config.get("allowedFunctionNames") or []
    tools = tuple(tool for name in allowed for tool in choose(tools, name)) if allowed else tools
    generation = body.get("generationConfig") or {}
    system = body.get("systemInstruction")
    first = (Message(role="system", text=text_of(objects(system, "parts"))),) if system else ()
    schema = generation.get("responseJsonSchema") or generation.get("responseSchema")
    return ModelRequest(
        model=str(body.get("model", "")),
        messages=(*first, *(part for content in objects(body, "contents") for part in _messages(content))),
        tools=tools,
        tool_choice=choice,
        sampling=sampling_of(generation, max_tokens="maxOutputTokens", top_p="topP", stop="stopSequences"),
        answer_schema=_lowered(schema) if schema else None,
    )


def write_whole(body: Body, identity: Identity, pieces: Iterable[Piece]) -> dict[str, Any]:
    """The response object."""
    text, calls, end = whole(pieces)
    parts: list[dict[str, Any]] = [{"text": text}] if text or not calls else []
    parts += [_call_part(made.name, made.arguments) for made in calls]
    return _response(body, identity, parts, end)


def write_events(body: Body, identity: Identity, pieces: Iterable[Piece]) -> Iterator[bytes]:
    """The stream of response objects."""
    name = ""
    arguments = ""

    def waiting() -> list[dict[str, Any]]:
        return [_call_part(name, arguments)] if name else []

    for piece in pieces:
        match piece:
            case Text(text):
                yield _event(_response(body, identity, [*waiting(), {"text": text}], None))
                name = ""
            case CallOpened(opened):
                if name:
                    yield _event(_response(body, identity, waiting(), None))
                name, arguments = opened, ""
            case CallArguments(text):
                arguments += text
            case Finished():
                yield _event(_response(body, identity, waiting() or [{"text": ""}], piece))


def _event(value: dict[str, Any]) -> bytes:
    return event(value, end=b"\r\n")


def _declared(group: Body) -> list[Body]:
    return objects(group, "functionDeclarations")


def _tool(declared: Body) -> Tool:
    named = "parametersJsonSchema" if declared.get("parametersJsonSchema") else "parameters"
    tool = tool_of(declared, named)
    return Tool(name=tool.name, description=tool.description, parameters=cast(Body, _lowered(tool.parameters)))


def _lowered(schema: Any) -> Any:
    """The protocol writes types in capitals (`OBJECT`); JSON Schema writes them small."""
    if isinstance(schema, dict):
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else _lowered(value)
            for name, value in schema.items()
        }
    return [_lowered(item) for item in schema] if isinstance(schema, list) else schema


def _messages(content: Body) -> Iterator[Message]:
    role = content.get("role", "user")
    if role not in ("user", "model", "function"):
        raise Unanswerable(f"no such role: {role!r}")
    for part in objects(content, "parts"):
        if "functionCall" in part:
            made = part["functionCall"]
            arguments = json.dumps(made.get("args") or {}, ensure_ascii=False)
            call = ToolCall(id=str(made.get("id", "")), name=str(made.get("name", "")), arguments=arguments)
            yield Message(role="assistant", tool_calls=(call,))
        elif "functionResponse" in part:
            answer = part["functionResponse"]
            text = json.dumps(answer.get("response"), ensure_ascii=False)
            yield Message(role="tool", text=text, answers=str(answer.get("id") or answer.get("name", "")))
        else:
            yield Message(role="assistant" if role == "model" else "user", text=text_of([part]))


def _call_part(name: str, arguments: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": arguments_of(arguments)}}


def _response(body: Body, identity: Identity, parts: list[dict[str, Any]], end: Finished | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if end is not None:
        candidate["finishReason"] = "MAX_TOKENS" if end.reason == "length" else "STOP"
    response: dict[str, Any] = {"candidates": [candidate]}
    if end is not None:
        response["usageMetadata"] = _usage(end.usage)
    return {**response, "modelVersion": body.get("model", ""), "responseId": identity.key}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": usage.completion,
        "totalTokenCount": usage.total,
    }


ENDPOINT = Endpoint(read=read, whole=write_whole, events=write_events)

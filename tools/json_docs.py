"""Writes docs/json.md from the models of `tachograph.formats.answers`, with the frozen samples as examples.

    python tools/json_docs.py            write the page
    python tools/json_docs.py --check    exit 1 if the page is not what would be written

Guarantees: every key of every document stands there once, with its type, whether it may be null, and its meaning, which
is the string below the field in its module; a key without one is an error. Nothing in the page comes from anywhere else
but `HEAD` and the samples.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from tachograph.formats import answers
from tachograph.formats.answers import (
    Answer,
    DecisionRow,
    DiffAnswer,
    DoctorAnswer,
    ReplayAnswer,
    ShowAnswer,
    VerifyAnswer,
)

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "json.md"
SAMPLES = ROOT / "tests" / "formats" / "samples"

HEAD = """\
# What `--json` prints

<!-- Written by tools/json_docs.py from src/tachograph/formats/answers. Change the models, then run it again. -->

One JSON document on stdout, indented by two, UTF-8, and nothing else there; everything meant for a person goes to
stderr. The library returns the same as typed objects: `tachograph.Store(path).decisions()`, `.show(ID)`, `.replay(ID)`,
`.diff(A, B)`, `.verify(ID)`, `.doctor()`.

- Each document is closed: a key that is not listed here is never there, one that is listed is never missing.
- A value that is not to be had is `{"state": "unavailable", "reason": ...}`, so nobody takes it for an empty one.
- Times are RFC 3339 UTC with milliseconds; durations are milliseconds, those on a timeline since the run began.
- Bytes that are no UTF-8 stand escaped (`\\xff`); the exact ones are given by `tacho show ID --bytes N`.
- An error is `{"error": {"code": ..., "message": ..., "reason": ...}}`: the code is stable, the message is for people.
  Words that the command line does not know are explained on stderr, and stdout stays empty.

Exit codes: 0 answered, the same, equivalent; 1 different, or a check of `verify` failed; 2 the words of the call are
wrong; 3 refused; 4 the store is damaged; 5 the replayed program escaped the replay, so that what it did is not known;
130 interrupted.

The examples are frozen under `tests/formats/samples` and must load for ever.
"""


@dataclass(frozen=True)
class Document:
    """A document: the command that prints it, its model, whether a list of it is printed, its example."""

    command: str
    model: type[Answer]
    sample: str
    listed: bool = False


DOCUMENTS = (
    Document("tacho ls --json", DecisionRow, "ls.json", listed=True),
    Document("tacho show ID --json", ShowAnswer, "show.json"),
    Document("tacho replay ID --json", ReplayAnswer, "replay_missed.json"),
    Document("tacho diff A B --json", DiffAnswer, "diff.json"),
    Document("tacho verify --all --json", VerifyAnswer, "verify.json"),
    Document("tacho doctor --json", DoctorAnswer, "doctor.json"),
)
_WORDS = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any value"}


def meanings(model: type[Answer]) -> dict[str, str]:
    """Return a model's fields with the string that stands below each. Raises ValueError for a field without one."""
    (definition,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        said = below.value if isinstance(below, ast.Expr) else None
        if not isinstance(said, ast.Constant) or not isinstance(said.value, str):
            raise ValueError(f"{model.__name__}.{statement.target.id}: no string below it says what it means")
        found[statement.target.id] = said.value
    return found


def type_in_words(annotation: Any) -> str:
    """Say a type as a reader of JSON would; other models are named. Raises KeyError for a type that no document has."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (types.UnionType, Union):
        return " or ".join(type_in_words(one) for one in arguments)
    if origin is Literal:
        return " or ".join(f'`"{one}"`' for one in arguments)
    if origin is list:
        return f"list of {type_in_words(arguments[0])}"
    if origin is dict:
        return f"object of {type_in_words(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Answer):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return _WORDS[annotation]


def parts(model: type[Answer]) -> Iterator[type[Answer]]:
    """Yield the models that a model's fields hold, each once, in the order in which a reader meets them."""
    seen: dict[type[Answer], None] = {}
    for field in model.model_fields.values():
        for one in _models_in(field.annotation):
            for part in (one, *parts(one)):
                seen.setdefault(part)
    yield from seen


def _models_in(annotation: Any) -> Iterator[type[Answer]]:
    if isinstance(annotation, type) and issubclass(annotation, Answer):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _table(model: type[Answer]) -> str:
    said = meanings(model)
    rows = [
        f"| `{name}` | {type_in_words(field.annotation)} | {said[name]} |" for name, field in model.model_fields.items()
    ]
    return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows])


def _section(document: Document) -> str:
    lines = [f"## {document.command}", ""]
    lines.append(f"{'A list of these. ' if document.listed else ''}{inspect.getdoc(document.model)}")
    lines += ["", _table(document.model), "", "```json", (SAMPLES / document.sample).read_text().rstrip(), "```"]
    return "\n".join(lines)


def page() -> str:
    """Return the whole page. Raises ValueError for a key without a meaning."""
    shared: dict[type[Answer], None] = {}
    for document in DOCUMENTS:
        for part in parts(document.model):
            shared.setdefault(part)
    sections = [HEAD.rstrip(), *(_section(document) for document in DOCUMENTS), "## Parts of these documents"]
    for part in shared:
        known = next((document for document in DOCUMENTS if document.model is part), None)
        said = _table(part) if known is None else f"As printed by `{known.command}`, above."
        sections.append(f"### {part.__name__}\n\n{inspect.getdoc(part)}\n\n{said}")
    return "\n\n".join(sections) + "\n"


def undocumented() -> list[str]:
    """Return the models that `formats.answers` exports and that the page does not show."""
    shown = {document.model for document in DOCUMENTS} | {part for one in DOCUMENTS for part in parts(one.model)}
    exported = (getattr(answers, name) for name in answers.__all__)
    return sorted(model.__name__ for model in exported if model is not Answer and model not in shown)


def main(words: list[str], *, path: Path = PAGE) -> int:
    """Write the page to `path`, or with `--check` say whether it is what would be written there."""
    wanted = page()
    if words == ["--check"]:
        same = path.is_file() and path.read_text() == wanted
        if not same:
            sys.stderr.write(f"{path.name} is stale: python tools/json_docs.py\n")
        return 0 if same else 1
    path.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The glossary, the source and the design use the same words.

- Terms are sorted, one line each.
- Each term that is not marked as planned is used in the source; nothing in the source is defined by a planned one.
- Every word of the design's own table is in the glossary.
- Error codes and the keys of `--json` documents are formed alike, and use no word that the house refuses.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from tests.repository.tree import ROOT, Tracked, modules

ENTRY = re.compile(r"^- \*\*(?P<term>[^*]+)\*\*(?P<planned> \(\*planned\*\))?: \S.*\.$")
REFUSED_WORDS = {"cassette", "snapshot", "trace", "audit", "mock", "golden", "fixture"}


def glossary() -> dict[str, bool]:
    """Term to whether it is planned. Raises ValueError for a list line that is no entry."""
    terms = {}
    for line in (ROOT / "GLOSSARY.md").read_text().splitlines():
        if line.startswith("- "):
            entry = ENTRY.match(line)
            if not entry:
                raise ValueError(f"not `- **term**: one sentence.`: {line}")
            terms[entry["term"]] = bool(entry["planned"])
    return terms


def words(text: str) -> str:
    """Identifiers taken apart, in lower case, one blank between words: `TaskPath`, `task_path` are `task path`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return " " + " ".join(re.findall(r"[a-z]+", apart.lower())) + " "


def unused(terms: Iterable[str], text: str) -> list[str]:
    searched = words(text)
    return [term for term in terms if not re.search(rf" {term}(s|es|ed|led)? ", searched)]


def definitions(files: Iterable[Tracked]) -> dict[str, str]:
    """What the modules define, by its words: classes, functions and the modules themselves, to a place."""
    found = {}
    for file in files:
        found[words(Path(file.path).stem).strip()] = file.path
        for node in ast.walk(file.tree()):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[words(node.name).strip()] = f"{file.path}:{node.lineno}"
    return found


def codes(files: Iterable[Tracked]) -> Iterator[tuple[str, str]]:
    """Every class's `code = "..."`, with its place."""
    for file in files:
        for node in ast.walk(file.tree()):
            if not isinstance(node, ast.ClassDef):
                continue
            for statement in node.body:
                target, value = _assigned(statement)
                if target == "code" and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield value.value, f"{file.path}:{statement.lineno}"


def keys(files: Iterable[Tracked]) -> Iterator[tuple[str, str]]:
    """Every annotated field of a class, with its place: the keys of the documents."""
    for file in files:
        for node in ast.walk(file.tree()):
            if isinstance(node, ast.ClassDef):
                for statement in node.body:
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        yield statement.target.id, f"{file.path}:{statement.lineno}"


def _assigned(statement: ast.stmt) -> tuple[str, ast.expr | None]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id, statement.value
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, statement.value
    return "", None


def refused_in(names: Iterable[tuple[str, str]], refused: Collection[str] = REFUSED_WORDS) -> list[str]:
    return [f"{place}: {name}" for name, place in names if set(words(name).split()) & set(refused)]


def test_the_terms_are_sorted() -> None:
    terms = list(glossary())
    assert terms == sorted(terms)


def test_each_term_is_used_in_the_source() -> None:
    built = [term for term, planned in glossary().items() if not planned]
    assert unused(built, "\n".join(module.text for module in modules("src/"))) == []


def test_nothing_is_defined_by_a_planned_term() -> None:
    defined = definitions(modules("src/"))
    taken = {term: defined[term] for term, planned in glossary().items() if planned and term in defined}
    assert taken == {}, "it is built now: take the mark away"


def test_every_word_of_the_design_is_in_the_glossary(shared: Path) -> None:
    section = (shared / "DESIGN.md").read_text().split("\n## ")[1]
    cells = re.findall(r"^\| ([a-z, ]+) \|", section, re.MULTILINE)
    wanted = {term.strip() for cell in cells for term in cell.split(",")} - {"word"}
    assert len(wanted) > 30
    assert sorted(wanted - glossary().keys()) == []


def test_error_codes_are_snake_case_and_each_means_one_thing() -> None:
    found = list(codes(modules("src/")))
    assert [f"{place}: {code}" for code, place in found if not re.fullmatch(r"[a-z]+(_[a-z]+)*", code)] == []
    assert sorted({code for code, _ in found if sum(code == other for other, _ in found) > 1}) == []
    assert refused_in(found) == []


def test_the_keys_of_json_documents_use_no_refused_word() -> None:
    assert refused_in(keys(modules("src/tachograph/formats/answers/"))) == []


def test_a_term_that_the_source_does_not_use_is_found() -> None:
    source = "class TaskPath: ...\ndef read_frames(): ...\n# sealed and refusals\n"
    assert unused(["task path", "frame", "refusal", "seal"], source) == []
    assert unused(["spool", "path task"], source) == ["spool", "path task"]


def test_a_planned_term_that_is_built_is_found() -> None:
    assert definitions([Tracked("src/x/pact.py", "class ErasureDomain: ...")]).keys() == {"pact", "erasure domain"}


@pytest.mark.parametrize("key", ["auditLog", "snapshot_id", "lastTrace"])
def test_a_refused_word_in_a_key_is_found(key: str) -> None:
    model = Tracked("a.py", f"class Answer:\n    {key}: str\n    code = 'x'\n")
    assert refused_in(keys([model])) == [f"a.py:2: {key}"]
    assert list(codes([model])) == [("x", "a.py:3")]

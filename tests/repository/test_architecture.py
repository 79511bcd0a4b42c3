"""ARCHITECTURE.md says what is so: the layers, the frame kinds, the journal's fields, the modules of bench."""

from __future__ import annotations

import re
import tomllib

from bench.__main__ import ALL
from tachograph.formats import frame
from tachograph.store import entry
from tests.repository.tree import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def table(page: str, *, first: str) -> dict[str, str]:
    """Return the first two columns of the table whose first heading is `first`."""
    lines = iter(page.splitlines())
    rows = {}
    for line in lines:
        if line.startswith(f"| {first} |"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return rows
                key, value = (cell.strip() for cell in row.split("|")[1:3])
                rows[key.strip("`")] = value
    return rows


def test_the_frame_kinds_are_those_of_the_format() -> None:
    assert table(PAGE, first="number") == {str(number): name for number, name in frame.NAMES.items()}


def test_a_frame_kind_that_is_not_told_is_found() -> None:
    assert table("| number | kind |\n|---|---|\n| 1 | run | x |\n", first="number") == {"1": "run"}
    assert table(PAGE.replace("| 20 | chunk |", "| 20 | piece |"), first="number")["20"] == "piece"


def test_the_header_is_as_long_as_it_says() -> None:
    assert f"A frame is a {frame.HEADER.size}-byte header" in PAGE


def test_the_layers_are_the_contract_s() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    assert "\n".join(f"    {layer}" for layer in layers) in PAGE


def test_the_journal_s_fields_are_numbered_as_they_are() -> None:
    names = {"sequence": entry._SEQUENCE, "kind": entry._KIND, "decision": entry._DECISION, "run": entry._RUN}
    names |= {"domain": entry._DOMAIN, "place": entry._PLACE, "source": entry._SOURCE}
    names |= {"payload digest": entry._PAYLOAD_DIGEST, "signature": entry._SIGNATURE, "leaf": entry._LEAF}
    (said,) = re.findall(r"A journal record's fields: (.*?)\. A reader", " ".join(PAGE.split()))
    assert [name for name, number in names.items() if f"{number} {name}" not in said] == []
    assert f"{entry._TEXTS} and {entry._TEXTS_AFTER_FIRST} payload and summary" in said


def test_every_module_that_is_named_is_there() -> None:
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?)`", PAGE))
    places = [ROOT, ROOT / "src" / "tachograph"]
    assert len(named) > 8
    assert sorted(name for name in named if not any((place / name).exists() for place in places)) == []


def test_each_measurement_is_named() -> None:
    assert set(table(PAGE, first="module")) == set(ALL)

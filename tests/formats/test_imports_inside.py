"""What runs inside a recorded program loads little, and nothing that a program did not install for itself."""

from __future__ import annotations

import subprocess
import sys

HEAVY = [
    "typing",
    "re",
    "json",
    "dataclasses",
    "enum",
    "datetime",
    "decimal",
    "pathlib",
    "hashlib",
    "uuid",
    "urllib",
    "asyncio",
    "socket",
    "inspect",
]
FOREIGN = ["pydantic", "orjson", "zstandard", "rfc8785", "typer", "rich", "httpx", "httpx2", "cryptography"]


def _loaded(*modules: str) -> set[str]:
    script = f"import sys, {', '.join(modules)}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_credentials_and_values_load_nothing_heavy() -> None:
    loaded = _loaded("tachograph.formats.credentials", "tachograph.formats.values", "tachograph.formats.value_view")
    assert loaded & {*HEAVY, *FOREIGN} == set()


def test_comparison_and_dialects_load_the_standard_library_alone() -> None:
    loaded = _loaded("tachograph.comparison.declared", "tachograph.comparison.compare", "tachograph.dialects.registry")
    assert loaded & set(FOREIGN) == set()
    assert loaded - sys.stdlib_module_names <= {"tachograph", "__main__", "sitecustomize", "usercustomize"}

"""The wheel holds the whole package, data included, and works in an empty environment."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.repository.tree import ROOT, tracked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_tracked_file_of_the_package(wheel: Path) -> None:
    wanted = {file.path.removeprefix("src/") for file in tracked() if file.path.startswith("src/tachograph/")}
    held = set(zipfile.ZipFile(wheel).namelist())
    assert sorted(wanted - held) == []
    assert "tachograph/py.typed" in held


def test_the_wheel_holds_the_injected_folder(wheel: Path) -> None:
    assert "tachograph/seams/injected/sitecustomize.py" in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    strangers = [name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("tachograph")]
    assert strangers == []


def test_the_wheel_s_page_is_the_readme(wheel: Path) -> None:
    readme = next((file.text for file in tracked() if file.path == "README.md"), None)
    if readme is None:
        pytest.skip("there is no README.md yet")
    held = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in held.namelist() if name.endswith(".dist-info/METADATA"))
    assert readme.strip() in held.read(metadata).decode(), 'pyproject.toml wants: readme = "README.md"'


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_the_wheel_gives_a_working_command_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"

    def run(*command: str | Path) -> str:
        done = subprocess.run([programs / command[0], *command[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    run("pip", "install", "-q", "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    run("pip", "install", "-q", "--no-deps", wheel)
    run("tachograph", "--help")
    run("tacho", "--help")
    run("tacho", "doctor")
    assert run("tacho", "run", "--", programs / "python", "-c", "print('hello')") == "hello\n"
    assert run("tacho", "ls")

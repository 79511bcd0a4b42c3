"""A program in which we are finds the world that it would have had, and one that cannot hold us is counted."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tachograph.intake.skeleton import gone_past
from tachograph.seams import injection
from tests.seams.driver import RECORD, Session

INJECTED = Path(injection.FOLDER) / "sitecustomize.py"
TELL = """
import json, os, sys
print(json.dumps([dict(os.environ), sys.path, sys.argv, sys.orig_argv, list(sys.flags), os.getcwd(), __file__]))
"""


def told(text: str) -> list[object]:
    found = json.loads(text)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("path", [None, "one", "one:two", ":one", "one:", "one::two"])
def test_environment_path_and_flags_are_as_without_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | None
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    session = Session(tmp_path, TELL)
    recorded = session.record("an argument", options=["-X", "utf8", "-W", "ignore"])
    assert told(recorded.out) == told(session.plain("an argument", options=["-X", "utf8", "-W", "ignore"]).out)
    assert told(recorded.replay().out) == told(recorded.out)


@pytest.mark.parametrize("path", [None, "", "one", ":one", "one:", "one:two"])
def test_injecting_adds_only_what_is_taken_out_again(path: str | None) -> None:
    before = {"HOME": "/", **({} if path is None else {"PYTHONPATH": path})}
    injected = injection.inject(before, entry="a.module", settings={"ONE": "1"})
    kept = {name: value for name, value in injected.items() if not name.startswith(injection.PREFIX)}
    assert kept.pop("PYTHONPATH") == (injection.FOLDER + os.pathsep + path if path else injection.FOLDER)
    assert kept == {"HOME": "/"}
    assert injected["TACHO_IN_ENTRY"] == "a.module"
    assert injected["TACHO_IN_ONE"] == "1"
    assert before == {"HOME": "/", **({} if path is None else {"PYTHONPATH": path})}, "the given one is left alone"


def test_a_python_child_sees_nothing_of_ours_however_it_is_led_to(tmp_path: Path) -> None:
    session = Session(tmp_path, """
        import os, subprocess, sys
        tell = "import os, sys; print(sorted(os.environ.items()), sys.path)"
        for before in ([], ["env"], ["sh", "-c", 'exec "$@"', "sh"], ["sh", "-c", '"$@"; exit $?', "sh"]):
            print(subprocess.run([*before, sys.executable, "-c", tell], capture_output=True, check=True).stdout)
    """)  # fmt: skip
    recorded = session.record()
    assert "TACHO_IN_" not in recorded.out
    assert recorded.out == session.plain().out


def test_a_python_that_does_not_load_us_is_counted(tmp_path: Path) -> None:
    recorded = Session(tmp_path, """
        import subprocess, sys
        for flags in (["-I"], ["-S"], ["-E"], ["-I", "-S"], []):
            subprocess.run([sys.executable, *flags, "-c", "pass"], check=True)
    """).record()  # fmt: skip
    assert [said["what"] for said in gone_past(recorded.log)] == ["subprocess.python"] * 4


def test_the_environment_of_a_child_can_be_given_back_what_was_taken(tmp_path: Path) -> None:
    session = Session(tmp_path, """
        from tachograph.seams import injection
        child = injection.for_child({"PYTHONPATH": "own", "A": "1"}, PATH="0/p1")
        print(injection.is_injected(), child["PYTHONPATH"] == injection.FOLDER + ":own", child["A"])
        print(child["TACHO_IN_ENTRY"], child["TACHO_IN_RUN"], child["TACHO_IN_PATH"])
    """)  # fmt: skip
    assert session.record().out == f"True True 1\n{RECORD} run_01ARZ3NDEKTSV4RRFFQ69G5FAV 0/p1\n"


def test_a_process_in_which_we_are_not_gives_its_children_nothing() -> None:
    environment = {"A": "1"}
    assert not injection.is_injected()
    assert injection.for_child(environment) is environment


# --- the next sitecustomize -------------------------------------------------------------------------------------------


def own_sitecustomize(folder: Path, source: str) -> dict[str, str]:
    """A sitecustomize that the program has by itself."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(source)
    return {"PYTHONPATH": str(folder / "site")}


def test_the_next_sitecustomize_runs_and_is_the_one_that_the_program_sees(tmp_path: Path) -> None:
    environment = own_sitecustomize(
        tmp_path, "import builtins, os\nbuiltins.seen = [__file__, dict(os.environ)]\nvalue = 5\n"
    )
    recorded = Session(tmp_path, """
        import os, sitecustomize
        print(seen[0], sitecustomize.value, seen[1] == dict(os.environ))
    """).record(environment=environment)  # fmt: skip
    assert recorded.out == f"{tmp_path}/site/sitecustomize.py 5 True\n"
    assert recorded.readings, "and the program is recorded"


@pytest.mark.parametrize("fault", ["import not_there", "1 / 0", "raise ImportError('no')"])
def test_a_next_sitecustomize_that_fails_is_told_as_without_us_and_the_program_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    environment = own_sitecustomize(tmp_path, fault + "\n")
    monkeypatch.setenv("PYTHONPATH", environment["PYTHONPATH"])
    session = Session(tmp_path, "import time\nprint('goes on', time.time() > 0)\n")
    recorded = session.record()
    assert recorded.out == "goes on True\n"
    assert recorded.ended.err == session.plain().err
    assert "sitecustomize" in recorded.ended.err
    assert len(recorded.log.draws) == 1


def test_without_a_next_one_ours_stands_in_its_place(tmp_path: Path) -> None:
    recorded = Session(
        tmp_path, "import sitecustomize, sys\nprint(sys.modules['sitecustomize'] is sitecustomize)\n"
    ).record()
    assert recorded.out == "True\n"
    assert recorded.ended.err == ""


# --- programs that cannot hold us -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [["-I"], ["-S"], ["-E"]])
def test_a_python_that_ignores_us_runs_as_it_would(tmp_path: Path, flags: list[str]) -> None:
    """Its environment is taken by nobody; what matters is that it runs, and that a recorded parent counts it."""
    session = Session(tmp_path, "print('unharmed')")
    recorded = session.record(options=flags)
    assert recorded.out == "unharmed\n"
    assert recorded.ended.err == ""
    assert len(recorded.readings) == 1, "only the run's own file: nothing was recorded"


def test_where_recording_cannot_start_the_program_goes_on_and_word_is_left(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "print('goes on')").record(settings={"PUBLIC": "no key"})
    assert recorded.out == "goes on\n"
    (word,) = recorded.spool.glob("*.bypassed")
    assert word.name.startswith("run_01ARZ3NDEKTSV4RRFFQ69G5FAV.")
    assert sys.executable in word.read_text()
    assert "ValueError" in word.read_text()


def test_where_capture_is_required_a_program_that_cannot_be_recorded_does_not_run(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "print('goes on')").record(settings={"PUBLIC": "no key", "REQUIRE": "1"})
    assert (recorded.ended.status, recorded.ended.out) == (3, "")
    assert "capture is required" in recorded.ended.err


def test_where_not_even_word_can_be_left_it_is_said_on_stderr(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "print('goes on')").record(settings={"SPOOL": str(tmp_path / "gone")})
    assert recorded.out == "goes on\n"
    assert len(recorded.ended.err.splitlines()) == 1
    assert "tachograph: this process is not recorded" in recorded.ended.err


def test_word_of_a_process_that_could_not_be_watched_lies_beside_the_spool(tmp_path: Path) -> None:
    recorded = Session(tmp_path, "from tachograph.seams import injection\ninjection.marker('for a reason')\n").record()
    assert recorded.out == ""
    (word,) = recorded.spool.glob("*.bypassed")
    assert word.read_text() == f"{sys.executable}: for a reason"


def test_a_program_without_our_package_on_its_path_finds_it_and_what_it_needs(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    session = Session(tmp_path, """
        import sys, cryptography
        try:
            import pydantic; print("pydantic is lent too")
        except ModuleNotFoundError as fault:
            print("not lent:", fault.name)
        print(sorted(type(finder).__name__ for finder in sys.meta_path if "Lender" in type(finder).__name__))
    """)  # fmt: skip
    session.python = str(tmp_path / "empty" / "bin" / "python")
    recorded = session.record()
    assert recorded.out == "not lent: pydantic\n['_Lender', '_Lender']\n"
    assert len(recorded.readings) == 2, "it was recorded"


# --- any Python -------------------------------------------------------------------------------------------------------

# What Python 2.7 knows, as far as the file needs it: no annotations, f-strings, keyword-only parameters, `raise from`.
OLD = {
    "Module", "Import", "ImportFrom", "alias", "Assign", "Constant", "ClassDef", "FunctionDef", "arguments", "arg",
    "Tuple", "Attribute", "Name", "If", "BoolOp", "Or", "And", "Compare", "NotIn", "IsNot", "In", "Is", "Eq", "NotEq",
    "Lt", "Return", "Call", "Subscript", "List", "For", "Delete", "Slice", "ListComp", "DictComp", "comprehension",
    "Try", "ExceptHandler", "Raise", "With", "withitem", "Pass", "BinOp", "Mod", "Add", "Dict", "keyword", "Load",
    "Store", "Del", "Expr", "UnaryOp", "USub", "Not",
}  # fmt: skip


def test_any_python_can_parse_the_injected_file() -> None:
    source = INJECTED.read_text(encoding="ascii")
    tree = ast.parse(source, feature_version=(3, 4))
    assert {type(node).__name__ for node in ast.walk(tree)} <= OLD
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.returns is None
            assert node.args.kwonlyargs == node.args.posonlyargs == []
        elif isinstance(node, ast.arg):
            assert node.annotation is None
        elif isinstance(node, ast.Raise):
            assert node.cause is None


def test_every_other_python_that_is_here_runs_its_program_and_leaves_word(tmp_path: Path) -> None:
    names = ["python2.7", "python3.6", "python3.8", "python3.10", "pypy3"]
    others = [
        other for other in map(shutil.which, names) if other and not subprocess.call([other, "-c", ""], stderr=-3)
    ]
    if not others:
        pytest.skip(f"none of {', '.join(names)} is on this machine")
    session = Session(tmp_path, "print('runs')")
    for session.python in others:
        recorded = session.record()
        assert recorded.out == "runs\n"
        (word,) = recorded.spool.glob("*.bypassed")
        assert "needs CPython 3.11" in word.read_text()

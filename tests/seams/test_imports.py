"""A patch waits for the program's own import, and the program's import is what it would be without us.

The finder is process-wide, so each test starts a Python of its own.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder of modules that a program may import."""
    (tmp_path / "plain.py").write_text("value = 1\n")
    (tmp_path / "broken.py").write_text("import plain\n1 / 0\n")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package import inner\nready = True\n")
    (package / "inner.py").write_text("value = 2\n")
    (tmp_path / "namespace").mkdir()
    (tmp_path / "circle.py").write_text("import watcher_of_circle\nvalue = 3\n")
    (tmp_path / "watcher_of_circle.py").write_text(
        "from tachograph.seams.imports import when_imported\n"
        "when_imported('circle', lambda module: setattr(module, 'patched', module.value))\n"
    )
    return tmp_path


def run(folder: Path, source: str) -> list[str]:
    """What a program prints, line by line; `seen` holds what was patched."""
    head = "from tachograph.seams import imports\nfrom tachograph.seams.imports import when_imported\nseen = []\n"
    done = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(source)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_patch_is_applied_when_the_program_imports_the_module_and_not_before(modules: Path) -> None:
    lines = run(modules, """
        import sys
        when_imported("plain", lambda module: seen.append(module.value))
        print(seen, "plain" in sys.modules)
        import plain
        print(seen, plain is sys.modules["plain"])
        import importlib; importlib.import_module("plain")
        print(seen)
    """)  # fmt: skip
    assert lines == ["[] False", "[1] True", "[1]"]


def test_a_module_that_is_there_already_is_patched_at_once(modules: Path) -> None:
    assert run(modules, """
        import plain
        when_imported("plain", lambda module: seen.append(module))
        print(seen == [plain])
    """) == ["True"]  # fmt: skip


def test_a_patch_that_comes_in_the_midst_of_its_modules_import_is_told_to_have_failed(modules: Path) -> None:
    assert run(modules, """
        import circle
        print(hasattr(circle, "patched"), [name for name, _ in imports.failures])
    """) == ["False ['circle']"]  # fmt: skip


def test_several_patches_of_one_module_are_applied_in_their_order(modules: Path) -> None:
    assert run(modules, """
        for number in range(3):
            when_imported("plain", lambda module, number=number: seen.append(number))
        import plain
        print(seen)
    """) == ["[0, 1, 2]"]  # fmt: skip


def test_submodules_and_packages_are_patched_each_by_its_own_name(modules: Path) -> None:
    assert run(modules, """
        when_imported("package", lambda module: seen.append(("package", module.ready)))
        when_imported("package.inner", lambda module: seen.append(("inner", module.value)))
        from package.inner import value
        print(seen)
    """) == ["[('inner', 2), ('package', True)]"]  # fmt: skip


def test_what_the_program_sees_of_the_module_is_what_it_would_have_seen(modules: Path) -> None:
    source = """
        import importlib, importlib.util, inspect, pkgutil, plain
        print(type(plain.__loader__).__name__, type(plain.__spec__.loader).__name__)
        print(plain.__spec__.origin == plain.__file__)
        print(plain.__loader__ is plain.__spec__.loader, inspect.getsource(plain).strip(), plain.__cached__ is not None)
        print(type(importlib.util.find_spec("plain").loader).__name__)
        print(importlib.reload(plain) is plain)
    """
    without = run(modules, source)
    assert run(modules, 'when_imported("plain", seen.append)' + textwrap.dedent(source)) == without


def test_looking_for_a_module_without_importing_it_changes_nothing(modules: Path) -> None:
    assert run(modules, """
        import importlib.util, sys
        when_imported("plain", lambda module: seen.append(module.value))
        when_imported("absent", seen.append)
        spec = importlib.util.find_spec("plain")
        print(spec.name, spec.loader.get_filename("plain") == spec.origin, spec.loader.is_package("plain"), seen)
        print(importlib.util.find_spec("absent"))
        module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
        print(module.value, seen)
    """) == ["plain True False []", "None", "1 [1]"]  # fmt: skip


def test_a_patch_that_fails_is_told_and_does_not_break_the_import(modules: Path) -> None:
    lines = run(modules, """
        def fails(module):
            raise AttributeError("another version")
        when_imported("plain", fails)
        when_imported("plain", lambda module: seen.append("next"))
        import plain
        print(plain.value, seen, [(name, str(fault)) for name, fault in imports.failures])
        when_imported("plain", fails)
        print(len(imports.failures))
    """)  # fmt: skip
    assert lines == ["1 ['next'] [('plain', 'another version')]", "2"]


def test_a_module_that_fails_to_import_fails_as_without_us_and_may_be_tried_again(modules: Path) -> None:
    assert run(modules, """
        import pathlib, sys
        when_imported("broken", lambda module: seen.append(module.fixed))
        try:
            import broken
        except ZeroDivisionError:
            print("as without us", "broken" in sys.modules)
        pathlib.Path("broken.py").write_text("fixed = True  # longer than before\\n")
        import broken
        print(seen)
    """) == ["as without us False", "[True]"]  # fmt: skip


def test_a_module_that_is_not_there_is_not_found_and_a_namespace_package_is(modules: Path) -> None:
    assert run(modules, """
        when_imported("absent", seen.append)
        when_imported("namespace", seen.append)
        try:
            import absent
        except ModuleNotFoundError as fault:
            print(fault.name, fault)
        import namespace
        print(list(namespace.__path__) != [])
    """) == ["absent No module named 'absent'", "True"]  # fmt: skip


def test_a_program_that_puts_a_finder_of_its_own_first_is_still_watched(modules: Path) -> None:
    assert run(modules, """
        import sys
        class Own:
            def find_spec(self, name, path=None, target=None):
                return None
        when_imported("plain", lambda module: seen.append(module.value))
        sys.meta_path.insert(0, Own())
        import plain
        print(seen)
    """) == ["[1]"]  # fmt: skip


def test_nothing_is_imported_on_behalf_of_a_patch(modules: Path) -> None:
    assert run(modules, """
        import sys
        before = set(sys.modules)
        for name in ("httpx", "httpx2", "asyncio.base_events", "subprocess", "uuid"):
            when_imported(name, seen.append)
        print(set(sys.modules) - before)
    """) == ["set()"]  # fmt: skip

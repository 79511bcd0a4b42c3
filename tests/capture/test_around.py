"""What a run says of its code and its surroundings, held against real repositories, lock files and environments."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import pytest

from tachograph.capture.around import at_once, entry_of, image_digest
from tachograph.capture.dependencies import distributions, folders_of, lock_file
from tachograph.capture.image import surroundings
from tachograph.capture.looking import look
from tachograph.capture.repository import find_repository
from tachograph.capture.uncommitted import uncommitted

ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "TACHO_", "PYTHON"))},
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@localhost", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@localhost",
}  # fmt: skip
Git = Callable[..., str]


def git(folder: Path, *words: str) -> str:
    """Run git there and return what it says."""
    return subprocess.run(["git", *words], cwd=folder, env=ENV, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, of one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "agent.py").write_text("print('one')\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def commit_of(folder: Path) -> str | None:
    found = find_repository(str(folder))
    return found.commit() if found is not None else "none"


def changes(
    folder: Path, *, seconds: float = 30.0, commit: str | None = None, env: dict[str, str] = ENV, most: int = 10_000
) -> str:  # fmt: skip
    found = find_repository(str(folder))
    assert found is not None
    return uncommitted(found, commit or found.commit() or "", environ=env, until=time.monotonic() + seconds, most=most)


# --- the commit -------------------------------------------------------------------------------------------------------


def test_the_commit_is_read_as_git_reads_it_loose_packed_and_detached(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD").strip()
    (repository / "below" / "it").mkdir(parents=True)
    assert commit_of(repository / "below" / "it") == head
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert commit_of(repository) == head
    git(repository, "checkout", "-q", "--detach")
    assert (repository / ".git/HEAD").read_text().strip() == head
    assert commit_of(repository) == head


def test_a_worktree_has_its_own_commit_and_shares_the_refs(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    (tmp_path / "other" / "new.py").write_text("pass\n")
    git(tmp_path / "other", "add", ".")
    git(tmp_path / "other", "commit", "-q", "-m", "two")
    head = git(tmp_path / "other", "rev-parse", "HEAD").strip()
    assert commit_of(tmp_path / "other") == head != commit_of(repository)
    git(repository, "pack-refs", "--all")
    assert commit_of(tmp_path / "other") == head
    assert changes(tmp_path / "other") == ""
    (tmp_path / "other" / "new.py").write_text("changed\n")
    assert changes(tmp_path / "other").startswith("+sha256:")
    assert changes(repository) == ""


def test_no_repository_and_no_commit_yet_are_two_things(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == "none"
    said = at_once([sys.executable, "x.py"], str(tmp_path), ENV, path=[])
    assert (said.get("codeVersion"), said["missing"]["codeVersion"]) == (None, "no_repository")
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) is None
    said = at_once([sys.executable, "x.py"], str(tmp_path), ENV, path=[])
    assert (said.get("codeVersion"), said["missing"]["codeVersion"]) == (None, "no_commit")


def test_a_ref_that_leads_out_of_the_refs_is_not_followed(repository: Path) -> None:
    (repository / ".git/elsewhere").write_text("a" * 40)
    (repository / ".git/HEAD").write_text("ref: elsewhere\n")
    assert commit_of(repository) is None
    (repository / ".git/HEAD").write_text("ref: refs/../elsewhere\n")
    assert commit_of(repository) is None


# --- what is not committed --------------------------------------------------------------------------------------------


def test_each_state_of_the_work_tree_has_a_digest_of_its_own_and_the_committed_one_none(repository: Path) -> None:
    agent = repository / "agent.py"
    found = [changes(repository)]
    for text in ("print('two')\n", "print('three')\n"):
        agent.write_text(text)
        found.append(changes(repository))
    git(repository, "add", ".")
    assert changes(repository) == found[-1]  # staged or not, the same code runs
    agent.chmod(0o755)
    found.append(changes(repository))
    agent.unlink()
    found.append(changes(repository))
    agent.symlink_to("elsewhere.py")
    found.append(changes(repository))
    agent.unlink()
    git(repository, "reset", "-q", "--hard")
    for name in ("tools.py", "a name\nof two lines.py"):
        (repository / name).write_text("x = 1\n")
        found.append(changes(repository))
    (repository / "tools.py").write_text("x = 2\n")
    found.append(changes(repository))
    assert found[0] == ""
    assert len(set(found)) == len(found) == 9
    assert all(len(one) == len("+sha256:") + 64 for one in found[1:])
    git(repository, "clean", "-fdq")
    os.utime(agent, (1, 1))  # touched, not changed
    assert changes(repository) == ""


def test_what_git_ignores_does_not_count(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    (repository / "run.log").write_text("x")
    assert changes(repository) == ""


def test_a_submodule_at_another_commit_is_a_change(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), str(repository / "part"))
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "part")
    git(repository, "commit", "-q", "-m", "with a part")
    assert changes(repository) == ""
    found = [""]
    for message in ("further", "and further"):
        git(repository / "part", "commit", "-q", "--allow-empty", "-m", message)
        found.append(changes(repository))
    assert len(set(found)) == 3


def test_nothing_of_the_repository_s_own_is_run_and_nothing_is_written(repository: Path, tmp_path: Path) -> None:
    said = tmp_path / "it ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n: > '{said}'\ncat 2>/dev/null\n")
    script.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=own.Filter diff=own\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    hook = repository / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(script.read_text())
    hook.chmod(0o755)
    for name in ("filter.own.Filter.clean", "diff.own.textconv", "diff.own.command", "core.fsmonitor"):
        git(repository, "config", name, f"'{script}'" if name != "core.fsmonitor" else str(script))
    git(repository, "config", "filter.own.Filter.required", "true")
    os.utime(repository / "agent.py", (1, 1))
    index = (repository / ".git/index").read_bytes()
    assert changes(repository) == ""
    assert not said.exists()
    assert (repository / ".git/index").read_bytes() == index
    git(repository, "status")
    assert said.exists()  # as git itself would have run it


def test_a_repository_named_in_the_environment_is_not_the_code_s(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    env = {**ENV, "GIT_DIR": str(tmp_path / "other/.git"), "GIT_WORK_TREE": str(tmp_path / "other")}
    assert changes(repository, env=env) == ""


def test_why_it_is_not_known_what_is_uncommitted(repository: Path) -> None:
    assert changes(repository, env={**ENV, "PATH": ""}) == "+unknown:git_missing"
    assert changes(repository, seconds=0) == "+unknown:timed_out"
    assert changes(repository, commit="a" * 40) == "+unknown:moved"
    (repository / "one.py").touch()
    (repository / "two.py").touch()
    assert changes(repository, most=1) == "+unknown:too_many"
    (repository / ".git/index").write_bytes(b"no index")
    assert changes(repository) == "+unknown:git_failed"


def test_the_keys_of_the_program_s_terminal_do_not_reach_git(repository: Path, tmp_path: Path) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nps -o sid= -p $$ > '{tmp_path}/session'\nsleep 60 & wait\n")
    slow.chmod(0o755)
    env = {**ENV, "PATH": f"{slow.parent}:{ENV['PATH']}"}
    assert changes(repository, seconds=1.5, env=env) == "+unknown:timed_out"
    assert int((tmp_path / "session").read_text()) != os.getsid(0)


# --- the entry point --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["agent.py", "-m", "x"], "file:agent.py"),
        (["-u", "-W", "error", "-Xutf8", "sub/agent.py"], "file:sub/agent.py"),
        (["-X", "dev", "-Wignore", "../outside.py"], "file:outside.py"),
        (["-m", "pkg.agent", "-c", "x"], "module:pkg.agent"),
        (["-Im", "pkg"], "module:pkg"),
        (["-ummain"], "module:main"),
        (["-c", "pass", "agent.py"], "code:sha256:" + sha256(b"pass").hexdigest()),
        (["--check-hash-based-pycs", "never", "agent.py"], "file:agent.py"),
        (["-"], "stdin"),
        ([], "stdin"),
    ],
)
def test_the_entry_point_is_read_as_the_interpreter_reads_it(tmp_path: Path, words: list[str], name: str) -> None:
    said = at_once(["python3.11", *words], str(tmp_path), ENV, path=[])
    assert said["entryPoint"] == name


def test_a_script_is_a_file_of_its_interpreter_and_any_other_program_a_name(tmp_path: Path) -> None:
    script, env = tmp_path / "bin" / "agent", {**ENV, "PATH": f"{tmp_path}/bin:{Path(sys.executable).parent}:/bin"}
    script.parent.mkdir()
    for line in (f"#!{sys.executable} -u", f"#!/usr/bin/env {Path(sys.executable).name}"):
        script.write_text(f"{line}\nprint(1)\n")
        script.chmod(0o755)
        found = entry_of(["agent"], str(tmp_path), env)
        assert (found.file, found.python) == (str(script), sys.executable)
    assert at_once(["agent"], str(tmp_path), env, path=[])["entryPoint"] == "file:bin/agent"
    assert at_once(["agent"], "/", env, path=[])["entryPoint"] == "file:agent"
    script.write_text("#!/bin/sh\n")
    found = entry_of(["./bin/agent"], str(tmp_path), env)
    assert (found.name, found.python) == ("program:agent", None)
    assert entry_of(["no such program"], str(tmp_path), env).name == "program:no such program"


def test_an_entry_point_in_a_repository_is_told_from_its_root(repository: Path) -> None:
    (repository / "src").mkdir()
    said = at_once(["python", str(repository / "src/agent.py")], "/", ENV, path=[])
    assert said["entryPoint"] == "file:src/agent.py"
    assert said["codeVersion"] == f"git:{commit_of(repository)}+unknown:not_asked"


# --- what the code stands on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml", "pixi.lock"])
def test_the_lock_file_beside_the_entry_point_or_above_it_in_the_repository(repository: Path, name: str) -> None:
    inner = repository / "src" / "pkg"
    inner.mkdir(parents=True)
    (repository.parent / name).write_text("above the repository")
    assert lock_file(str(inner), str(repository)) is None
    (repository / name).write_text("the lock")
    wanted = (name, "sha256:" + sha256(b"the lock").hexdigest())
    assert lock_file(str(inner), str(repository)) == wanted
    assert lock_file(str(inner), None) is None
    assert lock_file(str(repository), None) == wanted
    (inner / "requirements.txt").write_text("a==1 \\\n    --hash=sha256:00\n# b\n--no-deps\nc==2\n")
    assert (lock_file(str(inner), str(repository)) or ("",))[0] == "requirements.txt"
    (inner / "requirements.txt").write_text("a==1\nb>=2\n")  # pins nothing for sure
    assert lock_file(str(inner), str(repository)) == wanted
    said = at_once(["python", str(inner / "agent.py")], "/", ENV, path=[])
    assert (said["dependencySource"], said["dependencyLockHash"]) == wanted


def test_without_a_lock_file_the_interpreter_s_distributions_are_said(tmp_path: Path) -> None:
    found = distributions(folders_of(sys.executable, ENV))
    asked = subprocess.run(
        [sys.executable, "-c", "from importlib.metadata import distributions as d\n"
         "print(*sorted({one.name.lower().replace('_', '-').replace('.', '-') + '==' + one.version for one in d()}))"],
        env=ENV, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert list(found) == asked
    assert f"pytest=={metadata.version('pytest')}" in found
    said = look([sys.executable, "agent.py"], str(tmp_path), ENV)
    assert said["dependencySource"] == "distributions"
    assert said["dependencyLockHash"] == "sha256:" + sha256("\n".join(asked).encode()).hexdigest()
    said = look(["/bin/true"], str(tmp_path), ENV)
    assert said["missing"]["dependencyLockHash"] == said["missing"]["containerImageDigest"] == "interpreter_unknown"


def test_a_virtual_environment_sees_its_own_distributions_and_the_base_s_only_if_told(tmp_path: Path) -> None:
    base, home = tmp_path / "base", tmp_path / "venv"
    for prefix, name in ((base, "Of_The.Base-1.0.dist-info"), (home, "own-2.0.dist-info"), (base, "own-1.0.egg-info")):
        (prefix / "lib/python3.11/site-packages" / name).mkdir(parents=True)
    (base / "lib/python3.12/site-packages/of_another-1.dist-info").mkdir(parents=True)
    (base / "bin").mkdir()
    (home / "bin").mkdir()
    (base / "bin/python3.11").touch()
    (home / "bin/python").symlink_to(base / "bin/python3.11")
    (home / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    env = {"HOME": str(tmp_path)}
    python = str(home / "bin/python")
    assert list(distributions(folders_of(python, env))) == ["own==2.0"]
    (home / "pyvenv.cfg").write_text("home = x\ninclude-system-site-packages = true\n")
    assert list(distributions(folders_of(python, env))) == ["of-the-base==1.0", "own==2.0"]
    assert list(distributions(folders_of(str(base / "bin/python3.11"), env))) == ["of-the-base==1.0", "own==1.0"]
    (tmp_path / "first/extra-3.dist-info").mkdir(parents=True)
    assert "extra==3" in distributions(folders_of(python, {**env, "PYTHONPATH": str(tmp_path / "first")}))


# --- the image --------------------------------------------------------------------------------------------------------


def test_the_image_is_the_one_that_somebody_says(tmp_path: Path) -> None:
    digest, container = "sha256:" + "ab" * 32, tmp_path / "containerenv"
    assert image_digest({"TACHO_IMAGE_DIGEST": digest}) == digest
    assert image_digest({"TACHO_IMAGE_DIGEST": f"user:word@registry/agent@{digest}"}) == digest
    for given in ("", "agent:latest", "sha256:abc", "md5:" + "ab" * 16, "sha256:" + "AB" * 32):
        assert image_digest({"TACHO_IMAGE_DIGEST": given}, container=str(container)) is None
    container.write_text(f'engine="podman-5"\nimageid="{"cd" * 32}"\n')
    assert image_digest({}, container=str(container)) == "sha256:" + "cd" * 32
    assert image_digest({"TACHO_IMAGE_DIGEST": digest}, container=str(container)) == digest
    said = look([sys.executable, "x.py"], str(tmp_path), {**ENV, "TACHO_IMAGE_DIGEST": digest})
    assert said["containerImageDigest"] == digest


def test_the_surroundings_are_the_same_twice_and_others_with_each_part(tmp_path: Path) -> None:
    python, info, weights = tmp_path / "python", tmp_path / "a-1.dist-info", tmp_path / "model.gguf"
    python.write_bytes(b"interpreter")
    info.mkdir()
    (info / "RECORD").write_text("a.so,sha256=1,1\n")
    weights.write_bytes(b"w" * 100)

    def now(*, argv: tuple[str, ...] = ("agent.py", "model.gguf"), environ: dict[str, str] | None = None) -> str:
        found = distributions([str(tmp_path)])
        return surroundings(str(python), found, argv=argv, cwd=str(tmp_path), environ=environ or {})

    found = [now()]
    assert now() == found[0]
    assert now(argv=("agent.py",), environ={"MODEL": str(weights)}) == found[0]
    assert found[0].startswith("env:sha256:")
    found.append(now(argv=("agent.py",)))
    weights.write_bytes(b"w" * 99 + b"x")
    found.append(now())
    (info / "RECORD").write_text("a.so,sha256=2,1\n")
    found.append(now())
    info.rename(tmp_path / "a-2.dist-info")
    found.append(now())
    python.write_bytes(b"another interpreter")
    found.append(now())
    assert len(set(found)) == len(found)
